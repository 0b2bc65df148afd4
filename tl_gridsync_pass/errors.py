"""The errors this package raises. Each message names the kernel, what is wrong and what to do.

They are registered with TVM FFI: the pass and the code generators are called through C++, which turns an
error whose class it does not know into a RuntimeError.
"""

from __future__ import annotations

from tvm_ffi import register_error


class GridSyncError(Exception):
    """Base class of every error raised by tl_gridsync_pass."""


@register_error
class GridSyncOptionError(GridSyncError, ValueError):
    """An option, a pass entry or an environment setting that cannot be honoured."""


@register_error
class GridSyncTargetError(GridSyncError, ValueError):
    """The pass was asked for on a target whose code generator it does not attach to."""


@register_error
class GridSyncLoweringError(GridSyncError, ValueError):
    """The IR holds a grid barrier that cannot be lowered correctly."""


@register_error
class GridSyncDivergenceError(GridSyncError, ValueError):
    """A kernel holds a grid barrier that not every thread of every block reaches equally often."""


class GridSyncWarning(UserWarning):
    """A grid barrier that cannot be proved right, or that only some GPUs or inputs get wrong."""


class KernelFileError(GridSyncError):
    """A Python file whose kernels cannot be found, imported or compiled."""


class SeamError(GridSyncError, ImportError):
    """This TileLang does not offer what the plugin attaches to, so the plugin refuses to load."""


class GridResidencyError(GridSyncError, RuntimeError):
    """A grid with a barrier has more blocks than can be resident at once, so it would wait for ever."""


class GridSyncTimeoutError(GridSyncError, RuntimeError):
    """A block waited longer at a grid barrier than its watchdog allows; the CUDA context is lost."""
