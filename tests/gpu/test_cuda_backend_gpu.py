"""The barrier in kernels of the plain CUDA backend, on a GPU: right for every block shape, state, loop and execution backend."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import lru_cache

import barrier_kernels
import bounded
import pytest
import tilelang
import torch
from kernels import CUDA, LAYOUTS, handoff, run_handoff

import tl_gridsync_pass as gs

pytestmark = pytest.mark.gpu

BOTH = ("cutedsl", "cuda")
STATES = ("launch", "module")


def build(func, state: str, execution_backend: str = "tvm_ffi"):
    passes = [gs.GridSyncPass(state, backends=BOTH)]
    return tilelang.compile(func, target=CUDA, execution_backend=execution_backend, passes=passes)


@lru_cache
def nvrtc_fails() -> str:
    """Why TileLang alone cannot use NVRTC here; empty where it can. With TileLang 0.1.9 the attempt can end the process."""
    if tilelang.__version__ != "0.1.9":
        return ""
    program = "import tilelang; from tilelang.contrib.nvrtc import get_nvrtc_version; print(get_nvrtc_version())"
    environment = {name: value for name, value in os.environ.items() if name != "TL_GRIDSYNC_PASS"}
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=150, env=environment, check=False)
    return f"exit status {run.returncode}: {run.stderr[-300:]}" if run.returncode else ""


@pytest.mark.parametrize("execution_backend", ["tvm_ffi", "cython", "nvrtc"])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("threads", LAYOUTS, ids=str)
def test_handoff_is_right(threads, state, execution_backend):
    if execution_backend == "nvrtc" and (why := nvrtc_fails()):
        pytest.skip(f"TileLang without the plugin cannot use NVRTC here: {why}")
    kernel = build(handoff(threads), state, execution_backend)
    assert "tl_gridsync_arrive_and_wait" in kernel.get_kernel_source()
    assert [run_handoff(kernel, wait=bounded.synchronize) for _ in range(8)] == [[3, 3]] * 8


@pytest.mark.parametrize("blocks", [1, 2, 4, 5, 132, 528, 1056])
@pytest.mark.parametrize("state", STATES)
def test_grids_of_any_size(blocks, state):
    kernel = build(handoff((32, 2), blocks=blocks, delay=2000), state)
    expected = [blocks * (blocks + 1) // 2] * blocks
    assert [run_handoff(kernel, blocks, wait=bounded.synchronize) for _ in range(3)] == [expected] * 3


@pytest.mark.parametrize("grid", [(64,), (8, 8), (4, 4, 4)], ids=str)
@pytest.mark.parametrize("state", STATES)
def test_hundreds_of_barriers_in_one_launch(grid, state):
    kernel = build(barrier_kernels.rounds(grid, (32, 2), 300), state)
    for _ in range(3):
        board, sums = (torch.zeros(shape, dtype=torch.int32, device="cuda") for shape in ((2, 64), (64,)))
        kernel(board, sums)
        bounded.synchronize()
        assert sums.tolist() == barrier_kernels.rounds_answer(64, 300)
