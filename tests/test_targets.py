"""The targets that the package compiles for itself."""

from __future__ import annotations

import pytest
import torch
from tvm.target import Target

from tl_gridsync_pass.seams.target import cuda_target, cutedsl_target, resolve


@pytest.mark.parametrize(("make", "is_cutedsl"), [(cutedsl_target, True), (cuda_target, False)])
def test_a_target_object_that_every_tilelang_takes(make, is_cutedsl):
    target = make("sm_90a")
    assert isinstance(target, Target)
    resolved = resolve(target)
    assert resolved.kind.name == "cuda" and resolved.attrs["arch"] == "sm_90a"
    assert ("cutedsl" in resolved.keys) is is_cutedsl


@pytest.mark.parametrize(("capability", "arch"), [((8, 6), "sm_86"), ((9, 0), "sm_90a"), ((10, 3), "sm_103a")])
def test_without_an_architecture_it_is_the_current_device(monkeypatch, capability, arch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda: capability)
    assert [make().attrs["arch"] for make in (cutedsl_target, cuda_target)] == [arch, arch]
