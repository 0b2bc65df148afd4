"""Compiling a CuTeDSL kernel down to its real cubin on a machine that may have no GPU.

TileLang makes the cubin at a kernel's first launch. The function that does it needs tensors for their
shapes and types alone, so tensors in host memory serve.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from tilelang.env import TL_LIBS

from ..errors import SeamError
from .tilelang_compat import DRIVER_STUBS, get_cuda_library_dirs

_SYSTEM_LIBRARY_DIRS = ("/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64")


def cubin_of(kernel: Any, *args: Any) -> Path:
    """Compile ``kernel`` to its cubin and return the file.

    Parameters
    ----------
    kernel : tilelang.JITKernel
        A kernel compiled for the CuTeDSL target.
    *args
        What its launcher takes: a tensor for each buffer, on any device, and a number for each scalar and
        each dynamic size. Needed only for kernels with dynamic shapes; else made from the parameters.

    Raises
    ------
    SeamError
        Where the kernel's module has no such function, that is, the kernel is not a CuTeDSL one.
    """
    cubin = Path(_module_of(kernel)._cubin_path)
    if not cubin.exists():
        _generate(kernel, args)
    return cubin


@dataclass(frozen=True)
class DeviceCode:
    """What CuTe DSL made of a kernel: the file of its cubin, and the PTX that the cubin was assembled from."""

    cubin: Path
    ptx: str


def device_code_of(kernel: Any, *args: Any) -> DeviceCode:
    """Compile ``kernel`` as :func:`cubin_of` does, even where its cubin is there already, and keep the PTX as well."""
    from cutlass import cute

    compiled: list[Any] = []
    compile_ = cute.compile

    def keeping_ptx(*positional: Any, options: str, **keywords: Any) -> Any:
        compiled.append(compile_(*positional, options=f"{options} --keep-ptx", **keywords))
        return compiled[-1]

    cute.compile = keeping_ptx
    try:
        _generate(kernel, args)
    finally:
        cute.compile = compile_
    return DeviceCode(Path(_module_of(kernel)._cubin_path), compiled[-1].__ptx__)


def _module_of(kernel: Any) -> Any:
    module = getattr(kernel.adapter, "pymodule", None)
    if not hasattr(module, "_generate_cubin_if_needed"):
        raise SeamError(f"tl_gridsync: {kernel} has no CuTeDSL module, so no cubin can be made of it; compile it with target='cutedsl'")
    return module


def _generate(kernel: Any, args: tuple[Any, ...]) -> None:
    if not args:
        args = tuple(torch.zeros([int(n) for n in p.shape], dtype=p.torch_dtype()) for p in kernel.params)
    with _no_driver_needed():
        _module_of(kernel)._generate_cubin_if_needed(*args)


@contextmanager
def _no_driver_needed() -> Iterator[None]:
    """Keep CuTe DSL 4.3 from loading what it compiled, which needs the driver; later releases load it when it is called."""
    from cutlass.base_dsl.compiler import Compiler

    if not hasattr(Compiler, "_check_cuda_dependencies_once"):
        yield
        return
    load = Compiler.jit
    Compiler.jit = lambda _self, _module, *_args, **_kwargs: None
    try:
        yield
    finally:
        Compiler.jit = load


@contextmanager
def linkable_driver() -> Iterator[None]:
    """Let nvcc link TileLang's launcher where the machine has no ``libcuda.so`` to link to.

    Compile kernels inside; the launcher cannot run there, but everything up to the launch is real.
    """
    folder = _stub_folder()
    before = os.environ.get("LIBRARY_PATH")
    if folder is None:
        yield
        return
    os.environ["LIBRARY_PATH"] = f"{folder}:{before}" if before else str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["LIBRARY_PATH"]
        else:
            os.environ["LIBRARY_PATH"] = before


@lru_cache(maxsize=1)
def _stub_folder() -> Path | None:
    """A folder with a ``libcuda.so`` to link to; None where the linker finds one by itself."""
    searched = [*_SYSTEM_LIBRARY_DIRS, *os.environ.get("LIBRARY_PATH", "").split(":"), *get_cuda_library_dirs()]
    if any(folder and (Path(folder) / "libcuda.so").exists() for folder in searched):
        return None
    stub = next((Path(d) / name for d in TL_LIBS for name in DRIVER_STUBS if (Path(d) / name).is_file()), None)
    if stub is None:
        raise SeamError(f"tl_gridsync: no libcuda.so to link to, and TileLang has no stub of it in {', '.join(map(str, TL_LIBS))}")
    folder = Path(tempfile.mkdtemp(prefix="tl_gridsync_driver_"))
    (folder / "libcuda.so").symlink_to(stub)
    return folder
