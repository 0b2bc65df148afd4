"""The barrier in kernels of the plain CUDA backend: only where asked for, from the same PTX, with the same facts in SASS."""

import re
import subprocess

import pytest
import tilelang
import tvm_ffi
from kernels import CUDA, LAYOUTS, handoff, layout_id, two_kernels
from tilelang.contrib import nvcc

import tl_gridsync_pass as gs
from tl_gridsync_pass import protocol, sass
from tl_gridsync_pass.cuda_source import cuda_source
from tl_gridsync_pass.seams.source_hook import CUDA_HOOK

AXES = {32: ("x",), (32, 2): ("x", "y"), (32, 1, 2): ("x", "z"), (16, 2, 2): ("x", "y", "z")}
GUARDS = {
    32: "if (((int)threadIdx.x) == 0) {",
    (32, 2): "if ((((int)threadIdx.x) == 0) && (((int)threadIdx.y) == 0)) {",
    (32, 1, 2): "if ((((int)threadIdx.x) == 0) && (((int)threadIdx.z) == 0)) {",
    (16, 2, 2): "if (((((int)threadIdx.x) == 0) && (((int)threadIdx.y) == 0)) && (((int)threadIdx.z) == 0)) {",
}
BOTH = ("cutedsl", "cuda")


def source_of(func, passes) -> str:
    with CUDA:
        return tilelang.lower(func, target=CUDA, passes=passes).kernel_source


def kernels_in(source: str, tmp_path) -> tuple[sass.KernelSass, ...]:
    file, cubin = tmp_path / "kernel.cu", tmp_path / "kernel.cubin"
    file.write_text(source)
    options = nvcc.default_compile_options()
    command = [nvcc.get_nvcc_compiler(), "-cubin", "-arch=sm_90a", *options, "-o", str(cubin), str(file)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert made.returncode == 0, made.stderr
    return sass.kernels_in(cubin)


@pytest.mark.parametrize("backends", [BOTH, "cutedsl,cuda", "cutedsl+cuda", ["cuda", "cutedsl"]])
def test_the_spellings_of_both_backends_are_one(backends):
    assert gs.GridSyncPass(backends=backends) == gs.GridSyncPass(backends=BOTH)
    assert gs.GridSyncPass(backends=backends).options.to_pass_configs("r")["tl_gridsync.backends"] == "cutedsl,cuda"


@pytest.mark.parametrize("backends", ["cuda", "hip", "", (), ("cutedsl", "hip"), 3, None])
def test_other_backends_are_refused(backends):
    with pytest.raises(gs.GridSyncOptionError, match="backends="):
        gs.GridSyncPass(backends=backends)


def test_a_watchdog_cannot_go_with_it():
    with pytest.raises(gs.GridSyncOptionError, match="timeout_ms is for CuTeDSL"):
        gs.GridSyncPass(timeout_ms=5, backends=BOTH)


def test_it_is_off_by_default_and_the_error_says_how_to_switch_it_on():
    with pytest.raises(gs.GridSyncTargetError, match=re.escape("GridSyncPass(backends=('cutedsl', 'cuda'))")):
        source_of(handoff((32, 2)), [gs.GridSyncPass()])
    with gs.enabled():
        assert "cooperative_groups::this_grid().sync()" in source_of(handoff((32, 2)), None)


@pytest.mark.parametrize("threads", LAYOUTS, ids=layout_id)
@pytest.mark.parametrize("state", ["launch", "module"])
def test_the_guarded_call_takes_the_place_of_cooperative_groups(threads, state):
    source = source_of(handoff(threads), [gs.GridSyncPass(state, backends=BOTH)])
    assert "this_grid().sync()" not in source
    lines = [line.strip() for line in source.splitlines()]
    at = lines.index(f'tl_gridsync_arrive_and_wait("{state}", 2);')
    assert lines[at - 2 : at] == ["__syncthreads();", GUARDS[threads]]
    assert lines[at + 1 : at + 3] == ["}", "__syncthreads();"]
    assert lines.count("tl_gridsync_begin();") == 1
    assert source.startswith(cuda_source(state))


def test_the_process_setting_reaches_it_too():
    with gs.enabled(backends=BOTH):
        assert "tl_gridsync_arrive_and_wait" in source_of(handoff((32, 2)), None)
        assert "tl_gridsync" not in source_of(handoff((32, 2)), [])


def test_a_kernel_without_a_barrier_is_left_alone():
    import tilelang.language as T

    @T.prim_func
    def plain(values: T.Tensor((32,), "int32")):
        with T.Kernel(1, threads=32):
            values[T.get_thread_binding(0)] = 1

    assert source_of(plain, [gs.GridSyncPass(backends=BOTH)]) == source_of(plain, [])


def test_a_hook_of_the_user_goes_on_working():
    tvm_ffi.register_global_func(CUDA_HOOK, lambda code, target: "// mine\n" + code, override=True)
    users = tvm_ffi.get_global_func(CUDA_HOOK)
    try:
        source = source_of(handoff((32, 2)), [gs.GridSyncPass(backends=BOTH)])
        assert tvm_ffi.get_global_func(CUDA_HOOK) == users
    finally:
        tvm_ffi.remove_global_func(CUDA_HOOK)
    assert source.count("// mine\n") == 1
    assert source.startswith(cuda_source("launch"))


@pytest.mark.parametrize("state", ["launch", "module"])
def test_every_instruction_of_the_protocol_stands_in_the_source(state):
    text = cuda_source(state)
    used = (protocol.LAUNCH, protocol.LAUNCH_RANKED) if state == "launch" else (protocol.MODULE,)
    for chosen in used:
        for statement in (chosen.arrive, chosen.pace, chosen.wait, chosen.turn):
            for line in statement.text.strip().splitlines() if statement else []:
                opcode = line.strip().split(" ")[0]
                assert opcode.replace("%", "%%") in text


@pytest.mark.parametrize("state", ["launch", "module"])
@pytest.mark.parametrize("threads", LAYOUTS, ids=layout_id)
def test_the_cubin_has_one_leader_and_the_protocols_fences(threads, state, tmp_path):
    (kernel,) = kernels_in(source_of(handoff(threads), [gs.GridSyncPass(state, backends=BOTH)]), tmp_path)
    (barrier,) = kernel.barriers
    if state == "module":
        assert barrier.leader_axes == AXES[threads]
    else:
        # The launch's first generation is read under a test of all three axes, which may be found here as well.
        assert set(AXES[threads]) <= set(barrier.leader_axes)
    assert barrier.counter == ("workspace" if state == "launch" else "module")
    assert barrier.block_fences == ()
    assert barrier.checks_workspace and barrier.traps
    releases, acquires = (1, 1) if state == "launch" else (2, 2)
    expected = ["MEMBAR.ALL.CTA", "MEMBAR.ALL.GPU"] * releases + ["CCTL.IVALL"] * acquires
    assert sorted(barrier.leader_fences) == sorted(expected)


def test_two_kernels_in_one_module(tmp_path):
    kernels = kernels_in(source_of(two_kernels(), [gs.GridSyncPass(backends=BOTH)]), tmp_path)
    assert len(kernels) == 2 and all(kernel.barriers for kernel in kernels)


def test_the_launch_and_module_states_differ_in_the_cache_key_and_so_do_the_backends():
    configs = [
        gs.GridSyncPass(state, backends=backends).options.to_pass_configs("r")
        for state in ("launch", "module")
        for backends in ("cutedsl", BOTH)
    ]
    assert len({tuple(sorted(c.items())) for c in configs}) == 4


def test_the_launch_stays_cooperative():
    with CUDA:
        device = tilelang.lower(handoff((32, 2)), target=CUDA, passes=[gs.GridSyncPass(backends=BOTH)]).device_mod
    assert [bool(func.attrs["use_cooperative_groups"]) for func in device.functions.values()] == [True]
