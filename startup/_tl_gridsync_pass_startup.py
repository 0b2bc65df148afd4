"""Makes ``TL_GRIDSYNC_PASS`` work in programs that never import tl_gridsync_pass.

``tl_gridsync_pass.pth``, which lies beside this file at the root of site-packages, has every interpreter
look at the variable, and imports this module only where it is set. The module stands outside of the
package because importing the package imports TileLang.

Python reports an exception in a ``.pth`` line and goes on without it, so nothing that can fail is done
there: whatever is wrong is raised by the program's own ``import tilelang``.
"""

import importlib.util
import os
import sys

VARIABLE = "TL_GRIDSYNC_PASS"
# As in tl_gridsync_pass/environment.py, which cannot be imported without attaching the plugin.
OFF = ("0", "false", "no", "off")


class _TileLangFinder:
    """Waits for the first look-up of ``tilelang`` and hands it to wrapt's post-import hook.

    wrapt is not imported earlier, because it may lie in a folder that is not on the path yet while ``.pth``
    files are processed: the system's, for a virtual environment that includes it.
    """

    def find_spec(self, name, path=None, target=None):
        if name != "tilelang":
            return None
        from wrapt import register_post_import_hook

        sys.meta_path.remove(self)
        register_post_import_hook(_attach, name)
        return importlib.util.find_spec(name)


def register():
    """Attach the plugin once TileLang has been imported, as far as the variable then asks for it."""
    sys.meta_path.insert(0, _TileLangFinder())


def _attach(tilelang):
    """Called with the module when its ``__init__`` has run to its end; an exception makes its import fail."""
    if os.environ.get(VARIABLE, "").strip().lower() in ("", *OFF):
        return
    # `python -m tilelang.autodd` imports a TileLang without a compiler; what it runs are processes of their own.
    if getattr(tilelang.env, "is_light_import", bool)():
        return
    try:
        from tl_gridsync_pass import environment, seams

        environment.requested()
        seams.install()
    except BaseException:
        # A program that catches this and imports TileLang again must not get it without the plugin.
        register()
        raise
