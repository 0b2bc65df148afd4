"""The names and places that differ between TileLang releases, 0.1.9 to 0.1.15.

The other seams import them from here and hold for every release; ``tvm_compat.py`` does the same for the
TVM inside TileLang. Which release changed what stands beside each name. A name is found by looking for
it, never by comparing version numbers.
"""

from __future__ import annotations

from typing import Any

try:
    from tilelang.backend.target import determine_target
except ImportError:  # up to 0.1.11
    from tilelang.utils.target import determine_target

try:
    from tilelang.contrib.nvcc import get_cuda_library_dirs
except ImportError:  # up to 0.1.9, whose launchers are linked with no folder of the toolkit named

    def get_cuda_library_dirs() -> list[str]:
        return []


# TileLang's stand-in for the driver library; the second name is that of 0.1.9 to 0.1.11.
DRIVER_STUBS = ("libstub_cuda.so", "libcuda_stub.so")

# Where TVM's compiler lives; the second name is that of 0.1.9.
TVM_LIBRARIES = ("libtvm_compiler.so", "libtvm.so")

# What a function under @tilelang.jit or @tilelang.autotune keeps between its calls; the second came with 0.1.12.
FUNCTION_LEVEL_CACHES = ("_kernel_cache", "_call_form_cache", "_tuner_cache")

# The functions of tilelang.cache that find a kernel on disk by the source of the function under @tilelang.jit: 0.1.11 alone.
SOURCE_INDEX = ("load_frontend_cached", "store_frontend_cache")


def device_source_of(kernel: Any) -> str:
    """What the code generator printed for ``kernel``; 0.1.9's own ``get_kernel_source()`` gives the Python module around it."""
    source = kernel.get_kernel_source()
    if "def _generate_cubin_if_needed(" in source and kernel.artifact is not None:
        return kernel.artifact.kernel_source
    return source


__all__ = [
    "DRIVER_STUBS",
    "FUNCTION_LEVEL_CACHES",
    "SOURCE_INDEX",
    "TVM_LIBRARIES",
    "determine_target",
    "device_source_of",
    "get_cuda_library_dirs",
]
