"""Finds the TileLang kernels of a Python file."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import GridSyncOptionError
from ..tvm_compat import tir


@dataclass(frozen=True)
class Kernel:
    """A kernel of the file, or why it could not be made.

    Attributes
    ----------
    name : str
        The name in the file, or the expression that made it.
    func : tir.PrimFunc or None
    pass_configs : Mapping
        TileLang's pass configs that the file asks for.
    problem : str
        Why ``func`` is None; empty otherwise.
    """

    name: str
    func: tir.PrimFunc | None
    pass_configs: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""


def load(path: Path) -> ModuleType:
    """Import the file under its own name, not as ``__main__``, so that its main part does not run."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise GridSyncOptionError(f"tl_gridsync: {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(path.parent))
    return module


def kernels(module: ModuleType) -> Iterator[Kernel]:
    """Every PrimFunc and every ``@tilelang.jit`` function that stands at the top level of ``module``."""
    seen = set()
    for name, value in vars(module).items():
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, tir.PrimFunc):
            yield Kernel(name, value)
        elif hasattr(_implementation(value), "get_tir"):
            required = [
                p.name for p in inspect.signature(_implementation(value).func.orig_func).parameters.values() if p.default is p.empty
            ]
            if required:
                yield Kernel(name, None, problem=f"it takes {', '.join(required)}; give them as --kernel '{name}(...)'")
            else:
                yield _make(name, value, (), {})


def from_calls(module: ModuleType, calls: Iterable[str]) -> Iterator[Kernel]:
    """The kernels that ``--kernel 'name(arguments)'`` names; the arguments are evaluated inside the module."""
    for text in calls:
        try:
            call = ast.parse(text, mode="eval").body
        except SyntaxError as error:
            raise GridSyncOptionError(f"tl_gridsync: --kernel {text!r} is not a Python expression: {error.msg}") from error
        if not isinstance(call, ast.Call):
            raise GridSyncOptionError(f"tl_gridsync: --kernel {text!r} is not a call. Write it as 'name(arguments)'.")

        def value_of(node: ast.expr, text: str = text) -> Any:
            return eval(compile(ast.Expression(node), f"--kernel {text}", "eval"), vars(module))

        args = [value_of(a) for a in call.args]
        kwargs = {k.arg: value_of(k.value) for k in call.keywords if k.arg is not None}
        yield _make(text, value_of(call.func), args, kwargs)


def _make(name: str, value: Any, args: Iterable[Any], kwargs: Mapping[str, Any]) -> Kernel:
    implementation = _implementation(value)
    try:
        func = implementation.get_tir(*args, **kwargs) if hasattr(implementation, "get_tir") else value(*args, **kwargs)
    except Exception as error:
        return Kernel(name, None, problem=f"making it failed: {type(error).__name__}: {error}")
    if not isinstance(func, tir.PrimFunc):
        return Kernel(name, None, problem=f"it gives a {type(func).__name__}, not a PrimFunc")
    return Kernel(name, func, dict(getattr(implementation, "pass_configs", None) or {}))


def _implementation(value: Any) -> Any:
    """What ``@tilelang.jit`` made, also where ``@tilelang.autotune`` wraps it."""
    return getattr(value, "jit_impl", value) if not inspect.ismodule(value) else None
