"""Every kernel of the catalogue gets its verdict, and the interpreter confirms that the verdict is true."""

from __future__ import annotations

import random
from functools import cache

import pytest
from grid_interpreter import TooLong, run
from kernels import CAST_IN_LOOP, CUTEDSL, PIPELINE_IN_LOOP, skipping_where
from verify_catalogue import CASES, CLEAN, DATA, DEVICE_CASES, SIZE, Case

from tl_gridsync_pass.seams.device_ir import device_module
from tl_gridsync_pass.tvm_compat import tvm
from tl_gridsync_pass.verify import Diagnostic, Severity, find
from tl_gridsync_pass.warp_specialized import rejoin

ALL = CASES + DEVICE_CASES
# How many launches a kernel must survive to count as right, and within how many a wrong one must fail.
SAME_AFTER = 3
DIFFERS_WITHIN = 30


@cache
def device_functions(case: Case) -> tvm.IRModule:
    if case in DEVICE_CASES:
        return tvm.IRModule({case.name: case.func})
    return rejoin(device_module(case.func, CUTEDSL))


def verdict(found: list[Diagnostic]) -> str:
    return found[0].rule.name if found else CLEAN


def test_the_catalogue_is_large_and_its_names_are_unique():
    assert len(ALL) >= 60
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_verdict(case: Case):
    with skipping_where(*CAST_IN_LOOP), skipping_where(*PIPELINE_IN_LOOP):
        found = find(device_functions(case))
    assert verdict(found) == case.verdict, "\n".join(map(str, found))
    expected = Severity.WARNING if case.verdict == DATA else Severity.ERROR
    assert all(d.severity == expected for d in found)


@pytest.mark.parametrize("case", [c for c in ALL if c.truth is not None], ids=lambda case: case.name)
def test_the_verdict_is_true(case: Case):
    (func,) = device_functions(case).functions.values()
    launches = range(SAME_AFTER if case.truth == "same" else DIFFERS_WITHIN)
    assert any(_diverges(func, seed) for seed in launches) == (case.truth == "differs")


def _diverges(func, seed: int) -> bool:
    rng = random.Random(seed)
    # Data that differs, and data that is the same everywhere and lets all threads into a branch, or none.
    low, high = [(0, 3), (1, 1), (0, 0)][seed % 3]
    data = {name: [rng.randint(low, high) for _ in range(SIZE)] for name in ("A", "B")}
    try:
        return run(func, data, {"n": rng.choice([0, 1, 2, 3, 5, 64])}, seed).diverges
    except TooLong:
        return False
