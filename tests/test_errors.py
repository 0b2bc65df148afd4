"""Bad input gets an error that names the kernel, what is wrong and what to do; never the stock barrier in silence."""

import pytest
import tilelang
import tvm_ffi
from ir_builders import BARRIER, function, module
from kernels import CUDA, CUTEDSL, handoff

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams import pass_config, tilelang_version
from tl_gridsync_pass.tvm_compat import tir, tvm

ON_CUTEDSL = {"target": CUTEDSL, "execution_backend": "cutedsl"}


def lower(target, **kwargs):
    with tvm.target.Target(target):
        return tilelang.lower(handoff(), target=target, **kwargs)


def through_jit(**kwargs):
    @tilelang.jit(**kwargs)
    def make():
        return handoff()

    return make()


ENTRY_POINTS = {
    "tilelang.compile": lambda **kwargs: tilelang.compile(handoff(), **kwargs),
    "tilelang.par_compile": lambda **kwargs: tilelang.par_compile([handoff()], **kwargs),
    "tilelang.jit": through_jit,
    "tilelang.lower": lambda **kwargs: lower(kwargs.pop("target"), **{k: v for k, v in kwargs.items() if k != "execution_backend"}),
}
each_entry_point = pytest.mark.parametrize("name", ENTRY_POINTS)


@each_entry_point
@pytest.mark.parametrize("entry", [tir.transform.Simplify(), "GridSyncPass", None, 3], ids=["TVM pass", "name", "None", "number"])
def test_an_entry_that_is_not_one_of_ours(name, entry):
    with pytest.raises(gs.GridSyncOptionError, match=rf"{name}\(passes=\.\.\.\) got .* not a pass of this plugin.*GridSyncPass objects"):
        ENTRY_POINTS[name](**ON_CUTEDSL, passes=[gs.GridSyncPass(), entry])


@each_entry_point
def test_the_class_in_place_of_an_object(name):
    with pytest.raises(gs.GridSyncOptionError, match=r"Did you mean GridSyncPass\(\)\?"):
        ENTRY_POINTS[name](**ON_CUTEDSL, passes=[gs.GridSyncPass])


@each_entry_point
def test_passes_that_contradict_each_other(name):
    with pytest.raises(gs.GridSyncOptionError, match=r"contradict each other.*state='launch'.*state='module'"):
        ENTRY_POINTS[name](**ON_CUTEDSL, passes=[gs.GridSyncPass(), gs.GridSyncPass("module")])


@each_entry_point
def test_a_pass_that_is_not_in_a_list_is_refused_or_taken_but_never_ignored(name):
    with pytest.raises(gs.GridSyncOptionError, match="not a pass of this plugin"):
        ENTRY_POINTS[name](**ON_CUTEDSL, passes="GridSyncPass")


@each_entry_point
def test_the_pass_on_the_cuda_target(name):
    with pytest.raises(gs.GridSyncTargetError, match=r"kernel 'handoff'.*target 'cuda'.*cooperative_groups.*is right.*target='cutedsl'"):
        ENTRY_POINTS[name](target=CUDA, execution_backend="tvm_ffi", passes=[gs.GridSyncPass()])


def test_pass_configs_on_the_cuda_target():
    with pytest.raises(gs.GridSyncTargetError, match="kernel 'handoff'.*target 'cuda'"):
        tilelang.compile(handoff(), target=CUDA, execution_backend="tvm_ffi", pass_configs={"tl_gridsync.enable": True})
    asks_for_it = tvm.transform.PassContext(config={"tl_gridsync.enable": True})
    with pytest.raises(gs.GridSyncTargetError, match="kernel 'handoff_kernel'.*target 'cuda'"), asks_for_it:
        lower(CUDA)


def test_an_empty_passes_is_fine_on_the_cuda_target():
    assert "this_grid" in lower(CUDA, passes=[]).kernel_source


def test_the_pass_on_the_hip_target():
    name = "target.build.tilelang_hip_without_compile"
    codegen = tvm_ffi.get_global_func(name, allow_missing=True)
    if codegen is None:
        pytest.skip(f"this TileLang has no {name}")
    hip = tvm.target.Target({"kind": "hip", "mcpu": "gfx942"})
    asks_for_it = tvm.transform.PassContext(config={"tl_gridsync.enable": True})
    with pytest.raises(gs.GridSyncTargetError, match=r"kernel 'kernel'.*target 'hip'.*HIP's cooperative groups.*is right"), asks_for_it:
        codegen(module(function([BARRIER], {"threadIdx.x": 32})), hip)


@pytest.mark.parametrize(
    ("configs", "message"),
    [
        ({"tl_gridsync.enable": True, "tl_gridsync.state": "kernel"}, r"state='kernel' is unknown.*'launch', 'module'"),
        ({"tl_gridsync.enable": True, "tl_gridsync.stat": "launch"}, r"unknown pass config tl_gridsync\.stat.*Known:.*tl_gridsync\.state"),
        ({"tl_gridsync.state": "module"}, r"tl_gridsync\.state is set but tl_gridsync\.enable is not.*Add 'tl_gridsync\.enable': True"),
        ({"tl_gridsync.enable": "yes"}, r"tl_gridsync\.enable='yes' must be True or False"),
    ],
)
def test_bad_pass_configs(configs, message):
    with pytest.raises(gs.GridSyncOptionError, match=message):
        tilelang.compile(handoff(), **ON_CUTEDSL, pass_configs=configs)


def test_an_unknown_state_or_option_for_the_process():
    with pytest.raises(gs.GridSyncOptionError, match=r"state='kernel' is unknown"):
        gs.enable(state="kernel")
    with pytest.raises(TypeError, match="stat"):
        gs.enable(stat="launch")
    with pytest.raises(gs.GridSyncOptionError), gs.enabled(state="kernel"):
        pass
    assert lower(CUTEDSL).kernel_source.count("tl.sync_grid()") == 1


def test_tvm_itself_refuses_an_unknown_key_and_a_wrong_type():
    with pytest.raises(AttributeError, match=r"Invalid config option 'tl_gridsync\.stat'.*tl_gridsync\.state"):
        tvm.transform.PassContext(config={"tl_gridsync.stat": "launch"})
    for key, value, wanted in (("tl_gridsync.enable", "yes", "bool"), ("tl_gridsync.state", 3, "str")):
        with pytest.raises(TypeError, match=rf"pass config {key} takes a {wanted}, got"):
            tvm.transform.PassContext(config={key: value})
    with tvm.transform.PassContext(config={"tl_gridsync.enable": True, "tl_gridsync.state": "module"}) as context:
        assert (context.config["tl_gridsync.enable"], context.config["tl_gridsync.state"]) == (True, "module")


def test_a_missing_native_library(monkeypatch, tmp_path):
    monkeypatch.setattr(pass_config, "package_path", [str(tmp_path)])
    with pytest.raises(ImportError, match=r"native library .*\.so is missing \(looked in .*\)\. Reinstall with `pip install"):
        pass_config._native_library()


def test_a_native_library_that_does_not_load(monkeypatch, tmp_path):
    (tmp_path / pass_config._LIBRARY).write_text("not a library")
    monkeypatch.setattr(pass_config, "package_path", [str(tmp_path)])
    with pytest.raises(ImportError, match=r"native library .* does not load: .*rebuild it with `pip install"):
        pass_config._native_library()


def test_a_tvm_that_does_not_export_the_registration(monkeypatch, tmp_path):
    monkeypatch.setattr(pass_config, "TL_LIBS", [str(tmp_path)])
    with pytest.raises(gs.SeamError, match=r"no TVM library of TileLang .* exports PassContext::RegisterConfigOption"):
        pass_config._register_config_option_address()


def test_a_tilelang_that_was_never_tested(monkeypatch):
    monkeypatch.delenv(tilelang_version.ALLOW_UNTESTED, raising=False)
    monkeypatch.setattr(tilelang, "__version__", "9.9.9+local")
    with pytest.raises(ImportError, match=r"TileLang 9\.9\.9 is not among the versions.*TL_GRIDSYNC_ALLOW_UNTESTED=1"):
        tilelang_version.require_known_version()
    monkeypatch.setenv(tilelang_version.ALLOW_UNTESTED, "1")
    with pytest.warns(UserWarning, match="newer than what"):
        tilelang_version.require_known_version()
    monkeypatch.setattr(tilelang, "__version__", "0.0.1")
    with pytest.raises(ImportError, match=r"0\.0\.1 is not among"):
        tilelang_version.require_known_version()


def test_a_kernel_that_has_no_cutedsl_module_has_no_cubin():
    from tl_gridsync_pass.seams import offline

    class Kernel:
        adapter = None

    with pytest.raises(gs.SeamError, match="no CuTeDSL module.*target='cutedsl'"):
        offline.cubin_of(Kernel())
