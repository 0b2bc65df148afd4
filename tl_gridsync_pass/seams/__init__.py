"""Everything that touches TileLang's internals. README.md beside this file says which seam does what."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from ..errors import SeamError

if TYPE_CHECKING:
    from .attachments import Attachment

_lock = threading.Lock()
_attachments: list[Attachment] = []


def install() -> None:
    """Attach the plugin to TileLang; nothing to do where it is attached already.

    Raises
    ------
    SeamError
        An ImportError: the TileLang is unknown, lacks something the plugin attaches to, or the native
        library is missing. Nothing stays attached then.
    """
    # Imported here, so that what only reads TileLang's files can be imported from this package where
    # TileLang itself cannot be.
    from . import codegen, entry_points, kernel_cache, launch, launcher_source
    from .pass_config import register_keys
    from .tilelang_version import require_known_version

    with _lock:
        if _attachments:
            return
        require_known_version()
        register_keys()
        try:
            for seam in (codegen, kernel_cache, entry_points, launcher_source, launch):
                _attachments.extend(seam.attach())
        except BaseException:
            _detach()
            raise


def uninstall() -> None:
    """Detach from TileLang: every seam holds the very object again that it held before.

    The pass-config keys stay known to TVM, which has no way to forget one; they have no effect then.

    Raises
    ------
    SeamError
        Where something else has replaced a seam after the plugin did. Everything stays attached then.
    """
    with _lock:
        foreign = [attachment.place for attachment in _attachments if not attachment.is_ours()]
        if foreign:
            raise SeamError(
                f"tl_gridsync: cannot detach from {', '.join(foreign)}: something else replaced it after the plugin did. Undo that first."
            )
        _detach()


def attached() -> list[str]:
    """The places that the plugin is attached to, in the order in which it attached."""
    return [attachment.place for attachment in _attachments]


def _detach() -> None:
    while _attachments:
        _attachments[-1].restore()
        _attachments.pop()
