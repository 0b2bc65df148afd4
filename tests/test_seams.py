"""The seams: what they are attached to, what they leave alone, and that they come off without a trace."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tilelang
import tvm_ffi
from kernels import CUTEDSL, handoff

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams import codegen, entry_points
from tl_gridsync_pass.seams.attachments import override_global_func, wrap_attribute
from tl_gridsync_pass.seams.source_hook import HOOK, IMPORT_LINE
from tl_gridsync_pass.tvm_compat import tvm

TESTS = Path(__file__).parent
PASSES = {"with the pass": [gs.GridSyncPass()], "without": []}


def lower(passes=None) -> str:
    with tvm.target.Target(CUTEDSL):
        return tilelang.lower(handoff(), target=CUTEDSL, passes=passes).kernel_source


def run_python(*arguments: str, **environment: str) -> str:
    paths = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, *arguments], env={**os.environ, "PYTHONPATH": paths, **environment}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def installed_again():
    yield
    gs.install()


@pytest.fixture
def hook():
    """Registers a user's callback on generated source, which marks the source; gone after the test."""

    def register(mark: str) -> None:
        tvm_ffi.register_global_func(HOOK, lambda code, target: f"{code}# {mark}\n", override=True)

    yield register
    tvm_ffi.registry.remove_global_func(HOOK)


def test_uninstall_restores_the_very_objects():
    run_python(str(TESTS / "seams_worker.py"))


def test_after_uninstall_tilelang_is_as_it_was(installed_again):
    gs.enable()
    gs.uninstall()
    assert gs.attached() == []
    with tvm.target.Target(CUTEDSL):
        assert "tl.sync_grid()" in tilelang.lower(handoff(), target=CUTEDSL).kernel_source
    with pytest.raises(TypeError, match="passes"):
        tilelang.compile(handoff(), target=CUTEDSL, passes=[])


def test_installing_again_attaches_nothing_twice():
    before = gs.attached()
    compile_before = tilelang.compile
    gs.install()
    importlib.reload(gs)
    assert gs.attached() == before
    assert tilelang.compile is compile_before
    assert lower([gs.GridSyncPass()]).count(IMPORT_LINE) == 1


def test_attached_lists_every_place():
    places = gs.attached()
    assert len(places) == len(set(places))
    expected = {"tilelang.compile", "tilelang.jit.compile", "tilelang.cache.kernel_cache.KernelCache.cached"}
    assert expected | {codegen.CUTEDSL_CODEGENS[1]} <= set(places)


def test_a_function_that_somebody_wrapped_later_is_not_torn_out():
    before = gs.attached()
    later = wrap_attribute(tilelang, "compile", lambda wrapped, _, args, kwargs: wrapped(*args, **kwargs))
    try:
        with pytest.raises(gs.SeamError, match=r"cannot detach from tilelang\.compile: something else replaced it"):
            gs.uninstall()
        assert gs.attached() == before
        assert "arrive_and_wait" in lower([gs.GridSyncPass()])
    finally:
        later.restore()


def test_a_code_generator_that_somebody_replaced_later_is_not_torn_out():
    name = codegen.CUTEDSL_CODEGENS[1]
    later = override_global_func(name, lambda original: lambda mod, target: original(mod, target))
    try:
        with pytest.raises(gs.SeamError, match=f"cannot detach from {name}: something else replaced it"):
            gs.uninstall()
        assert "arrive_and_wait" in lower([gs.GridSyncPass()])
    finally:
        later.restore()


@pytest.mark.parametrize("failing", ["codegen", "entry_points"])
def test_where_one_seam_is_missing_none_stays_attached(monkeypatch, installed_again, failing):
    gs.uninstall()
    if failing == "codegen":
        monkeypatch.setattr(codegen, "CUTEDSL_CODEGENS", ("target.build.gone", "target.build.gone_without_compile"))
    else:
        monkeypatch.setattr(entry_points, "wrap_attribute", lambda *_: (_ for _ in ()).throw(gs.SeamError("gone")))
    with pytest.raises(gs.SeamError, match="gone"):
        gs.install()
    assert gs.attached() == []
    with tvm.target.Target(CUTEDSL):
        assert "tl.sync_grid()" in tilelang.lower(handoff(), target=CUTEDSL).kernel_source
    monkeypatch.undo()


def test_importing_after_kernels_were_compiled(tmp_path):
    script = (
        "import sys, cache_worker as w; stock = w.build('nothing'); assert 'tl_gridsync_pass' not in sys.modules; "
        "launch = w.build('launch'); process = w.build('process'); again = w.build('nothing'); assert again is stock; "
        "print([w.barrier_of(k) for k in (stock, launch, process, again)])"
    )
    assert run_python("-c", script, TILELANG_CACHE_DIR=str(tmp_path)).splitlines()[-1] == "['stock', 'launch', 'launch', 'stock']"


def test_a_callback_registered_before_the_import_goes_on_working(tmp_path):
    script = (
        f"import sys, tvm_ffi, tilelang, cache_worker as w; tvm_ffi.register_global_func({HOOK!r}, lambda code, target: code + '# mine'); "
        "sources = [w.build(way).get_kernel_source() for way in ('nothing', 'launch', 'empty')]; assert 'tl_gridsync_pass' in sys.modules; "
        "print([('# mine' in s, 'arrive_and_wait' in s) for s in sources])"
    )
    printed = run_python("-c", script, TILELANG_CACHE_DIR=str(tmp_path)).splitlines()[-1]
    assert printed == "[(True, False), (True, True), (True, False)]"


@pytest.mark.parametrize("passes", PASSES.values(), ids=PASSES)
def test_a_callback_registered_after_the_import_goes_on_working(hook, passes):
    hook("first")
    assert lower(passes).endswith("# first\n")
    hook("second")
    source = lower(passes)
    assert source.endswith("# second\n") and "# first" not in source
    assert source.startswith(IMPORT_LINE) == bool(passes)


def test_the_callback_is_the_users_own_again_after_each_compilation(hook):
    hook("mine")
    mine = tvm_ffi.get_global_func(HOOK)
    lower([gs.GridSyncPass()])
    assert tvm_ffi.get_global_func(HOOK).same_as(mine)


def test_without_a_callback_none_is_left_behind():
    assert tvm_ffi.get_global_func(HOOK, allow_missing=True) is None
    lower([gs.GridSyncPass()])
    assert tvm_ffi.get_global_func(HOOK, allow_missing=True) is None


def test_a_callback_that_fails_leaves_the_next_compilation_whole(hook):
    def failing(code, target):
        raise ValueError("my callback failed")

    hook("mine")
    tvm_ffi.register_global_func(HOOK, failing, override=True)
    with pytest.raises(Exception, match="my callback failed"):
        lower([gs.GridSyncPass()])
    hook("mine")
    source = lower([gs.GridSyncPass()])
    assert source.startswith(IMPORT_LINE) and source.endswith("# mine\n")


def test_a_callback_may_register_another_one(hook):
    def replacing(code, target):
        hook("later")
        return code + "# now\n"

    tvm_ffi.register_global_func(HOOK, replacing, override=True)
    assert lower([gs.GridSyncPass()]).endswith("# now\n")
    assert lower([gs.GridSyncPass()]).endswith("# later\n")


@pytest.mark.parametrize("passes", PASSES.values(), ids=PASSES)
def test_tilelangs_lowering_trace_goes_on_working(tmp_path, passes):
    lower_trace = pytest.importorskip("tilelang.tools.lower_trace", reason="came with TileLang 0.1.13")
    lower_trace_core = importlib.import_module("tilelang.tools.lower_trace.core")
    if not hasattr(lower_trace_core, "get_last_session"):
        pytest.skip("TileLang 0.1.13 does not hand out what it has traced")
    lower_trace.enable(mode="html", trace_dir=tmp_path)
    try:
        source = lower(passes)
        records = lower_trace_core.get_last_session().records
    finally:
        lower_trace.disable()
    printed = [record.after_text for record in records if record.status == lower_trace.STATUS_CODEGEN]
    assert printed and printed[-1].strip() == source.strip()
    assert ("arrive_and_wait" in printed[-1]) == bool(passes)
    assert len([record for record in records if record.status == lower_trace.STATUS_COMPLETED]) > 20
    assert list(tmp_path.rglob("*.html"))


@pytest.mark.parametrize("passes", PASSES.values(), ids=PASSES)
def test_tilelangs_pass_timing_goes_on_working(monkeypatch, passes):
    pass_timing = pytest.importorskip("tilelang.tools.pass_timing", reason="came with TileLang 0.1.14")
    reports = []
    monkeypatch.setattr(pass_timing.PassTimingTool, "print_report", lambda tool: reports.append(tool.report()))
    kernel = tilelang.compile(
        handoff(delay=71), target=CUTEDSL, execution_backend="cutedsl", pass_configs={"tl.pass_profile": True}, passes=passes
    )
    assert ("arrive_and_wait" in kernel.get_kernel_source()) == bool(passes)
    (report,) = reports
    assert "Simplify" in report
    assert ("LowerGridSync" in report) == bool(passes)
