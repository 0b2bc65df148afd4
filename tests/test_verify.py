"""How findings reach the user: as errors, warnings, text, and through passes and compilations."""

import importlib.metadata
import logging
import subprocess
import warnings
from pathlib import Path
from types import SimpleNamespace

import divergent_file
import pytest
import tilelang
import tilelang.language as T
import tvm_ffi
import verify_catalogue as catalogue
from kernels import CUTEDSL, handoff

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams import offline
from tl_gridsync_pass.seams.device_ir import device_module
from tl_gridsync_pass.seams.tilelang_version import KNOWN_VERSIONS
from tl_gridsync_pass.tvm_compat import dtype_of, tir, tvm
from tl_gridsync_pass.verify import Severity, find, residency
from tl_gridsync_pass.verify.launch import Axis
from tl_gridsync_pass.verify.proof import Prover, Verdict

HERE = Path(divergent_file.__file__).resolve()

# Up to 0.1.9 TileLang's statements have no place in a file.
needs_lines = pytest.mark.skipif(
    tvm_ffi.get_global_func("tl.ir.GetStmtSpan", allow_missing=True) is None, reason="TileLang keeps no source lines"
)


def line_of(text: str, occurrence: int = 1) -> int:
    lines = [number for number, line in enumerate(HERE.read_text().splitlines(), 1) if text in line]
    return lines[occurrence - 1]


def device(name: str) -> tvm.IRModule:
    case = next(case for case in catalogue.CASES if case.name == name)
    return device_module(case.func, CUTEDSL)


@pytest.fixture(scope="module")
def hanging() -> tvm.IRModule:
    return device_module(divergent_file.hangs, CUTEDSL)


@pytest.fixture(scope="module")
def data_dependent() -> tvm.IRModule:
    return device("data_of_the_block")


@needs_lines
def test_a_finding_names_kernel_place_condition_and_way_out(hanging):
    (finding,) = find(hanging)
    assert finding.kernel == "hangs_kernel"
    assert (Path(finding.location.file).resolve(), finding.location.line) == (HERE, line_of("T.sync_grid()"))
    # TileLang renames what T.Kernel gives; the source line has the user's own name.
    assert finding.condition == "bx < n"
    assert str(finding).splitlines() == [
        "error[grid-divergent]: the grid barrier in kernel 'hangs_kernel' is not reached equally often by all blocks of the grid: "
        "the condition `bx < n` depends on the block index",
        f"  --> {finding.location}",
        "   |",
        # The line of the condition, which TileLang keeps for no statement of this kind.
        f"{line_of('if block < n')} |         if block < n:",
        "   |         ------------- the barrier stands under `bx < n`",
        f"{line_of('T.sync_grid()')} |             T.sync_grid()",
        "   |             ^^^^^^^^^^^^^",
        "   = note: `bx` is blockIdx.x",
        "   = help: move T.sync_grid() out of the `if`, and keep only the work that some threads do inside",
    ]


def test_a_finding_without_a_source_line_is_text_all_the_same():
    (case,) = (case for case in catalogue.DEVICE_CASES if case.name == "return_from_inside_a_loop")
    (finding,) = find(tvm.IRModule({"kernel": case.func}))
    assert str(finding).splitlines()[1:3] == [
        "  = note: threads for which `i == bx` holds return early here, before the barrier; "
        "it is True for blockIdx.x = 0 and False for blockIdx.x = 1 (at i = 0)",
        "  = note: `bx` is blockIdx.x",
    ]


def test_a_finding_gives_two_blocks_that_disagree():
    (finding,) = find(device("tail_of_a_strided_loop"))
    assert "it is 3 for blockIdx.x = 0 and 2 for blockIdx.x = 2" in str(finding)


@needs_lines
def test_a_finding_follows_a_value_through_variables():
    (finding,) = find(device("through_a_variable"))
    assert [str(note).partition(" (")[0] for note in finding.notes[1:]] == ["`x` is set to `tx % 2`", "`tx` is threadIdx.x"]
    if finding.notes[1].location is None and tilelang.__version__.partition("+")[0] != KNOWN_VERSIONS[-1]:
        pytest.skip("this TileLang keeps no source line of an assignment")
    assert finding.notes[1].location.line == finding.location.line - 3


@needs_lines
def test_an_early_exit_is_named_with_its_own_line():
    (finding,) = find(device("after_a_thread_returned"))
    assert "the early exit under `64 <= tx`" in finding.message
    assert finding.notes[0].location.line == finding.location.line - 1


def test_one_side_of_warp_specialisation_is_called_so():
    (finding,) = find(device("one_side_of_warp_specialisation"))
    assert "the warp-specialised region under `tx < 128`" in finding.message
    assert "behind the warp-specialised region" in finding.help


def test_errors_stand_before_warnings():
    @T.prim_func
    def both(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            B[bx] = 1
            if A[bx] > 0:
                T.sync_grid()
            B[bx] = 2
            if bx > 0:
                T.sync_grid()

    assert [(d.severity, d.barrier) for d in find(device_module(both, CUTEDSL))] == [(Severity.ERROR, 2), (Severity.WARNING, 1)]


def test_a_grid_that_no_gpu_holds_is_warned_of_with_the_arithmetic():
    @T.prim_func
    def large(A: T.Tensor((265,), "int32")):
        with T.Kernel(265, threads=1024) as bx:
            A[bx] = 1
            T.sync_grid()

    (finding,) = find(device_module(large, CUTEDSL))
    assert (finding.rule.name, finding.severity) == ("grid-too-large", Severity.WARNING)
    assert "265 blocks of 1024 threads" in finding.message
    assert "132 multiprocessors x 2 blocks (2048 threads / 1024 a block) = 264 blocks" in str(finding)


@pytest.mark.parametrize(
    ("arch", "threads", "shared", "blocks"),
    [
        ("sm_90a", 1024, 0, 132 * 2),
        ("sm_90a", 100, 0, 132 * 16),
        ("sm_90", 128, 100 << 10, 132 * 2),
        ("sm_80", 1024, 0, 108 * 2),
        ("sm_89", 1024, 0, 142),
        ("sm_100a", 512, 0, 148 * 4),
    ],
)
def test_the_bound_on_resident_blocks(arch, threads, shared, blocks):
    assert residency.bound(arch, threads, shared).blocks == blocks


def test_an_unknown_architecture_has_no_bound():
    assert residency.bound("sm_999", 128, 0) is None


def test_a_grid_that_just_fits_is_not_warned_of():
    @T.prim_func
    def fits(A: T.Tensor((264,), "int32")):
        with T.Kernel(264, threads=1024) as bx:
            A[bx] = 1
            T.sync_grid()

    assert find(device_module(fits, CUTEDSL)) == []


def test_a_read_only_load_of_a_written_buffer_is_reported():
    @T.prim_func
    def read_only(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32"), C: T.Tensor((256,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.get_thread_binding()
            A[bx * 64 + tx] = T.__ldg(C[tx])
            T.sync_grid()
            B[bx * 64 + tx] = T.__ldg(A[255 - tx])

    (finding,) = find(device_module(read_only, CUTEDSL))
    assert (finding.rule.name, finding.severity) == ("non-coherent-load", Severity.WARNING)
    assert "reads 'A' through the read-only cache and also writes it" in finding.message


def test_generated_code_reads_every_global_buffer_with_coherent_loads():
    @T.prim_func
    def exchange(A: T.Tensor((256,), "int32"), B: T.Tensor((256,), "int32"), only_read: T.Tensor((256,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            tx = T.get_thread_binding()
            A[bx * 64 + tx] = only_read[bx * 64 + tx]
            T.sync_grid()
            B[bx * 64 + tx] = A[255 - bx * 64 - tx] + only_read[tx]

    kernel = tilelang.compile(exchange, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    disassembler = next(f for f in importlib.metadata.files("nvidia-cuda-nvdisasm") if f.name == "nvdisasm").locate()
    sass = subprocess.run([disassembler, offline.cubin_of(kernel)], capture_output=True, text=True, check=True).stdout
    # Plain LDG.E; the read-only cache would be LDG.E.CONSTANT. The barrier's own polls are LDG.E.STRONG.
    loads = [line for line in sass.splitlines() if "LDG" in line and "STRONG" not in line]
    assert len(loads) == 3
    assert not any("CONSTANT" in load for load in loads)


@pytest.mark.parametrize("between", [False, True])
def test_two_barriers_with_nothing_between_are_a_hint(between):
    @T.prim_func
    def twice(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            A[bx] = 1
            T.sync_grid()
            if between:
                B[bx] = A[0]
            T.sync_grid()

    found = find(device_module(twice, CUTEDSL))
    assert [(d.rule.name, d.severity, d.barrier) for d in found] == ([] if between else [("repeated-barrier", Severity.HINT, 2)])


def test_the_two_halves_of_a_split_barrier_are_no_repetition():
    @T.prim_func
    def split(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            A[bx] = 1
            with T.attr(0, "tl_gridsync.phase", "arrive"):
                T.sync_grid()
            with T.attr(0, "tl_gridsync.phase", "wait"):
                T.sync_grid()

    assert find(device_module(split, CUTEDSL)) == []


def test_a_module_without_a_grid_barrier_has_no_findings():
    @T.prim_func
    def none(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            if T.get_thread_binding() == 0:
                A[bx] = 1

    assert find(device_module(none, CUTEDSL)) == []


def test_the_pass_raises_its_own_error_type(hanging):
    with pytest.raises(gs.GridSyncDivergenceError, match=r"error\[grid-divergent\]") as raised:
        gs.VerifyGridSync()(hanging)
    assert "verify='warn'" in str(raised.value)


def test_the_pass_hands_a_right_module_on_as_it_is():
    mod = device("straight")
    assert gs.VerifyGridSync()(mod).same_as(mod)


def test_the_pass_is_an_ffi_function(hanging):
    make = tvm_ffi.get_global_func("tl_gridsync.VerifyGridSync")
    with pytest.raises(gs.GridSyncDivergenceError):
        make("error")(hanging)
    assert make("off")(hanging).same_as(hanging)


def test_the_pass_refuses_an_unknown_mode():
    with pytest.raises(gs.GridSyncOptionError, match="verify='loud' is unknown"):
        gs.VerifyGridSync("loud")
    with pytest.raises(gs.GridSyncOptionError, match="verify='loud' is unknown"):
        gs.GridSyncPass(verify="loud")


@needs_lines
def test_warn_turns_errors_into_warnings_at_the_barrier(hanging):
    with pytest.warns(gs.GridSyncWarning, match="grid-divergent") as caught:
        gs.VerifyGridSync("warn")(hanging)
    (warning,) = caught
    assert (Path(warning.filename).resolve(), warning.lineno) == (HERE, line_of("T.sync_grid()"))


def test_a_warning_is_no_error(data_dependent):
    with pytest.warns(gs.GridSyncWarning, match="not-provably-uniform"):
        gs.VerifyGridSync()(data_dependent)


def test_off_says_nothing(hanging, data_dependent):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.VerifyGridSync("off")(hanging)
        gs.VerifyGridSync("off")(data_dependent)


def test_hints_are_logged(caplog):
    @T.prim_func
    def twice(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            A[bx] = 1
            T.sync_grid()
            T.sync_grid()

    with caplog.at_level(logging.INFO, logger="tl_gridsync_pass"), warnings.catch_warnings():
        warnings.simplefilter("error")
        gs.VerifyGridSync()(device_module(twice, CUTEDSL))
    assert "hint[repeated-barrier]" in caplog.text


@pytest.mark.parametrize("how", ["passes", "pass_configs", "process-wide"])
def test_a_compilation_with_the_pass_is_verified(how):
    target = tvm.target.Target(CUTEDSL)
    with pytest.raises(gs.GridSyncDivergenceError, match="hangs_kernel"), target:
        if how == "passes":
            tilelang.lower(divergent_file.hangs, target=target, passes=[gs.GridSyncPass()])
        elif how == "pass_configs":
            with tvm.transform.PassContext(config={"tl_gridsync.enable": True, "tl_gridsync.verify": "error"}):
                tilelang.lower(divergent_file.hangs, target=target)
        else:
            with gs.enabled():
                tilelang.lower(divergent_file.hangs, target=target)


def test_compile_itself_raises_the_error():
    with pytest.raises(gs.GridSyncDivergenceError, match="hangs_kernel"):
        tilelang.compile(divergent_file.hangs, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])


def test_verification_can_be_switched_off_for_a_compilation():
    target = tvm.target.Target(CUTEDSL)
    with target:
        artifact = tilelang.lower(divergent_file.hangs, target=target, passes=[gs.GridSyncPass(verify="off")])
    assert "tl_gridsync.arrive_and_wait" in artifact.kernel_source


def test_the_mode_is_part_of_the_cache_key():
    keys = [gs.GridSyncOptions(verify=mode).to_pass_configs("r")["tl_gridsync.verify"] for mode in ("error", "warn", "off")]
    assert keys == ["error", "warn", "off"]


def test_a_kernel_of_the_package_is_clean():
    assert find(device_module(handoff((32, 2)), CUTEDSL)) == []


def test_a_value_is_proved_by_evaluation_for_few_and_for_many_threads_and_by_the_analyser_for_unknown_sizes():
    tx, bx, n = (tir.Var(name, "int32") for name in ("tx", "bx", "n"))
    two = tir.IntImm("int32", 2)
    even = tir.FloorMod(tx * tx + tx + bx * bx + bx, two)
    for blocks in (2, 132):
        prover = Prover([Axis("threadIdx.x", tx, tir.IntImm("int32", 1024)), Axis("blockIdx.x", bx, tir.IntImm("int32", blocks))])
        assert prover.verdict(even, set()) == Verdict(True, True)
        differs = prover.verdict(tir.FloorMod(tx + bx * bx + bx, two), set())
        assert (differs.same_in_block, differs.same_in_grid) == (False, True)
        assert differs.example == "it is 0 for threadIdx.x = 0 and 1 for threadIdx.x = 1 (at bx = 0)"
        assert prover.verdict(tir.FloorDiv(n * 1024 + tx, tir.IntImm("int32", 1024)), set()) == Verdict(True, True)
        assert prover.verdict(tir.FloorDiv(n * 1024 + tx, tir.IntImm("int32", 512)), set()) == Verdict(False, True)


def test_the_analyser_is_let_go_of_in_the_thread_that_made_it(hanging, monkeypatch):
    """TileLang 0.1.9 corrupts its heap where the garbage collector frees one in another thread."""
    made = []
    enter = Prover.__enter__
    monkeypatch.setattr(Prover, "__enter__", lambda prover: made.append(prover) or enter(prover))
    find(hanging)
    assert len(made) == 1 and not hasattr(made[0], "analyzer")


def test_a_truth_value_of_an_old_tvm_ffi_is_one():
    assert dtype_of(SimpleNamespace(dtype="bool8")) == dtype_of(SimpleNamespace(dtype="bool")) == "bool"
