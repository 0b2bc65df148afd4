"""The split barrier on a GPU: right answers, alone and beside full barriers, the overlap, and the watchdog."""

from __future__ import annotations

import statistics

import bounded
import pytest
import tilelang
import torch
from barrier_kernels import rounds_answer
from fresh_process import fresh_process
from kernels import CUTEDSL, TWO_STOCK_BARRIERS, skipping_where
from split_kernels import dynamic_split, late_block, split_rounds

import tl_gridsync_pass as gs

pytestmark = pytest.mark.gpu

STATES = ("launch", "module")
ROUNDS, WORK = 20, 50


def build(func, state: str = "launch", **options):
    return tilelang.compile(func, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass(state, **options)])


def zeros(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.int32, device="cuda")


@pytest.mark.parametrize("full", [False, True], ids=["split alone", "and full barriers"])
@pytest.mark.parametrize("blocks", [1, 2, 132, 512, 1000])
@pytest.mark.parametrize("state", STATES)
def test_every_round_is_right(state, blocks, full):
    kernel = build(split_rounds(blocks, (32, 2), ROUNDS, WORK, full), state)
    for _ in range(3):
        board, own, sums = zeros(2, blocks), zeros(blocks), zeros(blocks)
        kernel(board, own, sums)
        bounded.synchronize()
        assert sums.tolist() == rounds_answer(blocks, ROUNDS)
        assert own.tolist() == [ROUNDS * WORK] * blocks


def test_without_the_plugin_the_same_kernel_is_right_for_one_dimensional_blocks():
    kernel = tilelang.compile(split_rounds(132, 64, ROUNDS, WORK), target=CUTEDSL, execution_backend="cutedsl", passes=[])
    board, own, sums = zeros(2, 132), zeros(132), zeros(132)
    with skipping_where(*TWO_STOCK_BARRIERS):
        kernel(board, own, sums)
    bounded.synchronize()
    assert sums.tolist() == rounds_answer(132, ROUNDS)


@pytest.mark.parametrize("state", STATES)
def test_a_grid_whose_size_is_known_at_run_time(state):
    kernel = build(dynamic_split(), state)
    # One word below 700 blocks, stripes above.
    for n in (1, 64, 8000, 64 * 1000):
        values, middle, out = torch.arange(n, dtype=torch.int32, device="cuda"), zeros(n), zeros(n)
        kernel(values, middle, out)
        bounded.synchronize()
        assert torch.equal(out, values.flip(0)), n


@pytest.mark.parametrize("state", STATES)
def test_work_between_the_phases_overlaps_the_wait(state):
    """Block 0 arrives late and then has little to do; the others do as much work meanwhile as it is late."""
    times = {}
    for split in (True, False):
        kernel = build(late_block(132, split), state)
        own = zeros(132)
        samples = []
        for _ in range(6):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            # Keeps the device busy until the launch is queued, whose time on the host would be in the sample otherwise.
            torch.cuda._sleep(500_000)
            start.record()
            kernel(own, 200_000)
            end.record()
            bounded.synchronize()
            samples.append(start.elapsed_time(end))
        times[split] = statistics.median(samples[1:])
    assert times[True] < 0.75 * times[False], times


_TIMEOUT = """
    import sys
    import torch
    import tilelang
    import tl_gridsync_pass as gs
    from kernels import CUTEDSL
    from split_kernels import late_block

    passes = [gs.GridSyncPass(sys.argv[1], timeout_ms=200)]
    kernel = tilelang.compile(late_block(4, False), target=CUTEDSL, execution_backend="cutedsl", passes=passes)
    # More than a second of block 0 alone, at some nanoseconds a multiplication; the others wait at once.
    kernel(torch.zeros(4, dtype=torch.int32, device="cuda"), 400_000_000)
    try:
        gs.synchronize()
    except gs.GridSyncTimeoutError as error:
        print("stopped:", error, flush=True)
"""


@pytest.mark.parametrize("state", STATES)
def test_the_watchdog_stops_a_wait(state, tmp_path):
    run = fresh_process(_TIMEOUT, state, tmp_path=tmp_path)
    assert "stopped:" in run.stdout and "waited more than 200 ms" in run.stdout, run.stdout + run.stderr
    assert "3 of 4 blocks have arrived" in run.stdout, run.stdout
