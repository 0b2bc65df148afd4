"""The axioms against litmus tests, and the barrier against the axioms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tl_gridsync_pass.proofs import litmus, ordering
from tl_gridsync_pass.proofs.harness import Harness
from tl_gridsync_pass.proofs.ptx import PtxError
from tl_gridsync_pass.protocol import LAUNCH, PROTOCOLS

SHIPPED = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda p: p.name)


@pytest.mark.parametrize("test", litmus.TESTS, ids=lambda t: t.name)
def test_litmus(test):
    assert test.decide() == test.allowed, f"{test.name}: {test.outcome} is {'allowed' if test.allowed else 'forbidden'} by {test.source}"


@pytest.mark.parametrize(
    ("protocol", "grid"),
    [(p, grid) for p in PROTOCOLS.values() for grid in ordering.grids_for(p)],
    ids=lambda x: getattr(x, "name", str(x)),
)
@pytest.mark.parametrize("hazard", ordering.HAZARDS)
def test_shipped_barrier_orders_everything(protocol, grid, hazard):
    blocks, threads, rounds = grid
    for at in range(rounds):
        answer = ordering.ask(Harness(protocol), hazard, blocks, threads, rounds, at)
        assert not answer.possible, "\n".join(answer.witness)


@SHIPPED
@pytest.mark.parametrize("hazard", ordering.HAZARDS)
def test_the_watchdogs_wait_orders_everything(protocol, hazard):
    answer = ordering.ask(Harness(protocol, bounded=True), hazard, *ordering.grids_for(protocol)[0])
    assert not answer.possible, "\n".join(answer.witness)


@pytest.mark.parametrize("bounded", [False, True], ids=["wait", "bounded wait"])
@SHIPPED
def test_some_execution_passes_the_barrier(protocol, bounded):
    """Else the test above would hold of nothing at all."""
    answer = ordering.ask(Harness(protocol, bounded=bounded), ordering.PASSES, *ordering.grids_for(protocol)[0])
    assert answer.possible


@SHIPPED
def test_every_ordering_is_there_for_a_hazard(protocol):
    unneeded = []
    weakenings = list(ordering.weakenings(Harness(protocol)))
    assert len(weakenings) >= 8
    for weakening in weakenings:
        if weakening.name in ordering.NEEDED_FOR_NO_HAZARD:
            answer = ordering.ask(weakening.harness, ordering.HAZARDS[0], thin_air=True)
            assert not answer.possible, "\n".join(answer.witness)
        elif ordering.first_hazard(weakening.harness) is None:
            unneeded.append(weakening.name)
    assert not unneeded


def test_a_loop_that_writes_is_refused():
    counting = replace(LAUNCH.wait, text=LAUNCH.wait.text.replace("POLL:", "POLL: red.relaxed.gpu.global.add.u32 [$0], 0;"))
    with pytest.raises(PtxError, match="more than read"):
        ordering.ask(Harness(replace(LAUNCH, wait=counting)), ordering.HAZARDS[0])


def test_a_loop_that_counts_its_turns_is_refused():
    text = LAUNCH.wait.text.replace("POLL:", ".reg .b32 %n; mov.u32 %n, 0; POLL: add.u32 %n, %n, 1;").replace(
        "@%same bra POLL;", "setp.lt.and.u32 %same, %n, 9, %same; @%same bra POLL;"
    )
    with pytest.raises(PtxError, match="earlier turns"):
        ordering.ask(Harness(replace(LAUNCH, wait=replace(LAUNCH.wait, text=text))), ordering.HAZARDS[0])
