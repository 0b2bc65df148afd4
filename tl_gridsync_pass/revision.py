"""The revision of what the pass emits: it is part of the kernel cache's key.

A kernel in the cache may still have to be compiled to a cubin, with whatever device code is installed
then, so anything that changes the emitted code must change the key. Rather than trust a number that
somebody has to remember to raise, the revision is a hash of the files that decide the emission.
"""

from __future__ import annotations

import hashlib
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

# device.py is read, not imported: importing it loads CuTe DSL.
_EMITTING_MODULES = (
    "protocol",
    "device",
    "cuda_source",
    "lowering",
    "split_phase",
    "warp_specialized",
    "seams.source_hook",
    "seams.launcher_source",
)


@lru_cache(maxsize=1)
def emission_revision() -> str:
    """16 hex digits that change whenever the text of an emitting module changes."""
    digest = hashlib.sha256()
    for name in _EMITTING_MODULES:
        spec = find_spec(f"{__package__}.{name}")
        assert spec is not None and spec.origin is not None
        digest.update(Path(spec.origin).read_bytes())
    return digest.hexdigest()[:16]
