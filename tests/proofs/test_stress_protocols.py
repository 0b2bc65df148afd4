"""What the GPU stress test compiles, as far as that goes without a GPU."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import files
from pathlib import Path

import kernels as test_kernels
import pytest
import tilelang

import tl_gridsync_pass as gs
from tl_gridsync_pass import protocol
from tl_gridsync_pass.proofs import ordering
from tl_gridsync_pass.proofs.harness import Harness
from tl_gridsync_pass.seams import offline

STRESS = Path(__file__).parents[2] / "stress"


@pytest.fixture(scope="module")
def stress():
    """The stress test's own modules; its ``kernels`` must not hide the tests' one."""
    sys.path.insert(0, str(STRESS))
    ours = sys.modules.pop("kernels")
    try:
        import kernels as stress_kernels
        import weakened

        yield stress_kernels, weakened
    finally:
        sys.path.remove(str(STRESS))
        sys.modules["kernels"] = ours


def _sass(kernel) -> str:
    nvdisasm = next(f.locate() for f in files("nvidia-cuda-nvdisasm") or () if f.name == "nvdisasm")
    return subprocess.run([str(nvdisasm), str(offline.cubin_of(kernel))], capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("blocks", [2, 528, 1056])
def test_a_weakened_protocol_reaches_the_cubin_and_nothing_stays_weakened(stress, blocks):
    stress_kernels, weakened = stress
    shipped = (protocol.LAUNCH, protocol.LAUNCH_RANKED, protocol.LAUNCH_STRIPED)

    def compile_one():
        func = stress_kernels.message_passing((blocks,), (32, 2), rounds=100)
        return tilelang.compile(func, target=test_kernels.CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])

    tilelang.disable_cache()
    try:
        with weakened.weakened("release and acquire dropped"):
            without = _sass(compile_one())
        with_both = _sass(compile_one())
    finally:
        tilelang.enable_cache()
    # MEMBAR is the release fence, CCTL.IVALL the acquire's invalidation of the L1 cache.
    assert "MEMBAR" in with_both and "CCTL.IVALL" in with_both
    assert "MEMBAR" not in without and "CCTL.IVALL" not in without
    assert shipped == (protocol.LAUNCH, protocol.LAUNCH_RANKED, protocol.LAUNCH_STRIPED)


def test_every_weakening_admits_a_stale_read_and_cannot_hang(stress):
    from tl_gridsync_pass.proofs import safety

    for name, weaken in stress[1].WEAKENINGS.items():
        for shipped in (protocol.LAUNCH, protocol.LAUNCH_RANKED):
            harness = Harness(weaken(shipped))
            assert ordering.ask(harness, "read after write", thin_air=True).possible, name
            assert safety.one_launch(harness, (3, 1, 1), (1, 2, 1)).exploration().run().holds, name
        striped = weaken(protocol.LAUNCH_STRIPED)
        assert ordering.ask(Harness(striped), "read after write", (4, 1, 1), (2, 1, 1), 1, thin_air=True).possible, name
        assert safety.one_launch(Harness(safety.with_two_stripes(striped)), (3, 1, 1), (1, 1, 1)).exploration().run().holds, name
