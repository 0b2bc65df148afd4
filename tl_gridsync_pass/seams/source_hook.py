"""TileLang's own hooks on generated source: add what the lowered barrier needs around it.

In CuTeDSL source that is the import of the device functions, and above each kernel with a barrier a
decorator that makes CuTe DSL's host launcher launch it cooperatively; TileLang's C++ launcher does so by
itself. In CUDA source it is the definition of the barrier.

A hook is one global name that a user may hold as well. So ours is registered only while a lowered
module is being printed, calls whatever was registered at that moment, and then steps back.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import tvm_ffi

from ..cuda_source import ARRIVE_AND_WAIT, cuda_source
from ..lowering import DEVICE_MODULE
from ..options import GridSyncOptions

HOOK = "tilelang_callback_cutedsl_postproc"
CUDA_HOOK = "tilelang_callback_cuda_postproc"
IMPORT_LINE = f"from tl_gridsync_pass import device as {DEVICE_MODULE}\n"
COOPERATIVE_LINE = f"@{DEVICE_MODULE}.cooperative\n"
_KERNEL_LINE = "@cute.kernel\n"

# One printing at a time: two threads must not take each other's temporary hook for the user's.
_lock = threading.RLock()


@contextmanager
def importing_device_module() -> Iterator[None]:
    """While open, CuTeDSL source that calls the barrier is given the import and is marked as cooperative."""
    with _hooked(HOOK, with_device_module):
        yield


@contextmanager
def defining_barrier_in_cuda(options: GridSyncOptions) -> Iterator[None]:
    """While open, CUDA source that calls the barrier is given its definition."""
    text = cuda_source(options.state)
    with _hooked(CUDA_HOOK, lambda code: text + code if f"{ARRIVE_AND_WAIT}(" in code else code):
        yield


@contextmanager
def _hooked(name: str, add: Callable[[str], str]) -> Iterator[None]:
    """While open, ``add`` changes whatever source passes the hook ``name``, after the user's own hook."""
    with _lock:
        users_hook = tvm_ffi.get_global_func(name, allow_missing=True)

        def hook(code: str, target: object) -> str:
            code = users_hook(code, target) if users_hook is not None else code
            return add(code)

        tvm_ffi.register_global_func(name, hook, override=True)
        ours = tvm_ffi.get_global_func(name)
        try:
            yield
        finally:
            # A user's callback may have registered another hook meanwhile; that one stays.
            if tvm_ffi.get_global_func(name, allow_missing=True) == ours:
                if users_hook is None:
                    tvm_ffi.remove_global_func(name)
                else:
                    tvm_ffi.register_global_func(name, users_hook, override=True)


def with_device_module(code: str) -> str:
    """``code`` with the import, and with each kernel that holds a barrier marked as cooperative."""
    before, *kernels = code.split(_KERNEL_LINE)
    if not any(f"{DEVICE_MODULE}." in kernel for kernel in kernels):
        return code
    marked = [(COOPERATIVE_LINE if f"{DEVICE_MODULE}." in kernel else "") + _KERNEL_LINE + kernel for kernel in kernels]
    return IMPORT_LINE + before + "".join(marked)
