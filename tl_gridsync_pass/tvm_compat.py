"""The names that differ between the TVM copies inside TileLang releases.

TileLang up to 0.1.9 calls the tensor IR ``tvm.tir`` and its operators ``tir.*``; later releases say
``tirx``. Everything else in the package writes ``tir`` and asks this module.
"""

from __future__ import annotations

import inspect
from functools import lru_cache

import tilelang  # noqa: F401  puts TileLang's own TVM on the path
import tvm
import tvm_ffi

try:
    from tvm import tirx as tir

    TIR_NAMESPACE = "tirx"
except ImportError:
    from tvm import tir

    TIR_NAMESPACE = "tir"

__all__ = ["TIR_NAMESPACE", "bind_again", "dtype_of", "source_line", "tir", "tir_op", "tvm"]


def dtype_of(expr: tir.PrimExpr) -> str:
    """The type of ``expr`` in words, such as ``"int32"``; tvm-ffi up to 0.1.2 says ``"bool8"`` for ``"bool"``."""
    return str(expr.dtype).replace("bool8", "bool")


def tir_op(name: str) -> tvm.ir.Op:
    """The TIR operator ``name``, given without its namespace, for example ``"tvm_storage_sync"``."""
    return tvm.ir.Op.get(f"{TIR_NAMESPACE}.{name}")


@lru_cache(maxsize=1)
def _get_stmt_span() -> tvm_ffi.Function | None:
    return tvm_ffi.get_global_func("tl.ir.GetStmtSpan", allow_missing=True)


def source_line(stmt: tir.Stmt) -> tuple[str, int] | None:
    """The file and line that TileLang kept for ``stmt``, or None; releases before 0.1.15 keep none for most."""
    read = _get_stmt_span()
    span = getattr(stmt, "span", None) if read is None else read(stmt)
    return None if span is None or span.source_name is None else (str(span.source_name.name), int(span.line))


def bind_again(analyzer: tvm.arith.Analyzer, var: tir.Var, extent: tvm.ir.Range) -> None:
    """Bind ``var`` to ``extent``, though it may be bound already; up to 0.1.9 to the same range only."""
    if _BIND_OVERRIDES:
        analyzer.bind(var, extent, allow_override=True)
    else:
        analyzer.bind(var, extent)


_BIND_OVERRIDES = "allow_override" in inspect.signature(tvm.arith.Analyzer.bind).parameters
