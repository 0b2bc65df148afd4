"""Residency where a process may use a part of the GPU only: under an MPS limit, and in a green context."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from fresh_process import fresh_process

pytestmark = pytest.mark.gpu

# As many blocks as it says run, and one more is refused; prints the limit.
_AT_THE_LIMIT = """
    import sys

    import tilelang
    import torch
    from barrier_kernels import everyone
    from cuda.bindings import driver
    from kernels import CUTEDSL

    import bounded
    import tl_gridsync_pass as gs

    def green_stream(multiprocessors):
        # A stream whose launches run on at least this many multiprocessors and no others.
        def done(result):
            assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
            return result[1:] if len(result) > 2 else result[1]

        device = done(driver.cuDeviceGet(0))
        whole = done(driver.cuDeviceGetDevResource(device, driver.CUdevResourceType.CU_DEV_RESOURCE_TYPE_SM))
        (part,), *_ = done(driver.cuDevSmResourceSplitByCount(1, whole, 0, multiprocessors))
        described = done(driver.cuDevResourceGenerateDesc([part], 1))
        created = driver.CUgreenCtxCreate_flags.CU_GREEN_CTX_DEFAULT_STREAM
        green = done(driver.cuGreenCtxCreate(described, device, created))
        flags = driver.CUstream_flags.CU_STREAM_NON_BLOCKING
        return torch.cuda.ExternalStream(int(done(driver.cuGreenCtxStreamCreate(green, flags, 0))))

    kernel = tilelang.compile(everyone((32, 32)), target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])

    def zeros(blocks):
        return torch.zeros(blocks, dtype=torch.int32, device="cuda")

    few = [zeros(1), zeros(1)]
    whole = gs.max_coresident_blocks(kernel, *few)
    stream = green_stream(int(sys.argv[1])) if sys.argv[1:] else torch.cuda.current_stream()
    with torch.cuda.stream(stream):
        limit = gs.max_coresident_blocks(kernel, *few)
        values, sums = zeros(limit), zeros(limit)
        for _ in range(20):
            kernel(values, sums)
        bounded.synchronize()
        assert sums.tolist() == list(range(limit))[::-1], sums
        try:
            kernel(zeros(limit + 1), zeros(limit + 1))
            bounded.synchronize()
        except gs.GridResidencyError as error:
            assert f"{limit + 1} blocks" in str(error) and f"only {limit} blocks" in str(error), error
            print("limits", whole, limit)
"""


def limits_of(run: subprocess.CompletedProcess[str]) -> tuple[int, int]:
    """The limits before and in the partition, as the program printed them."""
    words = run.stdout.split()
    assert "limits" in words, run.stdout[-2000:] + run.stderr[-3000:]
    at = words.index("limits")
    return int(words[at + 1]), int(words[at + 2])


@pytest.fixture
def mps(tmp_path):
    """The environment of clients of an MPS server of the test's own."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None:
        pytest.skip("needs nvidia-cuda-mps-control")
    folders = {"CUDA_MPS_PIPE_DIRECTORY": tmp_path / "pipe", "CUDA_MPS_LOG_DIRECTORY": tmp_path / "log"}
    for folder in folders.values():
        folder.mkdir()
    environment = {name: str(folder) for name, folder in folders.items()}
    subprocess.run([control, "-d"], env={**os.environ, **environment}, check=True, timeout=30)
    try:
        yield environment
    finally:
        subprocess.run([control], input="quit -t 5\n", text=True, env={**os.environ, **environment}, check=False, timeout=60)


def test_an_mps_limit_makes_fewer_blocks_resident(mps, tmp_path):
    _, whole = limits_of(fresh_process(_AT_THE_LIMIT, tmp_path=tmp_path, seconds=120))
    _, limited = limits_of(fresh_process(_AT_THE_LIMIT, tmp_path=tmp_path, seconds=120, CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="50", **mps))
    assert 0 < limited <= whole // 2 + 2, (limited, whole)


def test_a_green_context_makes_fewer_blocks_resident(tmp_path):
    whole, limited = limits_of(fresh_process(_AT_THE_LIMIT, "16", tmp_path=tmp_path, seconds=120))
    assert limited < whole and limited % 16 == 0 and limited <= 16 * 2, (limited, whole)
