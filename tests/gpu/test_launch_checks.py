"""A launch without the cooperative attribute: a trap, not a hang; with the watchdog, an explanation as well."""

from __future__ import annotations

import pytest
from fresh_process import fresh_process

pytestmark = pytest.mark.gpu

_PROGRAM = """
    import ctypes
    import sys
    import torch
    from cuda.bindings import driver
    import tl_gridsync_pass as gs
    from kernels import compile_handoff
    from tl_gridsync_pass.seams import offline

    def check(result):
        assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
        return result[1] if len(result) > 1 else None

    kernel = compile_handoff((32, 2), [gs.GridSyncPass(sys.argv[1], timeout_ms=int(sys.argv[2]))])
    values, sums, scratch = (torch.zeros(2, dtype=torch.int32, device="cuda") for _ in range(3))
    module = check(driver.cuModuleLoadData(offline.cubin_of(kernel, values, sums, scratch).read_bytes()))
    function = check(driver.cuModuleEnumerateFunctions(1, module))[0]
    pointers = tuple(t.data_ptr() for t in (scratch, sums, values))
    check(driver.cuLaunchKernel(function, 2, 1, 1, 32, 2, 1, 0, 0, (pointers, (ctypes.c_void_p,) * 3), 0))
    torch.cuda.synchronize()
"""


@pytest.mark.parametrize("timeout_ms", [0, 500])
@pytest.mark.parametrize("state", ["launch", "module"])
def test_a_launch_that_is_not_cooperative_stops(state, timeout_ms, tmp_path):
    run = fresh_process(_PROGRAM, state, str(timeout_ms), tmp_path=tmp_path, seconds=100)
    assert run.returncode != 0
    assert "CUDA error" in run.stderr or "launch failure" in run.stderr, run.stderr
    if timeout_ms:
        assert "was not launched cooperatively" in run.stdout, run.stdout + run.stderr
