"""The kernels that the tests compile, launch and disassemble."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import tilelang
import tilelang.language as T
import torch
from tvm.target import Target

from tl_gridsync_pass.handoff import CUTEDSL_TARGET as CUTEDSL
from tl_gridsync_pass.handoff import LAYOUTS, handoff
from tl_gridsync_pass.tvm_compat import tir

__all__ = [
    "CAST_IN_LOOP",
    "CUDA",
    "CUTEDSL",
    "LAYOUTS",
    "PIPELINE_IN_LOOP",
    "TWO_STOCK_BARRIERS",
    "needs_warp_specialisation",
    "compile_handoff",
    "handoff",
    "layout_id",
    "many_blocks",
    "run_handoff",
    "stages",
    "threads_in",
    "skipping_where",
    "two_kernels",
]

CUDA = Target({"kind": "cuda", "arch": "sm_90a"})

layout_id = str

# What its helper fails with, see docs/versions.md.
TWO_STOCK_BARRIERS = (
    "OpAttributeMap' object has no attribute 'get'",
    "TileLang's own helper cannot be compiled twice in one module with this CuTe DSL",
)
# What its pass DecoupleTypeCast fails with, see docs/versions.md.
CAST_IN_LOOP = ("condition.dtype().is_bool()", "TileLang 0.1.9 lowers no copy that casts with tvm-ffi 0.1.2")
# What its pass ProducerConsumerWS fails with, see docs/versions.md.
PIPELINE_IN_LOOP = (
    "ProducerConsumerWS: failed to replace pipeline loop",
    "TileLang 0.1.10 to 0.1.12 specialise no warps for a pipelined loop inside another loop",
)

needs_warp_specialisation = pytest.mark.skipif(
    not hasattr(tir, "AllocBuffer"), reason="TileLang 0.1.9 specialises no warps and loads nothing in bulk for the CuTeDSL target"
)


@contextmanager
def skipping_where(text: str, reason: str) -> Iterator[None]:
    """Skip the test where TileLang itself fails with a message that has ``text`` in it; other errors pass through."""
    try:
        yield
    except Exception as error:
        if text not in str(error):
            raise
        pytest.skip(reason)


def threads_in(threads: int | tuple[int, ...]) -> int:
    count = 1
    for extent in (threads,) if isinstance(threads, int) else threads:
        count *= extent
    return count


def stages(threads: tuple[int, ...] = (32, 2), blocks: int = 4, rounds: int = 5, unrolled: int = 3):
    """Barriers in every position that a kernel may have one: first, in a loop, in an unrolled loop, two in a row.

    Shape: ``values`` is int32[blocks].
    """

    @T.prim_func
    def stages(values: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            T.sync_grid()
            for _ in T.serial(rounds):
                if tx == 0 and ty == 0:
                    T.atomic_add(values[bx], 1)
                T.sync_grid()
            for i in T.unroll(unrolled):
                if tx == 0 and ty == 0:
                    T.atomic_add(values[(bx + i) % blocks], 1)
                T.sync_grid()
            T.sync_grid()

    return stages


def two_kernels(blocks: int = 4):
    """One function with two kernels of different block shapes, the first with one barrier and the second with two.

    Shape: ``values`` is int32[blocks].
    """

    @T.prim_func
    def two(values: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks, threads=(32, 2)) as bx:
            values[bx] = 1
            T.sync_grid()
            values[bx] = values[bx] + 1
        with T.Kernel(blocks, threads=(32, 1, 2)) as bx:
            T.sync_grid()
            values[bx] = values[bx] + 1
            T.sync_grid()

    return two


def many_blocks(blocks: int):
    """One barrier in a grid of ``blocks`` blocks. Shape: ``values`` is int32[blocks]."""

    @T.prim_func
    def many(values: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks, threads=(32, 2)) as bx:
            values[bx] = bx
            T.sync_grid()

    return many


def compile_handoff(threads, passes, **kwargs):
    return tilelang.compile(handoff(threads, **kwargs), target=CUTEDSL, execution_backend="cutedsl", passes=passes)


def run_handoff(kernel, blocks: int = 2, wait=torch.cuda.synchronize, **launch) -> list[int]:
    """One launch on cleared buffers; the sums that the blocks read."""
    values, sums, scratch = (torch.zeros(blocks, dtype=torch.int32, device="cuda") for _ in range(3))
    torch.cuda.synchronize()
    kernel(values, sums, scratch, **launch)
    wait()
    return sums.tolist()
