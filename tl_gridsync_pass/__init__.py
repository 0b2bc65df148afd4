"""A TileLang compiler plugin that makes ``T.sync_grid()`` right in CuTeDSL kernels.

Importing the package attaches it to TileLang; a kernel uses the pass when its compilation asks for it::

    import tilelang, tl_gridsync_pass as gs
    kernel = tilelang.compile(func, target="cutedsl", passes=[gs.GridSyncPass()])
"""

from .cli.invocation import is_command_line
from .errors import (
    GridResidencyError,
    GridSyncDivergenceError,
    GridSyncError,
    GridSyncLoweringError,
    GridSyncOptionError,
    GridSyncTargetError,
    GridSyncTimeoutError,
    GridSyncWarning,
    SeamError,
)

__version__ = "0.1.0"

__all__ = [
    "GridResidencyError",
    "GridSyncDivergenceError",
    "GridSyncError",
    "GridSyncLoweringError",
    "GridSyncOptionError",
    "GridSyncOptions",
    "GridSyncPass",
    "GridSyncTargetError",
    "GridSyncTimeoutError",
    "GridSyncWarning",
    "SeamError",
    "VerifyGridSync",
    "attached",
    "disable",
    "enable",
    "enabled",
    "install",
    "max_coresident_blocks",
    "synchronize",
    "uninstall",
]

# Why the plugin is not attached. Only the command line gets so far with one: `doctor` is there to report it.
attach_error: Exception | None = None

try:
    # First and by itself: where TL_GRIDSYNC_PASS is set, the loader of tilelang loads, at the end of this
    # import, the rest of the package, and must find none of it half loaded.
    import tilelang  # noqa: F401

    from .lowering import GridSyncPass
    from .options import GridSyncOptions
    from .process import disable, enable, enabled
    from .seams import attached, install, uninstall
    from .seams.launch import max_coresident_blocks, synchronize
    from .verify import VerifyGridSync

    install()
except Exception as error:
    if not is_command_line():
        raise
    attach_error = error
