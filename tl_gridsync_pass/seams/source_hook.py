"""TileLang's own hook on generated CuTeDSL source: adds what the lowered barrier needs around it.

That is the import of the device functions, and above each kernel with a barrier a decorator that makes
CuTe DSL's host launcher launch it cooperatively; TileLang's C++ launcher does so by itself.

The hook is one global name that a user may hold as well. So ours is registered only while a lowered
module is being printed, calls whatever was registered at that moment, and then steps back.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import tvm_ffi

from ..lowering import DEVICE_MODULE

HOOK = "tilelang_callback_cutedsl_postproc"
IMPORT_LINE = f"from tl_gridsync_pass import device as {DEVICE_MODULE}\n"
COOPERATIVE_LINE = f"@{DEVICE_MODULE}.cooperative\n"
_KERNEL_LINE = "@cute.kernel\n"

# One printing at a time: two threads must not take each other's temporary hook for the user's.
_lock = threading.RLock()


@contextmanager
def importing_device_module() -> Iterator[None]:
    """While open, CuTeDSL source that calls the barrier is given the import line."""
    with _lock:
        users_hook = tvm_ffi.get_global_func(HOOK, allow_missing=True)

        def hook(code: str, target: object) -> str:
            code = users_hook(code, target) if users_hook is not None else code
            return with_device_module(code)

        tvm_ffi.register_global_func(HOOK, hook, override=True)
        ours = tvm_ffi.get_global_func(HOOK)
        try:
            yield
        finally:
            # A user's callback may have registered another hook meanwhile; that one stays.
            if tvm_ffi.get_global_func(HOOK, allow_missing=True) == ours:
                if users_hook is None:
                    tvm_ffi.remove_global_func(HOOK)
                else:
                    tvm_ffi.register_global_func(HOOK, users_hook, override=True)


def with_device_module(code: str) -> str:
    """``code`` with the import, and with each kernel that holds a barrier marked as cooperative."""
    before, *kernels = code.split(_KERNEL_LINE)
    if not any(f"{DEVICE_MODULE}." in kernel for kernel in kernels):
        return code
    marked = [(COOPERATIVE_LINE if f"{DEVICE_MODULE}." in kernel else "") + _KERNEL_LINE + kernel for kernel in kernels]
    return IMPORT_LINE + before + "".join(marked)
