"""What the plugin reads from and writes into the launch code that TileLang generates."""

from __future__ import annotations

import pytest
import tilelang
import torch
from kernels import CUTEDSL, compile_handoff, handoff, two_kernels

import tl_gridsync_pass as gs
from tl_gridsync_pass import device
from tl_gridsync_pass.seams import launch, launcher_source, source_hook
from tl_gridsync_pass.seams.launch_shape import LaunchShape, launch_shapes
from tl_gridsync_pass.seams.tilelang_compat import device_source_of


def fresh(**options):
    """Compiled here and now: a kernel from the disk cache does not come with its launcher's source."""
    tilelang.disable_cache()
    try:
        return compile_handoff((32, 2), [gs.GridSyncPass(**options)])
    finally:
        tilelang.enable_cache()


@pytest.fixture(scope="module")
def watched():
    """A watchdog build: TileLang has compiled the launcher with the report in it."""
    return fresh(timeout_ms=250)


@pytest.fixture(scope="module")
def plain():
    return fresh()


def test_the_launcher_of_a_watchdog_build_has_the_report(watched, plain):
    library = watched.adapter.pymodule.runtime.load_module(watched.adapter.lib_generator.launcher_libpath)
    assert library[launcher_source.REPORT_FUNCTION](0) == 0, "no module is loaded, so there is no buffer yet"
    assert "tl_gridsync" not in plain.adapter.lib_generator.launcher_cpp_code


def test_the_report_has_the_same_name_and_fields_on_both_sides():
    assert (launcher_source.REPORT_SYMBOL, launcher_source.REPORT_FIELDS) == (device.REPORT_SYMBOL, device.REPORT_FIELDS)


@pytest.mark.parametrize("missing", ["_BEFORE_DEFINITIONS", "_AFTER_LOAD", "_BEFORE_EXPORTS"])
def test_a_launcher_without_a_place_for_the_report_is_an_error(plain, missing):
    code = plain.adapter.lib_generator.launcher_cpp_code
    assert launcher_source.with_report(code).count("tl_gridsync_attach_report(module, device_id)") == 1
    with pytest.raises(gs.SeamError, match=r"0 places .* watchdog cannot report"):
        launcher_source.with_report(code.replace(getattr(launcher_source, missing).strip(), ""))


def test_launch_shapes_are_those_of_the_kernel(plain):
    source = launch._module_source(plain.adapter)
    assert launch_shapes(source, {}) == [LaunchShape("handoff_kernel", (2, 1, 1), (32, 2, 1), 0)]


def test_launch_shapes_follow_dynamic_sizes():
    import barrier_kernels

    func = barrier_kernels.dynamic_reverse(64)
    kernel = tilelang.compile(func, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    source = launch._module_source(kernel.adapter)
    arguments = launch._launch_arguments(kernel.adapter, [torch.zeros(1000, dtype=torch.int32)] * 3)
    (shape,) = launch_shapes(source, arguments)
    assert (shape.grid, shape.block, shape.blocks) == ((16, 1, 1), (64, 1, 1), 16)
    with pytest.raises(gs.SeamError, match="depends on 'n'"):
        launch_shapes(source, {})


def test_a_module_without_launches_is_an_error():
    with pytest.raises(gs.SeamError, match="no kernel launch"):
        launch_shapes("def call(): pass", {})


def test_every_kernel_with_a_barrier_is_launched_cooperatively_by_cute_dsl():
    kernel = tilelang.compile(two_kernels(), target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    source = device_source_of(kernel)
    assert source.count("@tl_gridsync.cooperative\n@cute.kernel\n") == source.count("@cute.kernel") == 2


def test_a_kernel_without_a_barrier_is_not_marked():
    code = "@cute.kernel\ndef a():\n  tl_gridsync.arrive_and_wait(1)\n@cute.kernel\ndef b():\n  pass\n"
    marked = source_hook.with_device_module(code)
    assert marked == source_hook.IMPORT_LINE + source_hook.COOPERATIVE_LINE + code
    assert source_hook.with_device_module("@cute.kernel\ndef b():\n  pass\n") == "@cute.kernel\ndef b():\n  pass\n"


@pytest.mark.skipif(not device._COOPERATIVE, reason="the launch of this CuTe DSL cannot be cooperative")
def test_cooperative_goes_to_the_launch_and_nothing_else():
    seen = {}

    class Launcher:
        def launch(self, **kwargs):
            seen.update(kwargs)

    device.cooperative(lambda *args: Launcher())(1, 2).launch(grid=[1, 1, 1], smem=0)
    assert seen == {"grid": [1, 1, 1], "smem": 0, "cooperative": True}


def test_only_kernels_with_the_barrier_get_the_launch_wrapper(plain):
    stock = tilelang.compile(handoff((32, 2)), target=CUTEDSL, execution_backend="cutedsl", passes=[])
    assert stock.torch_function == stock.adapter._wrap_forward_from_prebuild_lib
    assert plain.torch_function.__wrapped__ == plain.adapter._wrap_forward_from_prebuild_lib


def test_a_launch_error_that_is_not_about_a_barrier_stays_what_it_is(plain, monkeypatch):
    def fails(*_args, **_kwargs):
        raise ValueError("not about a barrier")

    monkeypatch.setattr(plain.adapter, "_forward_from_prebuild_lib", fails)
    with pytest.raises(ValueError, match="CuTeDSL kernels require CUDA tensors|not about a barrier"):
        plain(*(torch.zeros(2, dtype=torch.int32) for _ in range(3)))
