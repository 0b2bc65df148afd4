"""benchmarks/variants.py: the variants that it calls legal order what the shipped protocol orders, and the others do not."""

import importlib
from dataclasses import replace
from pathlib import Path

import pytest

from tl_gridsync_pass import protocol
from tl_gridsync_pass.proofs.harness import Harness
from tl_gridsync_pass.proofs.ordering import first_hazard

SHIPPED = protocol.LAUNCH


@pytest.fixture
def variants(monkeypatch):
    # The module switches TileLang's kernel cache off as it is imported; this switches it back.
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    return importlib.import_module("variants")


def test_legal_variants_admit_no_hazard_and_the_others_do(variants):
    texts = {}
    for name, edits in variants.ARRIVALS.items():
        texts["arrival: " + name] = replace(SHIPPED, arrive=replace(SHIPPED.arrive, text=variants.edited(SHIPPED.arrive.text, edits)))
    for name, edits in variants.WAITS.items():
        texts["wait: " + name] = replace(SHIPPED, wait=replace(SHIPPED.wait, text=variants.edited(SHIPPED.wait.text, edits)))
    hazards = {name for name, variant in texts.items() if first_hazard(Harness(variant)) is not None}
    assert hazards == {name for name in texts if "not legal" in name}
    assert len(hazards) == 2


def test_an_edit_that_has_nothing_to_replace_is_an_error(variants):
    with pytest.raises(AssertionError, match="no longer has the one statement fence"):
        variants.edited(SHIPPED.wait.text, {"fence.release.gpu;": ""})


def test_a_variant_takes_the_place_of_what_the_device_code_reads(variants, monkeypatch):
    monkeypatch.setattr(protocol, "LAUNCH", SHIPPED)
    monkeypatch.setattr(protocol, "pause_cycles_above_four", protocol.pause_cycles_above_four)
    variants.apply("release on the addition", "acquire polls", 60)
    assert "red.release.gpu" in protocol.LAUNCH.arrive.text and "fence.release.gpu" not in protocol.LAUNCH.arrive.text
    assert protocol.LAUNCH.wait.text.count("ld.acquire.gpu") == 1 and "ld.relaxed" not in protocol.LAUNCH.wait.text
    assert protocol.pause_cycles(132) == 192
