"""The names that differ between the TVM copies inside TileLang releases.

TileLang up to 0.1.9 calls the tensor IR ``tvm.tir`` and its operators ``tir.*``; later releases say
``tirx``. Everything else in the package writes ``tir`` and asks this module.
"""

from __future__ import annotations

import tilelang  # noqa: F401  puts TileLang's own TVM on the path
import tvm

try:
    from tvm import tirx as tir

    TIR_NAMESPACE = "tirx"
except ImportError:
    from tvm import tir

    TIR_NAMESPACE = "tir"

__all__ = ["TIR_NAMESPACE", "tir", "tir_op", "tvm"]


def tir_op(name: str) -> tvm.ir.Op:
    """The TIR operator ``name``, given without its namespace, for example ``"tvm_storage_sync"``."""
    return tvm.ir.Op.get(f"{TIR_NAMESPACE}.{name}")
