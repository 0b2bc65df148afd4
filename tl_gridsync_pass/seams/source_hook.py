"""TileLang's own hook on generated CuTeDSL source: adds the import that the lowered barrier needs.

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

# One printing at a time: two threads must not take each other's temporary hook for the user's.
_lock = threading.RLock()


@contextmanager
def importing_device_module() -> Iterator[None]:
    """While open, CuTeDSL source that calls the barrier is given the import line."""
    with _lock:
        users_hook = tvm_ffi.get_global_func(HOOK, allow_missing=True)

        def hook(code: str, target: object) -> str:
            code = users_hook(code, target) if users_hook is not None else code
            return IMPORT_LINE + code if f"{DEVICE_MODULE}." in code else code

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
