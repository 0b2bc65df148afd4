"""Kernels that the verification refuses really hang, or end with an error, when it is switched off.

Each runs in a process of its own, which is killed where it does not end in time. Only kernels in which the
leader of some block reaches a barrier that another block's leader does not are run: where the threads of
one block diverge, hardware may let the others through a block barrier that some have left behind, and the
barrier orders nothing instead of hanging.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.gpu

WAIT_S = 20.0
READY = "launching"

# Compiles, says so, launches and waits. Only the time after the line counts.
_PROGRAM = """
    import sys
    import torch
    import tilelang
    import tl_gridsync_pass as gs
    from kernels import CUTEDSL
    from verify_catalogue import CASES, SIZE

    case = next(case for case in CASES if case.name == sys.argv[1])
    kernel = tilelang.compile(case.func, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass(verify="off")])
    a, b = (torch.ones(SIZE, dtype=torch.int32, device="cuda") for _ in range(2))
    # The first launch makes the cubin; nothing of it may be counted as time on the GPU.
    from tl_gridsync_pass.seams import offline
    buffers = [tensor for parameter, tensor in zip(kernel.params, (a, b)) if parameter.shape]
    offline.cubin_of(kernel, *buffers, *[2] * (len(kernel.params) - len(buffers)))
    print("launching", flush=True)
    kernel(*buffers, *[2] * (len(kernel.params) - len(buffers)))
    torch.cuda.synchronize()
    print("done", flush=True)
"""

HANGING = [
    "under_block_zero",
    "trip_count_of_the_block",
    "tail_of_a_strided_loop",
    "inside_the_guard_of_the_tail",
    "while_tiles_are_left",
    "after_a_block_returned",
    "after_a_break_of_the_block",
    "block_number_through_shared_memory",
]
RIGHT = ["straight", "waves_with_a_guarded_tail", "trip_count_the_same_for_every_block", "uniform_break", "flag_decides_when_to_stop"]


def outcome(name: str, tmp_path: Path) -> str:
    """``"done"``, ``"hangs"``, or what the process said before it failed."""
    program = tmp_path / f"{name}.py"
    program.write_text(textwrap.dedent(_PROGRAM))
    tests = Path(__file__).parents[1]
    path = f"{tests}:{os.environ.get('PYTHONPATH', '')}"
    process = subprocess.Popen(
        [sys.executable, str(program), name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
    )
    try:
        said = []
        for line in process.stdout:
            said.append(line)
            if line.strip() == READY:
                break
        else:
            if "Early exit (return) is not allowed" in "".join(said):
                pytest.skip("this CuTe DSL compiles no kernel with a return")
            pytest.fail("".join(said))
        try:
            rest, _ = process.communicate(timeout=WAIT_S)
        except subprocess.TimeoutExpired:
            return "hangs"
        return "done" if process.returncode == 0 and rest.strip().endswith("done") else rest
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("name", HANGING)
def test_a_refused_kernel_hangs_or_ends_with_an_error(name, tmp_path):
    result = outcome(name, tmp_path)
    assert result == "hangs" or "CUDA error" in result or "tl_gridsync" in result, result


@pytest.mark.parametrize("name", RIGHT)
def test_a_clean_kernel_ends(name, tmp_path):
    assert outcome(name, tmp_path) == "done"
