"""A launch without the cooperative attribute: an explanation and a trap, not a hang."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

# In a process of its own: the trap ends its CUDA context.
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

    kernel = compile_handoff((32, 2), [gs.GridSyncPass(sys.argv[1])])
    values, sums, scratch = (torch.zeros(2, dtype=torch.int32, device="cuda") for _ in range(3))
    guard = torch.zeros(1 << 20, dtype=torch.int32, device="cuda")
    module = check(driver.cuModuleLoadData(offline.cubin_of(kernel, values, sums, scratch).read_bytes()))
    function = check(driver.cuModuleEnumerateFunctions(1, module))[0]
    pointers = tuple(t.data_ptr() for t in (scratch, sums, values))
    check(driver.cuLaunchKernel(function, 2, 1, 1, 32, 2, 1, 0, 0, (pointers, (ctypes.c_void_p,) * 3), 0))
    torch.cuda.synchronize()
"""


@pytest.mark.parametrize("state", ["launch", "module"])
def test_a_launch_that_is_not_cooperative_says_so_and_stops(state, tmp_path):
    program = tmp_path / "not_cooperative.py"
    program.write_text(textwrap.dedent(_PROGRAM))
    tests = Path(__file__).parents[1]
    start = time.monotonic()
    run = subprocess.run(
        [sys.executable, str(program), state],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": f"{tests}:{os.environ.get('PYTHONPATH', '')}"},
    )
    assert run.returncode != 0
    assert "was not launched cooperatively" in run.stdout, run.stdout + run.stderr
    assert "CUDA error" in run.stderr or "launch failure" in run.stderr, run.stderr
    assert time.monotonic() - start < 110
