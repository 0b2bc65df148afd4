"""Why a grid is too large to be resident, in words: which limit of the multiprocessor it runs into."""

from __future__ import annotations

from .seams.launch_shape import LaunchShape
from .seams.occupancy import Occupancy

# Registers are given to a warp in units of 256, and a block has whole warps (CUDA occupancy calculator).
_WARP = 32
_REGISTER_UNIT = 256
# Shared memory that the system keeps for itself in each block from compute capability 8.0 on, in bytes.
_RESERVED_SHARED_BYTES = 1024


def bounds(shape: LaunchShape, occupancy: Occupancy) -> dict[str, int]:
    """Blocks per multiprocessor that each limit alone would allow, by the rules of the CUDA occupancy calculator."""
    warps = -(-shape.threads // _WARP)
    registers = -(-occupancy.registers * _WARP // _REGISTER_UNIT) * _REGISTER_UNIT * warps
    shared = shape.shared_bytes + occupancy.static_shared_bytes
    limits = {
        "threads": occupancy.threads_per_multiprocessor // (warps * _WARP),
        "registers": occupancy.registers_per_multiprocessor // registers if registers else occupancy.blocks_limit_per_multiprocessor,
        "blocks": occupancy.blocks_limit_per_multiprocessor,
    }
    if shared:
        limits["shared memory"] = occupancy.shared_bytes_per_multiprocessor // (shared + _RESERVED_SHARED_BYTES)
    return limits


def explain(shape: LaunchShape, occupancy: Occupancy) -> str:
    """The message of a GridResidencyError."""
    limits = bounds(shape, occupancy)
    tightest = min(limits, key=lambda name: limits[name])
    use = {
        "threads": f"{shape.threads} threads a block of {occupancy.threads_per_multiprocessor} a multiprocessor",
        "registers": f"{occupancy.registers} registers a thread, {shape.threads} threads a block",
        "shared memory": f"{shape.shared_bytes + occupancy.static_shared_bytes} bytes of shared memory a block "
        f"of {occupancy.shared_bytes_per_multiprocessor} a multiprocessor",
        "blocks": f"a multiprocessor holds {occupancy.blocks_limit_per_multiprocessor} blocks",
    }[tightest]
    remedy = {
        "threads": "use smaller blocks",
        "registers": "use fewer registers or smaller blocks",
        "shared memory": "use less shared memory a block",
        "blocks": "let each block do more work",
    }[tightest]
    return (
        f"tl_gridsync: kernel {shape.kernel!r} cannot be launched: its grid of {'x'.join(map(str, shape.grid))} = {shape.blocks} blocks "
        f"waits for itself at a grid barrier, but only {occupancy.blocks} blocks can be resident at once "
        f"({occupancy.blocks_per_multiprocessor} on each of {occupancy.multiprocessors} multiprocessors), bounded by {tightest}: {use}. "
        f"Launch at most {occupancy.blocks} blocks and let each loop over the work (T.Persistent), or {remedy}. "
        "tl_gridsync_pass.max_coresident_blocks(kernel, *args) gives the limit."
    )
