"""The process-wide setting: ``enable()``, ``disable()`` and ``enabled()``.

It holds for kernels whose compilation says nothing about the pass itself. A compilation reads it once,
in the thread that starts it, and carries the answer on as pass configs.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .options import GridSyncOptions

_lock = threading.Lock()
_current: GridSyncOptions | None = None


def enable(**options: object) -> None:
    """Use the pass for every CuTeDSL kernel that this process compiles from now on.

    Parameters
    ----------
    **options
        The fields of :class:`~tl_gridsync_pass.options.GridSyncOptions`.

    Raises
    ------
    GridSyncOptionError
        For an unknown value. TypeError for an unknown name.
    """
    _set(GridSyncOptions(**options))  # type: ignore[arg-type]


def disable() -> None:
    """Stop using the pass for kernels whose compilation does not ask for it itself."""
    _set(None)


@contextmanager
def enabled(**options: object) -> Iterator[None]:
    """Use the pass for the kernels compiled inside the ``with`` block, in any thread of the process."""
    before = current()
    enable(**options)
    try:
        yield
    finally:
        _set(before)


def current() -> GridSyncOptions | None:
    """The process-wide options, or None where the pass is off."""
    return _current


def _set(options: GridSyncOptions | None) -> None:
    global _current
    with _lock:
        _current = options
