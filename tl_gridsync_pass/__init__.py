"""A TileLang compiler plugin that makes ``T.sync_grid()`` right in CuTeDSL kernels.

Importing the package attaches it to TileLang; a kernel uses the pass when its compilation asks for it::

    import tilelang, tl_gridsync_pass as gs
    kernel = tilelang.compile(func, target="cutedsl", passes=[gs.GridSyncPass()])
"""

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
from .lowering import GridSyncPass
from .options import GridSyncOptions
from .process import disable, enable, enabled
from .seams import attached, install, uninstall
from .seams.launch import max_coresident_blocks, synchronize
from .verify import VerifyGridSync

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

install()
