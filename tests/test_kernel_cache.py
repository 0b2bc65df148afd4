"""The kernel cache never gives a kernel that was built in another way, in one process and across processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tilelang
from kernels import CUTEDSL, compile_handoff, handoff

import tl_gridsync_pass as gs
from tl_gridsync_pass import revision
from tl_gridsync_pass.options import ENABLE_KEY, REVISION_KEY, GridSyncOptions
from tl_gridsync_pass.seams import kernel_cache

WORKER = Path(__file__).with_name("cache_worker.py")


def run_in_new_process(cache: Path, *ways: str) -> list[list]:
    environment = {**os.environ, "TILELANG_CACHE_DIR": str(cache), "TILELANG_DISABLE_CACHE": "0"}
    done = subprocess.run([sys.executable, str(WORKER), *ways], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_disk_cache_across_processes(tmp_path):
    """Each way finds its own entry again, whoever wrote it, and never another's; equal ways share one."""
    assert run_in_new_process(tmp_path, "plain") == [["stock", 1]]
    assert run_in_new_process(tmp_path, "nothing", "launch", "module", "older") == [
        ["stock", 1],
        ["launch", 2],
        ["module", 3],
        ["launch", 4],
    ]
    ways = ["older", "module", "process", "launch", "pass_configs", "nothing", "empty", "empty in an enabled process"]
    assert run_in_new_process(tmp_path, *ways) == [
        ["launch", 4],
        ["module", 4],
        ["launch", 4],
        ["launch", 4],
        ["launch", 4],
        ["stock", 4],
        ["stock", 5],
        ["stock", 5],
    ]
    assert run_in_new_process(tmp_path, "plain") == [["stock", 5]]


def test_functions_under_jit_across_processes(tmp_path):
    """TileLang 0.1.11 finds their kernels by the function's source, before it has a kernel to look at."""
    assert run_in_new_process(tmp_path, "jit plain") == [["stock", 1]]
    assert run_in_new_process(tmp_path, "jit process") == [["launch", 2]]
    assert run_in_new_process(tmp_path, "jit older") == [["launch", 3]]
    assert run_in_new_process(tmp_path, "jit pass_configs", "jit launch") == [["launch", 3], ["launch", 3]]
    assert run_in_new_process(tmp_path, "jit plain") == [["stock", 3]]


def test_memory_cache():
    ways = {"stock": [], "launch": [gs.GridSyncPass()], "module": [gs.GridSyncPass("module")]}
    first = {name: compile_handoff(32, passes, delay=61) for name, passes in ways.items()}
    assert len({id(kernel) for kernel in first.values()}) == 3
    for name, passes in reversed(ways.items()):
        assert compile_handoff(32, passes, delay=61) is first[name]
    with gs.enabled(state="module"):
        assert tilelang.compile(handoff(32, delay=61), target=CUTEDSL, execution_backend="cutedsl") is first["module"]


@pytest.fixture
def emitting_copies(monkeypatch, tmp_path):
    """The emitting modules as files that a test may edit."""
    copies = {}

    class Spec:
        def __init__(self, origin):
            self.origin = origin

    real = revision.find_spec

    def find_copy(name):
        if name not in copies:
            copies[name] = tmp_path / f"{name}.py"
            copies[name].write_bytes(Path(real(name).origin).read_bytes())
        return Spec(str(copies[name]))

    monkeypatch.setattr(revision, "find_spec", find_copy)
    revision.emission_revision.cache_clear()
    yield copies
    revision.emission_revision.cache_clear()


@pytest.mark.parametrize("module", ["protocol", "device", "lowering"])
def test_the_revision_changes_with_the_text_of_what_is_emitted(emitting_copies, module):
    before = revision.emission_revision()
    revision.emission_revision.cache_clear()
    assert revision.emission_revision() == before
    file = emitting_copies[f"tl_gridsync_pass.{module}"]
    file.write_text(file.read_text() + "\n")
    revision.emission_revision.cache_clear()
    assert revision.emission_revision() != before


def test_the_key_holds_every_option_and_the_revision():
    keys = set(GridSyncOptions().to_pass_configs("r"))
    assert keys == {ENABLE_KEY, REVISION_KEY, *(f"tl_gridsync.{name}" for name in GridSyncOptions.names())}
    for asked in ({ENABLE_KEY: True}, {ENABLE_KEY: True, REVISION_KEY: "of another release"}):
        completed = kernel_cache.complete(asked, None)
        assert set(completed) == keys
        assert completed[REVISION_KEY] == revision.emission_revision()


def test_what_does_not_use_the_pass_keeps_its_key():
    for configs in (None, {}, {"tl.fast_math": True}):
        assert kernel_cache.complete(configs, None) is configs
    assert kernel_cache.complete({ENABLE_KEY: False}, GridSyncOptions()) == {ENABLE_KEY: False}
