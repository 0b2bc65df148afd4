"""The lowered barrier on a GPU: right for every block shape, grid, state and loop."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import barrier_kernels
import bounded
import pytest
import tilelang
import torch
from fresh_process import fresh_process
from kernels import CUTEDSL, LAYOUTS, compile_handoff, run_handoff

import tl_gridsync_pass as gs

pytestmark = pytest.mark.gpu

STATES = ("launch", "module")


def build(func, state: str):
    return tilelang.compile(func, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass(state)])


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32, device="cuda")


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("threads", LAYOUTS, ids=str)
def test_handoff_is_right(threads, state):
    kernel = compile_handoff(threads, [gs.GridSyncPass(state)])
    assert [run_handoff(kernel, wait=bounded.synchronize) for _ in range(8)] == [[3, 3]] * 8


@pytest.mark.parametrize("threads", LAYOUTS, ids=str)
def test_stock_handoff_is_wrong_where_x_alone_names_several_leaders(threads):
    kernel = compile_handoff(threads, [])
    expected = [3, 3] if threads == 32 else [1, 3]
    assert [run_handoff(kernel, wait=bounded.synchronize) for _ in range(8)] == [expected] * 8


# In a process of its own: what a wrong leader does to the barrier is not bounded to a wrong answer.
_WRONG_LEADER = """
    import sys
    import bounded
    from kernels import compile_handoff, run_handoff
    import tl_gridsync_pass as gs
    from tl_gridsync_pass import lowering

    lowering._THREAD_AXES = tuple(sys.argv[3].split())
    kernel = compile_handoff(eval(sys.argv[1]), [gs.GridSyncPass(sys.argv[2])])
    print([run_handoff(kernel, wait=bounded.synchronize) for _ in range(8)])
"""


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(
    ("threads", "axes"),
    [
        ((32, 2), "threadIdx.x"),
        ((32, 1, 2), "threadIdx.x threadIdx.y"),
        ((16, 2, 2), "threadIdx.x threadIdx.z"),
        ((16, 2, 2), "threadIdx.x threadIdx.y"),
        ((32, 2, 2), "threadIdx.x"),
    ],
    ids=str,
)
def test_a_leader_that_forgets_an_axis_is_wrong(threads, axes, state, tmp_path):
    """The suite's own red case: the handoff test above must be able to fail."""
    run = fresh_process(_WRONG_LEADER, str(threads), state, axes, tmp_path=tmp_path)
    # A mistake of the program itself would end it as well.
    assert not any(mistake in run.stderr for mistake in ("NameError", "ImportError", "SyntaxError", "AttributeError")), run.stderr
    assert run.returncode != 0 or "[1, 3]" in run.stdout, f"a wrong leader went unnoticed: {run.stdout}"


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("grid", [(1,), (2,), (132,), (7, 5), (3, 4, 5)], ids=str)
def test_many_rounds_on_grids_of_every_rank(grid, state):
    count = 100
    blocks = 1
    for extent in grid:
        blocks *= extent
    kernel = build(barrier_kernels.rounds(grid, (32, 2), count), state)
    for _ in range(3):
        board, sums = zeros(2, blocks), zeros(blocks)
        kernel(board, sums)
        bounded.synchronize()
        assert sums.tolist() == barrier_kernels.rounds_answer(blocks, count)


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("threads", "per_multiprocessor"), [(128, 16), (256, 8), (1024, 2)], ids=str)
def test_as_many_blocks_as_can_be_resident(threads, per_multiprocessor, state):
    properties = torch.cuda.get_device_properties(0)
    blocks = properties.multi_processor_count * min(per_multiprocessor, properties.max_threads_per_multi_processor // threads)
    kernel = build(barrier_kernels.rounds((blocks,), threads, 50), state)
    board, sums = zeros(2, blocks), zeros(blocks)
    kernel(board, sums)
    bounded.synchronize()
    assert sums.tolist() == barrier_kernels.rounds_answer(blocks, 50)


@pytest.mark.parametrize("state", STATES)
def test_dynamic_shapes(state):
    kernel = build(barrier_kernels.dynamic_reverse(), state)
    for n in (1, 63, 64, 65, 1000, 8000):
        values, middle, out = torch.arange(n, dtype=torch.int32, device="cuda"), zeros(n), zeros(n)
        kernel(values, middle, out)
        bounded.synchronize()
        assert torch.equal(out, values.flip(0)), n


@pytest.mark.parametrize("state", STATES)
def test_dynamic_grids_of_every_protocol_in_turn(state):
    """One barrier a launch, so that each leaves the generation of what it counted in the other way round."""
    kernel = build(barrier_kernels.dynamic_reverse(), state)
    for n in (64_000, 640, 64_000, 64_000, 64, 25_600, 128_000, 6_400, 64_000, 1, 44_800, 44_801):
        values, middle, out = torch.arange(n, dtype=torch.int32, device="cuda"), zeros(n), zeros(n)
        kernel(values, middle, out)
        bounded.synchronize()
        assert torch.equal(out, values.flip(0)), n


@pytest.mark.parametrize("state", STATES)
def test_between_shared_memory_stages(state):
    blocks, threads = 64, 96
    kernel = build(barrier_kernels.shared_stages(blocks, threads), state)
    values = torch.randint(0, 1000, (blocks, threads), dtype=torch.int32, device="cuda")
    middle, out = zeros(blocks, threads), zeros(blocks, threads)
    kernel(values, middle, out)
    bounded.synchronize()
    assert torch.equal(out, values.roll(-1, 0) + 2)


@pytest.mark.parametrize("state", STATES)
def test_two_kernels_in_one_module(state):
    blocks = 48
    kernel = build(barrier_kernels.two_kernels(blocks), state)
    for _ in range(8):
        buffers = [zeros(blocks) for _ in range(4)]
        kernel(*buffers)
        bounded.synchronize()
        assert buffers[3].tolist() == [((b + 2) % blocks + 1) * 10 for b in range(blocks)]


@pytest.mark.parametrize("cache", ["off", "on"])
def test_in_fresh_processes(cache, tmp_path):
    """Two processes in turn: with the cache on, the second one loads what the first one built."""
    env = {**os.environ, "TILELANG_CACHE_DIR": str(tmp_path), "TILELANG_DISABLE_CACHE": "0" if cache == "on" else "1"}
    handoff = f"{Path(__file__).name}::test_handoff_is_right"
    for _ in range(2):
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", handoff],
            cwd=Path(__file__).parent,
            env=env,
            capture_output=True,
            text=True,
            timeout=500,
        )
        assert run.returncode == 0, run.stdout[-3000:] + run.stderr[-3000:]
        assert "8 passed" in run.stdout
    assert bool(list(tmp_path.rglob("kernel.cubin"))) == (cache == "on")
