"""The guard, the block barriers and the block count as a generated kernel has them, and faults planted in its source."""

from __future__ import annotations

import kernels
import pytest
import tilelang

import tl_gridsync_pass as gs
from tl_gridsync_pass.proofs import safety
from tl_gridsync_pass.proofs.emission import EmissionError, harnesses_of
from tl_gridsync_pass.proofs.harness import Harness, indices

# Small enough to be explored: emitted for two blocks of 2 x 2 x 1 threads and of 1 x 2 x 2.
SHAPES = [((2, 1, 1), (2, 2, 1)), ((2, 1, 1), (1, 2, 2))]


@pytest.fixture(scope="module", params=SHAPES, ids=str)
def emitted(request):
    _, threads = request.param
    kernel = kernels.compile_handoff(threads, [gs.GridSyncPass()])
    return request.param, kernel.get_kernel_source()


def _holds(harness: Harness, shape) -> bool:
    return safety.one_launch(harness, *shape).exploration().run().holds


def test_emitted_barrier_holds(emitted):
    shape, source = emitted
    (harness,) = harnesses_of(source)
    assert [tid for tid in indices(shape[1]) if harness.leader(tid, shape[1])] == [(0, 0, 0)]
    assert harness.blocks(shape[0]) == 2
    assert _holds(harness, shape)


# Each edit changes the line of the barrier's guard, or the lines around it, and nothing else.
EDITS = {
    "leader forgets y": lambda before, guard, call, after: (
        before,
        guard.replace(" and (threadIdx.y == 0)", "").replace("(threadIdx.y == 0) and ", ""),
        call,
        after,
    ),
    "or instead of and": lambda before, guard, call, after: (before, guard.replace(" and ", " or "), call, after),
    "leader is thread 1": lambda before, guard, call, after: (before, guard.replace("threadIdx.y == 0", "threadIdx.y >= 0"), call, after),
    "no bar.sync before": lambda before, guard, call, after: ("  pass", guard, call, after),
    "no bar.sync after": lambda before, guard, call, after: (before, guard, call, "  pass"),
    "wrong number of blocks": lambda before, guard, call, after: (before, guard, call.replace(", 2)", ", 3)"), after),
}


@pytest.mark.parametrize("name", EDITS)
def test_fault_planted_in_the_source_is_caught(emitted, name):
    shape, source = emitted
    lines = source.splitlines()
    at = next(i for i, line in enumerate(lines) if "arrive_and_wait" in line)
    old = lines[at - 2 : at + 2]
    new = list(EDITS[name](*old))
    assert new != old
    lines[at - 2 : at + 2] = new
    (harness,) = harnesses_of("\n".join(lines))
    assert not _holds(harness, shape)


def test_a_guard_on_the_block_is_not_taken_for_a_leader(emitted):
    shape, source = emitted
    (harness,) = harnesses_of(
        source.replace("if (threadIdx.y == 0)", "if (blockIdx.x == 0)")
        if shape[1][0] == 1 and shape[1][2] == 1
        else source.replace("(threadIdx.y == 0)", "(blockIdx.x == 0)")
    )
    with pytest.raises(EmissionError, match="more than the thread"):
        _holds(harness, shape)


def test_module_state_is_told_apart():
    kernel = tilelang.compile(
        kernels.handoff((2, 2)), target=kernels.CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass("module")]
    )
    (harness,) = harnesses_of(kernel.get_kernel_source())
    assert harness.protocol.name == "module"
    assert _holds(harness, ((2, 1, 1), (2, 2, 1)))
