"""Finds the kernels of a Python file and compiles them, with no GPU needed.

A kernel of a file is a module-level ``T.prim_func``, or a module-level ``@tilelang.jit`` function that can be
called without arguments.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import tilelang
import torch
from tilelang.jit import JITImpl

from ..errors import KernelFileError
from ..tvm_compat import tir
from . import offline

# Stands in for the size of a dimension that is known only at launch; the cubin does not depend on it.
_ANY_SIZE = 128


@dataclass(frozen=True)
class FileKernel:
    """A kernel of a file: its name there, its TIR, and the pass configs it is compiled with."""

    name: str
    func: tir.PrimFunc
    pass_configs: dict[str, Any] | None


@dataclass(frozen=True)
class SkippedKernel:
    """A kernel of a file that cannot be built by itself, and why."""

    name: str
    reason: str


def kernels_of(path: Path, only: str | None = None) -> tuple[list[FileKernel], list[SkippedKernel]]:
    """Import the file ``path`` and find its kernels, or the one called ``only``.

    Raises
    ------
    KernelFileError
        Where the file cannot be imported, or has no kernel of that name that can be built by itself.
    """
    module = _imported(path)
    candidates = {name: value for name, value in vars(module).items() if isinstance(value, (tir.PrimFunc, JITImpl))}
    if only is not None and only not in candidates:
        known = ", ".join(candidates) or "none"
        raise KernelFileError(f"tl_gridsync: {path} has no kernel {only!r} at module level. Kernels there: {known}.")
    found, skipped = [], []
    for name, value in candidates.items():
        if only not in (None, name):
            continue
        missing = _missing_arguments(value)
        if missing:
            skipped.append(SkippedKernel(name, f"needs arguments: {', '.join(missing)}"))
        else:
            found.append(_kernel(path, name, value))
    if only is not None and skipped:
        raise KernelFileError(
            f"tl_gridsync: kernel {only!r} of {path} {skipped[0].reason}. "
            "Give them defaults, or write a module-level kernel that calls it with some."
        )
    return found, skipped


def cubin_of(kernel: FileKernel, arch: str) -> Path:
    """Compile ``kernel`` for the CuTeDSL target of ``arch`` (for example ``"sm_90a"``) and return its cubin.

    Raises
    ------
    KernelFileError
        Where TileLang or CuTe DSL cannot compile it.
    """
    target = {"kind": "cuda", "arch": arch, "keys": ["cuda", "gpu", "cutedsl"]}
    with offline.linkable_driver():
        try:
            compiled = tilelang.compile(kernel.func, target=target, execution_backend="cutedsl", pass_configs=kernel.pass_configs)
            return offline.cubin_of(compiled, *_arguments(compiled))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise KernelFileError(f"tl_gridsync: kernel {kernel.name!r} does not compile for {arch}: {reason}") from error


def _imported(path: Path) -> ModuleType:
    if not path.is_file():
        raise KernelFileError(f"tl_gridsync: there is no file {path}")
    # In sys.modules, because TileLang asks inspect for the source of what it traces; under a name that cannot
    # hide a module that the file or TileLang imports.
    name = f"_tl_gridsync_file_{path.stem}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise KernelFileError(f"tl_gridsync: {path} is not a Python file; its name must end in .py")
    module = module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    # As if it were run, so that it finds the modules beside it.
    if folder not in sys.path:
        sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise KernelFileError(f"tl_gridsync: {path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _missing_arguments(value: tir.PrimFunc | JITImpl) -> list[str]:
    if isinstance(value, tir.PrimFunc):
        return []
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [p.name for p in value.signature.parameters.values() if p.default is p.empty and p.kind not in variadic]


def _kernel(path: Path, name: str, value: tir.PrimFunc | JITImpl) -> FileKernel:
    if isinstance(value, tir.PrimFunc):
        return FileKernel(name, value, None)
    try:
        return FileKernel(name, value.get_tir(), value.pass_configs)
    except Exception as error:
        raise KernelFileError(f"tl_gridsync: kernel {name!r} of {path} cannot be built: {type(error).__name__}: {error}") from error


def _arguments(kernel: tilelang.JITKernel) -> list[Any]:
    """Tensors in host memory and numbers of the types that the launcher takes."""
    arguments: list[Any] = []
    for param in kernel.params:
        if param.is_scalar():
            arguments.append(1)
        else:
            shape = [int(n) if isinstance(n, (int, tir.IntImm)) else _ANY_SIZE for n in param.shape]
            arguments.append(torch.zeros(shape, dtype=param.torch_dtype()))
    return arguments + [_ANY_SIZE for _ in kernel.adapter.dynamic_symbolic_order]
