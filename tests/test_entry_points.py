"""Every way to ask for the pass, and what each of them compiles."""

import pytest
import tilelang
import tilelang.language as T
from kernels import CUTEDSL, handoff
from tilelang.autotuner.tuner import AutoTuner

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams.tilelang_compat import device_source_of
from tl_gridsync_pass.tvm_compat import tvm

LAUNCH, MODULE, STOCK = "launch", "module", "stock"
ON_CUTEDSL = {"target": CUTEDSL, "execution_backend": "cutedsl"}


def barrier_of(source: str) -> str:
    """Which barrier a kernel source holds; fails for none or a mixture."""
    found = [
        name
        for name, text in ((STOCK, "tl.sync_grid()"), (LAUNCH, 'arrive_and_wait("launch", '), (MODULE, 'arrive_and_wait("module", '))
        if text in source
    ]
    assert len(found) == 1, source
    return found[0]


def lower(**kwargs) -> str:
    with tvm.target.Target(CUTEDSL):
        return tilelang.lower(handoff(), target=CUTEDSL, **kwargs).kernel_source


def configs(state: str | None = None, **extra) -> dict:
    return {"tl_gridsync.enable": True, **({"tl_gridsync.state": state} if state else {}), **extra}


@pytest.mark.parametrize("state", [LAUNCH, MODULE])
def test_compile(state):
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL, passes=[gs.GridSyncPass(state)]).get_kernel_source()) == state


def test_compile_keeps_the_users_own_pass_configs_and_arguments():
    mine = {"tl.disable_safe_memory_legalize": True}
    kernel = tilelang.compile(handoff(), None, "cutedsl", CUTEDSL, pass_configs=mine, passes=[gs.GridSyncPass()])
    assert kernel.pass_configs["tl.disable_safe_memory_legalize"] is True
    assert barrier_of(kernel.get_kernel_source()) == LAUNCH
    assert mine == {"tl.disable_safe_memory_legalize": True}


def test_jit():
    @tilelang.jit(**ON_CUTEDSL, passes=[gs.GridSyncPass("module")])
    def make(delay):
        return handoff(delay=delay)

    assert barrier_of(make(10).get_kernel_source()) == MODULE
    assert barrier_of(make.get_kernel_source(10)) == MODULE
    assert [barrier_of(k.get_kernel_source()) for k in make.par_compile([(10,), (11,)])] == [MODULE, MODULE]


def test_par_compile():
    made = tilelang.par_compile([handoff(delay=21), handoff(delay=22)], **ON_CUTEDSL, passes=[gs.GridSyncPass()])
    assert [barrier_of(kernel.get_kernel_source()) for kernel in made] == [LAUNCH, LAUNCH]


@pytest.mark.parametrize("state", [LAUNCH, MODULE])
def test_lower(state):
    assert barrier_of(lower(passes=[gs.GridSyncPass(state)])) == state


def test_lower_keeps_the_surrounding_pass_context():
    with tvm.transform.PassContext(opt_level=1, config={"tl.disable_safe_memory_legalize": True}):
        assert barrier_of(lower(passes=[gs.GridSyncPass()])) == LAUNCH
        inside = tvm.transform.PassContext.current()
        assert inside.opt_level == 1 and "tl_gridsync.enable" not in inside.config
    assert barrier_of(lower()) == STOCK


def test_lower_takes_the_pass_configs_of_the_pass_context():
    with tvm.transform.PassContext(config=configs("module")):
        assert barrier_of(lower()) == MODULE
        assert barrier_of(lower(passes=[])) == STOCK


@pytest.mark.parametrize(("passes", "expected"), [([gs.GridSyncPass("module")], MODULE), (None, LAUNCH), ([], STOCK)])
def test_what_the_auto_tuner_compiles_its_candidates_with(passes, expected):
    candidates = []

    @tilelang.jit(**ON_CUTEDSL, passes=passes)
    def make(delay=30):
        return handoff(delay=delay)

    tuner = AutoTuner(make, [{"delay": 31}])
    with gs.enabled():
        tuner.set_compile_args(**ON_CUTEDSL, pass_configs=make.pass_configs)
        candidates.append(tuner.compile_args.compile_program(handoff(delay=31)))
    assert [barrier_of(device_source_of(kernel)) for kernel in candidates] == [expected]


@pytest.mark.skipif(not hasattr(AutoTuner, "_benchmark_target"), reason="the tuner of TileLang 0.1.9 cannot be entered without a GPU")
def test_autotune_on_top(monkeypatch, tmp_path):
    """The benchmark needs a GPU, so it is replaced; compiling the candidates is real."""
    # The auto-tuner leaves its log in the current folder.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(AutoTuner, "_resolve_benchmark_devices", lambda *_, **__: (False, [0]))
    monkeypatch.setattr("torch.cuda.set_device", lambda _: None)
    seen = []

    def latency(self, jit_kernel=None, config=None, *args, **kwargs):
        seen.append(jit_kernel)
        return float(len(seen)), None

    monkeypatch.setattr(AutoTuner, "_benchmark_target", latency)

    def tuned(passes):
        @tilelang.autotune(configs=[{"delay": 31}, {"delay": 32}])
        @tilelang.jit(**ON_CUTEDSL, passes=passes)
        def make(delay=30):
            return handoff(delay=delay)

        return make()

    for passes, expected in (([gs.GridSyncPass("module")], MODULE), ([gs.GridSyncPass()], LAUNCH), ([], STOCK)):
        seen.clear()
        best = tuned(passes)
        assert barrier_of(best.get_kernel_source()) == expected
        assert [barrier_of(kernel.get_kernel_source()) for kernel in seen] == [expected, expected]


@pytest.mark.parametrize(("state", "expected"), [(None, LAUNCH), ("launch", LAUNCH), ("module", MODULE)])
def test_pass_configs_alone(state, expected):
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL, pass_configs=configs(state)).get_kernel_source()) == expected


def test_pass_configs_in_the_kernel_function_itself():
    @tilelang.jit(**ON_CUTEDSL, pass_configs=configs("module"))
    def make():
        return handoff()

    assert barrier_of(make().get_kernel_source()) == MODULE


def test_passes_win_over_pass_configs():
    assert (
        barrier_of(
            tilelang.compile(handoff(), **ON_CUTEDSL, pass_configs=configs("module"), passes=[gs.GridSyncPass()]).get_kernel_source()
        )
        == LAUNCH
    )
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL, pass_configs=configs(), passes=[]).get_kernel_source()) == STOCK


def test_nothing_asked_for_is_the_stock_barrier():
    assert barrier_of(lower()) == STOCK
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL).get_kernel_source()) == STOCK
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL, passes=None).get_kernel_source()) == STOCK


def test_the_same_pass_twice_is_the_pass_once():
    assert barrier_of(lower(passes=(gs.GridSyncPass("module"), gs.GridSyncPass("module")))) == MODULE


def test_enable_for_the_process():
    gs.enable(state="module")
    assert barrier_of(lower()) == MODULE
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL).get_kernel_source()) == MODULE
    assert [barrier_of(k.get_kernel_source()) for k in tilelang.par_compile([handoff(delay=41)], **ON_CUTEDSL)] == [MODULE]
    gs.disable()
    assert barrier_of(lower()) == STOCK
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL).get_kernel_source()) == STOCK


def test_enabled_as_a_context_manager_restores_what_was_there():
    gs.enable(state="module")
    with gs.enabled():
        assert barrier_of(lower()) == LAUNCH
        with gs.enabled(state="module"):
            assert barrier_of(lower()) == MODULE
        assert barrier_of(lower()) == LAUNCH
    assert barrier_of(lower()) == MODULE
    with pytest.raises(RuntimeError, match="inside"), gs.enabled():
        raise RuntimeError("inside")
    assert barrier_of(lower()) == MODULE


def test_a_compilations_own_word_wins_over_the_process():
    gs.enable(state="module")
    assert barrier_of(lower(passes=[gs.GridSyncPass()])) == LAUNCH
    assert barrier_of(lower(passes=[])) == STOCK
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL, passes=[]).get_kernel_source()) == STOCK
    assert barrier_of(tilelang.compile(handoff(), **ON_CUTEDSL, pass_configs={"tl_gridsync.enable": False}).get_kernel_source()) == STOCK


def test_a_jit_function_that_was_called_before_enable_is_compiled_again():
    @tilelang.jit(**ON_CUTEDSL)
    def make(delay):
        return handoff(delay=delay)

    before = make(51)
    assert barrier_of(before.get_kernel_source()) == STOCK
    assert make(51) is before
    gs.enable()
    inside = make(51)
    assert barrier_of(inside.get_kernel_source()) == LAUNCH
    assert make(51) is inside
    gs.enable(state="module")
    assert barrier_of(make(51).get_kernel_source()) == MODULE
    gs.disable()
    assert barrier_of(make(51).get_kernel_source()) == STOCK


def test_enable_leaves_kernels_without_a_barrier_and_other_targets_alone():
    @T.prim_func
    def plain(values: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            values[bx] = bx

    before = tilelang.compile(plain, **ON_CUTEDSL)
    gs.enable()
    assert tilelang.compile(plain, **ON_CUTEDSL) is before
    cuda = {"kind": "cuda", "arch": "sm_90a"}
    with tvm.target.Target(cuda):
        source = tilelang.lower(handoff(), target=cuda).kernel_source
    assert "cooperative_groups::this_grid().sync()" in source.replace(" ", "") or "this_grid" in source
