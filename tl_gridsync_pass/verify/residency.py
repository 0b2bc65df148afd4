"""How many blocks any GPU of a target can hold at once: an upper bound for a cooperative launch."""

from __future__ import annotations

import re
from dataclasses import dataclass

_WARP = 32


@dataclass(frozen=True)
class Gpu:
    """The largest GPU of one compute capability.

    Attributes
    ----------
    name : str
    multiprocessors : int
    threads, blocks : int
        Per multiprocessor at most.
    shared_bytes : int
        Shared memory per multiprocessor.
    """

    name: str
    multiprocessors: int
    threads: int
    blocks: int
    shared_bytes: int


# Limits per multiprocessor: CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
# Multiprocessors: the vendor's data sheet of the largest product. Where products of one capability differ,
# the larger count, so that the bound errs on the side of no warning.
_GPUS = {
    70: Gpu("V100", 80, 2048, 32, 96 << 10),
    75: Gpu("Quadro RTX 8000", 72, 1024, 16, 64 << 10),
    80: Gpu("A100", 108, 2048, 32, 164 << 10),
    86: Gpu("RTX A6000", 84, 1536, 16, 100 << 10),
    87: Gpu("Jetson AGX Orin", 16, 1536, 16, 164 << 10),
    89: Gpu("RTX 6000 Ada", 142, 1536, 24, 100 << 10),
    90: Gpu("H100/H200", 132, 2048, 32, 228 << 10),
    100: Gpu("B200", 148, 2048, 32, 228 << 10),
    103: Gpu("B300", 160, 2048, 32, 228 << 10),
    120: Gpu("RTX PRO 6000 Blackwell", 188, 1536, 24, 100 << 10),
    121: Gpu("GB10", 48, 1536, 24, 100 << 10),
}


@dataclass(frozen=True)
class Bound:
    """At most ``blocks`` blocks are resident at once; ``arithmetic`` says why."""

    blocks: int
    gpu: str
    arithmetic: str


def bound(arch: str, threads: int, shared_bytes: int) -> Bound | None:
    """The most blocks that the largest GPU of ``arch`` can hold; None for an unknown architecture.

    Parameters
    ----------
    arch : str
        As in ``"sm_90a"``.
    threads : int
        Threads a block.
    shared_bytes : int
        Dynamic shared memory a block.
    """
    found = re.fullmatch(r"sm_(\d+)[af]?", arch)
    gpu = _GPUS.get(int(found[1])) if found else None
    if gpu is None:
        return None
    # A block takes whole warps.
    taken = -(-threads // _WARP) * _WARP
    limits = {f"{gpu.threads} threads / {taken} a block": gpu.threads // taken, f"{gpu.blocks} block slots": gpu.blocks}
    if shared_bytes:
        limits[f"{gpu.shared_bytes} bytes of shared memory / {shared_bytes} a block"] = gpu.shared_bytes // shared_bytes
    reason, per_multiprocessor = min(limits.items(), key=lambda item: item[1])
    total = gpu.multiprocessors * per_multiprocessor
    arithmetic = f"{gpu.multiprocessors} multiprocessors x {per_multiprocessor} blocks ({reason}) = {total} blocks"
    return Bound(total, gpu.name, arithmetic)
