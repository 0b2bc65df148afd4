"""Kernels that copy in bulk (TMA): the barrier completes bulk stores before and orders bulk loads after."""

import pytest
import tilelang
import tilelang.language as T
from kernels import CAST_IN_LOOP, CUTEDSL, PIPELINE_IN_LOOP, handoff, needs_warp_specialisation, skipping_where
from verify_catalogue import CASES

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams.offline import device_code_of

STORES, LOADS = "tl_gridsync.complete_bulk_stores()", "tl_gridsync.order_bulk_loads()"


def stores_in_bulk():
    """A tile that goes out in bulk, is handed over the barrier, and comes in by ordinary loads. Shapes: float16[2, 128, 64]."""

    @T.prim_func
    def stores(values: T.Tensor((2, 128, 64), "float16"), out: T.Tensor((2, 128, 64), "float16")):
        with T.Kernel(2, threads=128) as bx:
            tile = T.alloc_shared((128, 64), "float16")
            for i, j in T.Parallel(128, 64):
                tile[i, j] = bx
            T.copy(tile, values[bx, 0, 0])
            T.sync_grid()
            for i, j in T.Parallel(128, 64):
                out[bx, i, j] = values[1 - bx, i, j]

    return stores


def loads_in_bulk():
    """Layers whose tiles come in bulk and go out by ordinary stores; TileLang specialises the warps of this one."""
    return next(case.func for case in CASES if case.name == "barrier_between_layers")


def compiled(func):
    return tilelang.compile(func, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])


def calls(kernel) -> list[str]:
    """The plugin's calls and the block barriers around them, in the order of the source."""
    lines = [line.strip() for line in kernel.get_kernel_source().splitlines()]
    start = next(i for i, line in enumerate(lines) if "arrive_and_wait" in line)
    return [line for line in lines[start - 3 : start + 3] if line in (STORES, LOADS, "tl.sync_threads()") or "arrive_and_wait" in line]


@pytest.mark.parametrize(
    ("make", "before", "after"),
    [(stores_in_bulk, [STORES], []), pytest.param(loads_in_bulk, [], [LOADS], marks=needs_warp_specialisation)],
)
def test_bulk_copies_are_ordered_on_their_side(make, before, after):
    with skipping_where(*CAST_IN_LOOP), skipping_where(*PIPELINE_IN_LOOP):
        kernel = compiled(make())
    source = kernel.get_kernel_source()
    assert ("tma_store" in source, "tma_load" in source) == (bool(before), bool(after))
    barrier = ["tl.sync_threads()", 'tl_gridsync.arrive_and_wait("launch", 2)', "tl.sync_threads()"]
    assert calls(kernel) == before + barrier + after
    instructions = {STORES: "cp.async.bulk.wait_group 0;", LOADS: "fence.proxy.async.global;"}
    ptx = device_code_of(kernel).ptx
    assert [call for call, instruction in instructions.items() if instruction in ptx] == before + after


def test_a_kernel_without_bulk_copies_has_neither():
    source = compiled(handoff((32, 2))).get_kernel_source()
    assert STORES not in source and LOADS not in source
