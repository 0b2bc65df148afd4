"""Known TileLang releases attach, others are refused, and the pass needs nothing of TileLang's own helper."""

from __future__ import annotations

import importlib
import warnings

import pytest
import tilelang
from kernels import compile_handoff

import tl_gridsync_pass as gs
from tl_gridsync_pass import sass
from tl_gridsync_pass.seams import offline
from tl_gridsync_pass.seams.tilelang_version import ALLOW_UNTESTED, KNOWN_VERSIONS


@pytest.fixture
def reinstall(monkeypatch):
    """``reinstall(version)``: detach, and attach again to a TileLang that says it is ``version``."""
    gs.uninstall()

    def attach(version: str) -> None:
        monkeypatch.setattr(tilelang, "__version__", version)
        gs.install()

    yield attach
    monkeypatch.undo()
    gs.uninstall()
    gs.install()


@pytest.mark.parametrize("version", [*KNOWN_VERSIONS, "0.1.15+cuda.git0123abc"])
def test_a_known_release_attaches_silently(reinstall, version):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        reinstall(version)
    assert gs.attached()


@pytest.mark.parametrize("version", ["0.1.8", "0.1.9.post1", "0.0.1", "nightly"])
@pytest.mark.parametrize("allowed", ["0", "1"])
def test_an_older_release_is_refused_whatever_the_environment_says(reinstall, monkeypatch, version, allowed):
    monkeypatch.setenv(ALLOW_UNTESTED, allowed)
    with pytest.raises(ImportError, match=rf"TileLang {version} is not among .*0\.1\.9 to 0\.1\.15") as refusal:
        reinstall(version)
    assert ALLOW_UNTESTED not in str(refusal.value)
    assert gs.attached() == []


@pytest.mark.parametrize("version", ["0.1.16", "0.1.16rc1", "0.2.0", "1.0"])
def test_a_newer_release_is_refused_with_the_way_out(reinstall, version):
    with pytest.raises(gs.SeamError, match=f"{ALLOW_UNTESTED}=1"):
        reinstall(version)
    assert gs.attached() == []


@pytest.mark.parametrize("version", ["0.1.16", "0.2.0"])
def test_a_newer_release_is_let_through_with_a_warning(reinstall, monkeypatch, version):
    monkeypatch.setenv(ALLOW_UNTESTED, "1")
    with pytest.warns(UserWarning, match=f"TileLang {version} is newer"):
        reinstall(version)
    assert gs.attached()


def test_a_newer_release_without_a_seam_is_refused_all_the_same(reinstall, monkeypatch):
    from tilelang.autotuner.tuner import AutoTuner

    monkeypatch.setenv(ALLOW_UNTESTED, "1")
    monkeypatch.setattr(AutoTuner, "set_compile_args", lambda self, target="auto": self)
    with pytest.warns(UserWarning, match="newer"), pytest.raises(gs.SeamError, match="takes no pass_configs"):
        reinstall("0.1.16")
    assert gs.attached() == []


@pytest.mark.parametrize("state", ["launch", "module"])
def test_the_pass_does_without_tilelangs_helper(monkeypatch, state):
    """So it gives the same barrier where upstream's helper has been mended, or is gone."""
    helper = importlib.import_module("tilelang.contrib.cutedsl")
    monkeypatch.delattr(helper, "sync_grid")
    kernel = compile_handoff((32, 2), [gs.GridSyncPass(state)], delay=7)
    (barrier,) = sass.kernels_in(offline.device_code_of(kernel).cubin)[0].barriers
    assert barrier.leader_axes == ("x", "y")
    with pytest.raises(Exception, match="sync_grid"):
        offline.device_code_of(compile_handoff((32, 2), [], delay=7))
