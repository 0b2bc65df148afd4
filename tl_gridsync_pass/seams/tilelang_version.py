"""Which TileLang releases the seams were checked against."""

from __future__ import annotations

import os
import re
import warnings

import tilelang

from ..errors import SeamError

# Those that tools/matrix.py runs the tests against.
KNOWN_VERSIONS = ("0.1.9", "0.1.10", "0.1.11", "0.1.12", "0.1.13", "0.1.14", "0.1.15")
ALLOW_UNTESTED = "TL_GRIDSYNC_ALLOW_UNTESTED"


def require_known_version() -> None:
    """Refuse a TileLang that the seams were never checked against.

    Raises
    ------
    SeamError
        For an unknown version; for a newer one only while TL_GRIDSYNC_ALLOW_UNTESTED is not 1. It is then let
        through with a warning, since each seam still checks what it attaches to and refuses what it does not know.
    """
    version = tilelang.__version__.partition("+")[0]
    if version in KNOWN_VERSIONS:
        return
    tested = f"{KNOWN_VERSIONS[0]} to {KNOWN_VERSIONS[-1]}"
    newer = _release(version) > _release(KNOWN_VERSIONS[-1])
    if newer and os.environ.get(ALLOW_UNTESTED) == "1":
        warnings.warn(
            f"tl_gridsync: TileLang {version} is newer than what this release was tested with ({tested}); "
            f"{ALLOW_UNTESTED}=1 lets it through, and every seam still checks what it attaches to",
            stacklevel=2,
        )
        return
    way_out = f", or set {ALLOW_UNTESTED}=1 to try it all the same" if newer else ""
    raise SeamError(
        f"tl_gridsync: TileLang {version} is not among the versions this release was tested with ({tested}). Install one of those{way_out}."
    )


def _release(version: str) -> tuple[int, ...]:
    """The numbers before any suffix: (0, 1, 16) for 0.1.16rc1."""
    match = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in match.group().split(".")) if match else ()
