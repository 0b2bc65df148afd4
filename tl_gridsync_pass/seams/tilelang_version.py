"""Which TileLang releases the seams were checked against."""

from __future__ import annotations

import os
import warnings

import tilelang

from ..errors import SeamError

KNOWN_VERSIONS = ("0.1.15",)
ALLOW_UNTESTED = "TL_GRIDSYNC_ALLOW_UNTESTED"


def require_known_version() -> None:
    """Refuse a TileLang that the seams were never checked against.

    Raises
    ------
    SeamError
        For an unknown version; for a newer one only while TL_GRIDSYNC_ALLOW_UNTESTED is not 1, since each
        seam still checks what it attaches to.
    """
    version = tilelang.__version__.partition("+")[0]
    if version in KNOWN_VERSIONS:
        return
    known = f"{KNOWN_VERSIONS[0]} to {KNOWN_VERSIONS[-1]}" if len(KNOWN_VERSIONS) > 1 else KNOWN_VERSIONS[0]
    newer = _numbers(version) > _numbers(KNOWN_VERSIONS[-1])
    if newer and os.environ.get(ALLOW_UNTESTED) == "1":
        warnings.warn(f"tl_gridsync: TileLang {version} is untested (tested: {known}); {ALLOW_UNTESTED}=1 lets it through", stacklevel=2)
        return
    way_out = f" or set {ALLOW_UNTESTED}=1 to try it all the same" if newer else ""
    raise SeamError(f"tl_gridsync: TileLang {version} is not among the versions this release was tested with ({known}). Install one of those{way_out}.")


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())
