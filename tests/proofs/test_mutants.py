"""Planted faults: each must be caught."""

from __future__ import annotations

import pytest

from tl_gridsync_pass.proofs import mutants
from tl_gridsync_pass.proofs.harness import Harness
from tl_gridsync_pass.protocol import LAUNCH, PROTOCOLS

ALL = list(mutants.mutants())


@pytest.mark.parametrize("mutant", ALL, ids=lambda m: m.name)
def test_mutant_is_caught(mutant):
    assert mutants.catch(mutant).by is not None


def test_names_are_unique():
    assert len({m.name for m in ALL}) == len(ALL)


@pytest.mark.parametrize("bounded", [False, True], ids=["wait", "bounded wait"])
@pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=lambda p: p.name)
def test_what_ships_is_not_caught(protocol, bounded):
    assert mutants.catch(mutants.Mutant("none", Harness(protocol, bounded=bounded))).by is None


def test_an_edit_without_its_anchor_fails():
    with pytest.raises(ValueError, match="stands 0 times"):
        mutants.edited(LAUNCH.wait, "no such text", "")
