"""Run by test_seams.py in a process of its own: what importing and uninstalling the plugin leaves behind in TileLang."""

from __future__ import annotations

import sys

import tilelang  # noqa: F401  puts its TVM on the path
import tvm_ffi
from tilelang.autotuner.tuner import AutoTuneImpl, AutoTuner
from tilelang.cache.kernel_cache import KernelCache
from tilelang.jit import JITImpl
from tilelang.jit.adapter.cutedsl.adapter import CuTeDSLKernelAdapter
from tilelang.jit.adapter.cutedsl.kernel_cache import CuTeDSLKernelCache
from tilelang.jit.adapter.cutedsl.libgen import CuTeDSLLibraryGenerator

OWNERS = [
    *(sys.modules[name] for name in ("tilelang", "tilelang.jit", "tilelang.engine", "tilelang.engine.lower", "tilelang.cache")),
    *(KernelCache, CuTeDSLKernelCache, AutoTuner, JITImpl, AutoTuneImpl, CuTeDSLKernelAdapter, CuTeDSLLibraryGenerator),
]


def attributes() -> dict:
    return {(owner.__name__, name): value for owner in OWNERS for name, value in vars(owner).items()}


def ffi_functions() -> dict:
    return {name: tvm_ffi.get_global_func(name) for name in tvm_ffi.registry.list_global_func_names()}


def changed(before: dict, after: dict, same) -> list:
    kept = {key for key in before.keys() & after.keys() if same(before[key], after[key])}
    return sorted(str(key) for key in (before.keys() | after.keys()) - kept)


def differences(attributes_before: dict, functions_before: dict) -> tuple[list, list]:
    return (
        changed(attributes_before, attributes(), lambda a, b: a is b),
        changed(functions_before, ffi_functions(), lambda a, b: a.same_as(b)),
    )


if __name__ == "__main__":
    before = attributes(), ffi_functions()

    import tl_gridsync_pass as gs

    replaced, overridden = differences(*before)
    assert len(replaced) + len(overridden) > len(gs.attached()), (replaced, overridden, gs.attached())
    assert "('tilelang', 'compile')" in replaced and "('KernelCache', 'cached')" in replaced
    assert "target.build.tilelang_cutedsl_without_compile" in overridden

    gs.uninstall()
    replaced, overridden = differences(*before)
    assert gs.attached() == []
    assert replaced == [], replaced
    # What the plugin registered under its own name stays: it is no seam.
    assert all(name.startswith("tl_gridsync.") for name in overridden), overridden

    gs.install()
    assert differences(*before)[0] != []
    gs.uninstall()
    assert differences(*before)[0] == []
