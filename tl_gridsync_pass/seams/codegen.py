"""Device codegen: runs the pass on the device module just before TileLang prints it.

TileLang looks the code generator up by name at every compilation, so replacing the global function is
enough and nothing that holds an earlier reference is left behind.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import tvm_ffi

from .. import process
from ..errors import GridSyncTargetError, SeamError
from ..lowering import GridSyncPass, verify_and_lower
from ..options import GridSyncOptions, mentions_pass
from ..tvm_compat import tvm
from .attachments import Attachment, override_global_func
from .source_hook import defining_barrier_in_cuda, importing_device_module

CUTEDSL_CODEGENS = ("target.build.tilelang_cutedsl", "target.build.tilelang_cutedsl_without_compile")
CUDA_CODEGENS = ("target.build.tilelang_cuda", "target.build.tilelang_cuda_without_compile")
_OTHER_CODEGENS = ("target.build.tilelang_hip", "target.build.tilelang_hip_without_compile")

_captured: ContextVar[list[tvm.IRModule] | None] = ContextVar("captured", default=None)


def attach() -> list[Attachment]:
    """Attach to every device code generator of this TileLang.

    Raises
    ------
    SeamError
        Where a CuTeDSL code generator is not registered under the name expected.
    """
    missing = [name for name in CUTEDSL_CODEGENS[1:] if tvm_ffi.get_global_func(name, allow_missing=True) is None]
    if missing:
        raise SeamError(f"tl_gridsync: this TileLang has no device code generator {missing[0]}, so the pass has nothing to attach to")
    makers = {
        **dict.fromkeys(CUTEDSL_CODEGENS, _lowering),
        **dict.fromkeys(CUDA_CODEGENS, _lowering_if_asked),
        **dict.fromkeys(_OTHER_CODEGENS, _refusing),
    }
    present = {name: make for name, make in makers.items() if tvm_ffi.get_global_func(name, allow_missing=True) is not None}
    return [override_global_func(name, make) for name, make in present.items()]


@contextmanager
def captured_modules() -> Iterator[list[tvm.IRModule]]:
    """While open, the device modules that reach a CuTeDSL code generator in this context; they are printed as they are."""
    modules: list[tvm.IRModule] = []
    token = _captured.set(modules)
    try:
        yield modules
    finally:
        _captured.reset(token)


def _lowering(original: tvm_ffi.Function):
    def codegen(mod: tvm.IRModule, target: tvm.target.Target):
        captured = _captured.get()
        if captured is not None:
            captured.append(mod)
            return original(mod, target)
        options = _options_in_force()
        if options is None:
            return original(mod, target)
        lowered = GridSyncPass.from_options(options)(mod)
        if lowered.same_as(mod):
            return original(mod, target)
        with importing_device_module():
            return original(lowered, target)

    return codegen


def _lowering_if_asked(original: tvm_ffi.Function):
    def codegen(mod: tvm.IRModule, target: tvm.target.Target):
        options = _options_in_force()
        if options is None or not options.cuda:
            _refuse_explicit_request(mod, target)
            return original(mod, target)
        lowered = verify_and_lower(mod, options, backend="cuda")
        if lowered.same_as(mod):
            return original(mod, target)
        with defining_barrier_in_cuda(options):
            return original(lowered, target)

    return codegen


def _refusing(original: tvm_ffi.Function):
    def codegen(mod: tvm.IRModule, target: tvm.target.Target):
        _refuse_explicit_request(mod, target)
        return original(mod, target)

    return codegen


def _refuse_explicit_request(mod: tvm.IRModule, target: tvm.target.Target) -> None:
    configs = tvm.transform.PassContext.current().config
    if mentions_pass(configs) and GridSyncOptions.from_pass_configs(configs) is not None:
        kernels = ", ".join(sorted(var.name_hint for var in mod.functions))
        raise GridSyncTargetError(wrong_target(kernels, str(target.kind.name)))


def wrong_target(kernel: str, target: str) -> str:
    """The message for a compilation that asks for the pass on a target other than CuTeDSL."""
    barriers = {
        "cuda": "cooperative_groups::this_grid().sync(), which is right for every block shape",
        "hip": "the grid barrier of HIP's cooperative groups, which is right for every block shape",
    }
    barrier = barriers.get(target, "no grid barrier that this plugin knows to be wrong")
    way_in = ", or use the plugin's barrier there as well with GridSyncPass(backends=('cutedsl', 'cuda'))" if target == "cuda" else ""
    return (
        f"tl_gridsync: kernel {kernel!r} is compiled for target {target!r}, but GridSyncPass lowers T.sync_grid() in CuTeDSL kernels only. "
        f"The {target!r} backend has {barrier}. Drop the pass for this kernel, or compile it with target='cutedsl'{way_in}."
    )


def _options_in_force() -> GridSyncOptions | None:
    configs = tvm.transform.PassContext.current().config
    if mentions_pass(configs):
        return GridSyncOptions.from_pass_configs(configs)
    # Reached by paths that bypass the kernel cache, such as tilelang.lower.
    return process.current()
