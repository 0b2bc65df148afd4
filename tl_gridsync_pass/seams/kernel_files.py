"""Finds the kernels of a Python file and compiles them, with no GPU needed.

A kernel of a file is a module-level ``T.prim_func``, or a module-level ``@tilelang.jit`` function, also under
``@tilelang.autotune``, that can be called without arguments. Others are named by a call that makes them.
"""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import tilelang
import torch
from tilelang.autotuner.tuner import AutoTuneImpl
from tilelang.jit import JITImpl

from ..errors import KernelFileError
from ..tvm_compat import tir
from . import offline
from .target import cutedsl_target

# Stands in for the size of a dimension that is known only at launch; the cubin does not depend on it.
_ANY_SIZE = 128


@dataclass(frozen=True)
class FileKernel:
    """A kernel of a file: its name there or the call that made it, its TIR, and the pass configs it is compiled with."""

    name: str
    func: tir.PrimFunc
    pass_configs: dict[str, Any]


@dataclass(frozen=True)
class SkippedKernel:
    """A kernel of a file that was not built, and why; ``missing`` are the arguments it needs, none where building it failed."""

    name: str
    reason: str
    missing: tuple[str, ...] = ()


def kernels_of(path: Path, only: str | None = None, calls: Iterable[str] = ()) -> tuple[list[FileKernel], list[SkippedKernel]]:
    """Import the file ``path`` and find its kernels.

    Parameters
    ----------
    path : Path
        Its main part does not run. While it is imported it finds the modules beside it.
    only : str or None
        The name of the one kernel that is wanted.
    calls : Iterable[str]
        Instead of the file's kernels those that these calls make, as ``"name(arguments)"``; the arguments are
        evaluated inside the file.

    Raises
    ------
    KernelFileError
        Where the file cannot be imported, a call is none or names what is not there, or the kernel ``only`` is
        not there or cannot be built by itself.
    """
    with _modules_beside(path):
        module = _imported(path)
        wanted = list(calls)
        built = [_called(module, call) for call in wanted] if wanted else _at_module_level(path, module, only)
    skipped = [kernel for kernel in built if isinstance(kernel, SkippedKernel)]
    if only is not None and skipped:
        advice = "Give them defaults, or write a module-level kernel that calls it with some." if skipped[0].missing else ""
        raise KernelFileError(f"tl_gridsync: kernel {only!r} of {path} {skipped[0].reason}. {advice}".rstrip())
    return [kernel for kernel in built if isinstance(kernel, FileKernel)], skipped


def cubin_of(kernel: FileKernel, arch: str) -> Path:
    """Compile ``kernel`` for the CuTeDSL target of ``arch`` (for example ``"sm_90a"``) and return its cubin.

    Raises
    ------
    KernelFileError
        Where TileLang or CuTe DSL cannot compile it.
    """
    with offline.linkable_driver():
        try:
            compiled = tilelang.compile(
                kernel.func, target=cutedsl_target(arch), execution_backend="cutedsl", pass_configs=kernel.pass_configs
            )
            return offline.cubin_of(compiled, *_arguments(compiled))
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
            raise KernelFileError(f"tl_gridsync: kernel {kernel.name!r} does not compile for {arch}: {reason}") from error


@contextmanager
def _modules_beside(path: Path) -> Iterator[None]:
    """Let the file import the modules beside it, as if it were run."""
    folder = str(path.resolve().parent)
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)


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
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise KernelFileError(f"tl_gridsync: {path} cannot be imported: {type(error).__name__}: {error}") from error
    return module


def _at_module_level(path: Path, module: ModuleType, only: str | None) -> list[FileKernel | SkippedKernel]:
    candidates = {name: value for name, value in vars(module).items() if isinstance(value, (tir.PrimFunc, JITImpl, AutoTuneImpl))}
    if only is None:
        # Each once, under the first of its names.
        named = {id(value): name for name, value in reversed(candidates.items())}
        return [_built(name, value) for name, value in candidates.items() if named[id(value)] == name]
    if only not in candidates:
        known = ", ".join(candidates) or "none"
        raise KernelFileError(f"tl_gridsync: {path} has no kernel {only!r} at module level. Kernels there: {known}.")
    return [_built(only, candidates[only])]


def _built(name: str, value: Any) -> FileKernel | SkippedKernel:
    jit = _jit(value)
    if jit is None:
        return FileKernel(name, value, {})
    variadic = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    missing = tuple(p.name for p in jit.signature.parameters.values() if p.default is p.empty and p.kind not in variadic)
    if missing:
        return SkippedKernel(name, f"needs arguments: {', '.join(missing)}", missing)
    return _made(name, value, (), {})


def _called(module: ModuleType, text: str) -> FileKernel | SkippedKernel:
    """What the call ``text`` makes, evaluated in ``module``."""
    try:
        call = ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise KernelFileError(f"tl_gridsync: {text!r} is not a Python expression: {error.msg}") from error
    if not isinstance(call, ast.Call):
        raise KernelFileError(f"tl_gridsync: {text!r} is not a call. Write it as 'name(arguments)'.")

    def value_of(node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), text, "eval"), vars(module))

    try:
        function = value_of(call.func)
        args = [value_of(node) for node in call.args]
        kwargs = {keyword.arg: value_of(keyword.value) for keyword in call.keywords if keyword.arg is not None}
    except Exception as error:
        raise KernelFileError(f"tl_gridsync: {text!r} cannot be evaluated: {type(error).__name__}: {error}") from error
    return _made(text, function, args, kwargs)


def _made(name: str, value: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> FileKernel | SkippedKernel:
    jit = _jit(value)
    try:
        func = value(*args, **kwargs) if jit is None else jit.get_tir(*args, **kwargs)
    except Exception as error:
        return SkippedKernel(name, f"cannot be built: {type(error).__name__}: {error}")
    if not isinstance(func, tir.PrimFunc):
        return SkippedKernel(name, f"gives a {type(func).__name__}, not a PrimFunc")
    return FileKernel(name, func, dict(jit.pass_configs or {}) if jit is not None else {})


def _jit(value: Any) -> JITImpl | None:
    """What ``@tilelang.jit`` made, also where ``@tilelang.autotune`` stands above it; None for anything else."""
    inner = value.jit_impl if isinstance(value, AutoTuneImpl) else value
    return inner if isinstance(inner, JITImpl) else None


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
