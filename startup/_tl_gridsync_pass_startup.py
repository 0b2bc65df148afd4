"""Makes ``TL_GRIDSYNC_PASS`` work in programs that never import tl_gridsync_pass.

``tl_gridsync_pass.pth``, which lies beside this file at the root of site-packages, has every interpreter
look at the variable, and imports this module only where it is set. The module stands outside of the
package because importing the package imports TileLang.

Python reports an exception in a ``.pth`` line and goes on without it, so nothing that can fail is done
there: whatever is wrong is raised by the program's own ``import tilelang``.

wrapt's post-import hooks are not used for this. While ``.pth`` files are processed, wrapt may lie in a folder that is
not on the path yet (the system's, for a virtual environment that includes it); and to import it once somebody
looks for ``tilelang`` is too late, since Python calls finders with its import lock held, and two threads that
import at once then wait for each other for ever.
"""

import os
import sys

VARIABLE = "TL_GRIDSYNC_PASS"
# As in tl_gridsync_pass/environment.py, which cannot be imported without attaching the plugin.
OFF = ("0", "false", "no", "off")


class _AttachingLoader:
    """TileLang's own loader, which attaches the plugin when TileLang's ``__init__`` has run to its end."""

    def __init__(self, loader):
        self.loader = loader

    def __getattr__(self, name):
        return getattr(self.loader, name)

    def create_module(self, spec):
        return self.loader.create_module(spec)

    def exec_module(self, module):
        # The module keeps its own loader, which inspect and importlib.resources ask.
        module.__spec__.loader = module.__loader__ = self.loader
        self.loader.exec_module(module)
        _attach(module)


class _TileLangFinder:
    """Finds ``tilelang`` as the other finders do. It imports nothing, see above, and keeps no state."""

    def find_spec(self, name, path=None, target=None):
        if name != "tilelang":
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _AttachingLoader(spec.loader)
                return spec
        return None


def register():
    """Attach the plugin whenever TileLang has been imported, as far as the variable then asks for it."""
    # Python may process a folder's .pth files more than once.
    if not any(isinstance(finder, _TileLangFinder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _TileLangFinder())


def _attach(tilelang):
    """Attach to the module, which is complete; an exception makes its import fail, and each further one."""
    if os.environ.get(VARIABLE, "").strip().lower() in ("", *OFF):
        return
    # `python -m tilelang.autodd` imports a TileLang without a compiler; what it runs are processes of their own.
    if getattr(tilelang.env, "is_light_import", bool)():
        return
    from tl_gridsync_pass import environment, seams

    environment.requested()
    seams.install()
