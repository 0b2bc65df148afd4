"""On random kernels the verification agrees with an interpreter that runs every thread of every block."""

from __future__ import annotations

import random

import pytest
from generated_kernels import ELEMENTS, functions
from grid_interpreter import TooLong, run
from hypothesis import HealthCheck, Phase, event, given, settings

from tl_gridsync_pass.tvm_compat import tir, tvm
from tl_gridsync_pass.verify import find
from tl_gridsync_pass.verify.diagnostics import BLOCK_DIVERGENT, GRID_DIVERGENT, NOT_PROVABLY_UNIFORM

DIVERGENCE = {BLOCK_DIVERGENT, GRID_DIVERGENT, NOT_PROVABLY_UNIFORM}
LAUNCHES = 6
# Shrinking rebuilds TIR hundreds of times, which is what makes a failure readable; generating is quick.
thorough = settings(
    max_examples=300,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    phases=[Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink],
)


def divergence(func) -> list:
    return [d for d in find(tvm.IRModule({"generated": func})) if d.rule in DIVERGENCE]


def diverges(func) -> bool:
    """Whether some launch out of several, on other data and in another order, diverges."""
    for seed in range(LAUNCHES):
        rng = random.Random(seed)
        data = {name: [rng.randint(0, 3) for _ in range(ELEMENTS)] for name in ("A", "G")}
        try:
            if run(func, data, {"n": rng.randint(0, 4), "m": rng.randint(0, 4)}, seed, max_steps=20_000).diverges:
                return True
        except TooLong:
            continue
    return False


@pytest.mark.skipif(not hasattr(tir, "AllocBuffer"), reason="generates the IR that TileLang has since 0.1.10")
@given(functions())
@thorough
def test_no_kernel_that_diverges_passes_as_clean(func):
    found = divergence(func)
    truth = diverges(func)
    event(f"diverges: {truth}, found: {bool(found)}")
    assert found or not truth, str(func)


@pytest.mark.skipif(not hasattr(tir, "AllocBuffer"), reason="generates the IR that TileLang has since 0.1.10")
@given(functions(leaves="uniform"))
@thorough
def test_no_kernel_that_is_uniform_by_construction_is_refused(func):
    assert not diverges(func)
    found = divergence(func)
    assert not found, f"{func}\n" + "\n".join(map(str, found))
