"""The process-wide setting: ``enable()``, ``disable()`` and ``enabled()``.

It holds for kernels whose compilation says nothing about the pass itself, and where the process says
nothing either, the environment decides. A compilation reads it once, in the thread that starts it, and
carries the answer on as pass configs.
"""

from __future__ import annotations

import enum
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from . import environment
from .options import GridSyncOptions


class _NotSet(enum.Enum):
    """Nobody called ``enable()`` or ``disable()``, so the environment decides."""

    NOT_SET = "not set"


NOT_SET: Final = _NotSet.NOT_SET

_lock = threading.Lock()
_setting: GridSyncOptions | _NotSet | None = NOT_SET


def enable(**options: object) -> None:
    """Use the pass for every CuTeDSL kernel that this process compiles from now on.

    It takes the place of what the environment variable ``TL_GRIDSYNC_PASS`` says.

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
    """Stop using the pass for kernels whose compilation does not ask for it itself, whatever the environment says."""
    _set(None)


def reset() -> None:
    """Forget what ``enable()`` or ``disable()`` said, so that the environment decides again."""
    _set(NOT_SET)


@contextmanager
def enabled(**options: object) -> Iterator[None]:
    """Use the pass for the kernels compiled inside the ``with`` block, in any thread of the process.

    Afterwards the setting is again what it was before, "not set" included.
    """
    before = _setting
    enable(**options)
    try:
        yield
    finally:
        _set(before)


def current() -> GridSyncOptions | None:
    """The options for kernels that say nothing themselves, or None where the pass is off.

    Raises
    ------
    GridSyncOptionError
        Where the environment decides and holds a value that is not understood.
    """
    setting = _setting
    return environment.requested() if isinstance(setting, _NotSet) else setting


def _set(setting: GridSyncOptions | _NotSet | None) -> None:
    global _setting
    with _lock:
        _setting = setting
