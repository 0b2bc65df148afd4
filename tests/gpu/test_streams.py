"""Launches that overlap: streams, several kernels of one source, CUDA graphs with parallel branches."""

from __future__ import annotations

import bounded
import pytest
import torch
from fresh_process import fresh_process
from kernels import compile_handoff

import tl_gridsync_pass as gs

pytestmark = pytest.mark.gpu

DELAY = 300


class Lane:
    """One stream with its own buffers, which counts the wrong answers of its launches on the device."""

    def __init__(self, blocks: int = 2) -> None:
        self.stream = torch.cuda.Stream()
        self.values, self.sums, self.scratch = (torch.zeros(blocks, dtype=torch.int32, device="cuda") for _ in range(3))
        self.wrong = torch.zeros(1, dtype=torch.int64, device="cuda")
        self.expected = blocks * (blocks + 1) // 2

    def launch(self, kernel) -> None:
        self.values.zero_()
        self.sums.zero_()
        kernel(self.values, self.sums, self.scratch)
        self.wrong += (self.sums != self.expected).any()


@pytest.mark.parametrize(("streams", "rounds"), [(2, 1000), (8, 1000), (32, 1000)])
def test_one_kernel_on_many_streams(streams, rounds):
    kernel = compile_handoff((32, 2), [gs.GridSyncPass()], delay=DELAY)
    lanes = [Lane() for _ in range(streams)]
    torch.cuda.synchronize()
    for _ in range(rounds):
        for lane in lanes:
            with torch.cuda.stream(lane.stream):
                lane.launch(kernel)
    bounded.synchronize(60)
    assert [int(lane.wrong) for lane in lanes] == [0] * streams


def test_several_kernels_of_one_source_on_streams():
    kernels = [compile_handoff((32, 2), [gs.GridSyncPass()], delay=DELAY + i) for i in range(4)]
    lanes = [Lane() for _ in range(8)]
    torch.cuda.synchronize()
    for _ in range(1000):
        for i, lane in enumerate(lanes):
            with torch.cuda.stream(lane.stream):
                lane.launch(kernels[i % 4])
    bounded.synchronize(60)
    assert [int(lane.wrong) for lane in lanes] == [0] * 8


@pytest.mark.parametrize("blocks", [132, 900])
def test_larger_grids_on_streams(blocks):
    """Grids that fill part of the device each; above 700 blocks the striped protocol shares a table."""
    kernel = compile_handoff((32, 1), [gs.GridSyncPass()], blocks=blocks, delay=DELAY)
    lanes = [Lane(blocks) for _ in range(4)]
    torch.cuda.synchronize()
    for _ in range(100):
        for lane in lanes:
            with torch.cuda.stream(lane.stream):
                lane.launch(kernel)
    bounded.synchronize(60)
    assert [int(lane.wrong) for lane in lanes] == [0] * 4


_SHARED_STATE = """
    import sys
    import torch
    import bounded
    import tl_gridsync_pass as gs
    from kernels import compile_handoff
    passes = [gs.GridSyncPass("module")] if sys.argv[1] == "module" else []
    kernel = compile_handoff(32, passes, delay=20000)
    streams = [torch.cuda.Stream() for _ in range(2)]
    wrong = 0
    for _ in range(20):
        buffers = [[torch.zeros(2, dtype=torch.int32, device="cuda") for _ in range(3)] for _ in streams]
        torch.cuda.synchronize()
        for stream, (values, sums, scratch) in zip(streams, buffers):
            kernel(values, sums, scratch, stream=stream.cuda_stream)
        bounded.synchronize(20)
        wrong += any(sums.tolist() != [3, 3] for _, sums, _ in buffers)
    print("wrong", wrong)
"""


@pytest.mark.parametrize("barrier", ["stock", "module"])
def test_shared_state_is_wrong_on_two_streams(barrier, tmp_path):
    """The red case of the tests above: state in the module's globals, one-dimensional blocks."""
    run = fresh_process(_SHARED_STATE, barrier, tmp_path=tmp_path)
    hung = "the barrier hangs" in run.stdout + run.stderr
    assert hung or ("wrong " in run.stdout and "wrong 0" not in run.stdout), run.stdout + run.stderr


def test_a_kernel_runs_on_the_current_stream(monkeypatch):
    kernel = compile_handoff((32, 2), [gs.GridSyncPass()], delay=DELAY)
    seen = []
    call = kernel.adapter.pymodule.call
    monkeypatch.setattr(
        kernel.adapter.pymodule, "call", lambda *args, stream, **kw: (seen.append(stream), call(*args, stream=stream, **kw))
    )
    lane, other = Lane(), torch.cuda.Stream()
    with torch.cuda.stream(lane.stream):
        kernel(lane.values, lane.sums, lane.scratch)
        kernel(lane.values, lane.sums, lane.scratch, stream=other.cuda_stream)
    kernel(lane.values, lane.sums, lane.scratch)
    bounded.synchronize()
    assert seen == [lane.stream.cuda_stream, other.cuda_stream, torch.cuda.default_stream().cuda_stream]


@pytest.mark.parametrize("branches", [1, 2, 4])
def test_graph_replays(branches):
    kernel = compile_handoff((32, 2), [gs.GridSyncPass()], delay=DELAY)
    lanes = [Lane() for _ in range(branches)]
    lanes[0].launch(kernel)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        main = torch.cuda.current_stream()
        for lane in lanes:
            lane.stream.wait_stream(main)
            with torch.cuda.stream(lane.stream):
                lane.launch(kernel)
        for lane in lanes:
            main.wait_stream(lane.stream)
    for lane in lanes:
        lane.sums.zero_()
    for _ in range(1000):
        graph.replay()
    bounded.synchronize(60)
    assert [int(lane.wrong) for lane in lanes] == [0] * branches
    assert [lane.sums.tolist() for lane in lanes] == [[3, 3]] * branches, "the graph was empty"


def test_first_launch_inside_a_capture():
    """The module is loaded while the graph is captured; with the watchdog its report is attached then as well."""
    kernel = compile_handoff((32, 2), [gs.GridSyncPass(timeout_ms=2000)], delay=DELAY + 77)
    gs.max_coresident_blocks(kernel, *(torch.zeros(2, dtype=torch.int32, device="cuda") for _ in range(3)))
    lane = Lane()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, capture_error_mode="relaxed"):
        kernel(lane.values, lane.sums, lane.scratch)
    graph.replay()
    bounded.synchronize()
    assert lane.sums.tolist() == [3, 3]
