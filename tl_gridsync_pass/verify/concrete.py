"""Evaluates an index expression for every thread and block at once, to find two that disagree."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..tvm_compat import dtype_of

_OPERATIONS = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "FloorDiv": np.floor_divide,
    "FloorMod": np.mod,
    # TIR's Div and Mod on integers round toward zero, as in C.
    "Div": lambda a, b: np.sign(a) * np.sign(b) * (np.abs(a) // np.abs(b)),
    "Mod": np.fmod,
    "Min": np.minimum,
    "Max": np.maximum,
    "EQ": np.equal,
    "NE": np.not_equal,
    "LT": np.less,
    "LE": np.less_equal,
    "GT": np.greater,
    "GE": np.greater_equal,
    "And": np.logical_and,
    "Or": np.logical_or,
}
_CALLS = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "shift_left": np.left_shift,
    "shift_right": np.right_shift,
}


class Unknown(Exception):
    """The expression holds something whose value is not known at compile time."""


def evaluate(expr: object, values: Mapping[int, np.ndarray]) -> np.ndarray:
    """``expr`` with the arrays of ``values`` in place of its variables, by the hash of each.

    Raises
    ------
    Unknown
        For a variable without a value, a load, a call that is not arithmetic, a type that is not a 32- or
        64-bit signed integer or a truth value, and where 32 bits would overflow.
    """
    result = _evaluate(expr, values)
    if dtype_of(expr) == "int32" and result.size and (result.min() < -(2**31) or result.max() >= 2**31):
        raise Unknown("overflow")
    return result


def _evaluate(expr: object, values: Mapping[int, np.ndarray]) -> np.ndarray:
    kind = type(expr).__name__
    if dtype_of(expr) not in ("int32", "int64", "bool"):
        raise Unknown(dtype_of(expr))
    if kind == "IntImm":
        return np.asarray(int(expr.value), dtype=np.int64)
    if kind == "Var":
        if hash(expr) not in values:
            raise Unknown(str(expr.name))
        return values[hash(expr)]
    if kind in _OPERATIONS:
        a, b = evaluate(expr.a, values), evaluate(expr.b, values)
        if kind in ("FloorDiv", "FloorMod", "Div", "Mod") and not np.all(b):
            raise Unknown("division by zero")
        return _OPERATIONS[kind](a, b)
    if kind == "Not":
        return np.logical_not(evaluate(expr.a, values))
    if kind == "Cast":
        inner = evaluate(expr.value, values)
        return inner != 0 if dtype_of(expr) == "bool" else inner.astype(np.int64)
    if kind == "Select":
        return np.where(evaluate(expr.condition, values), evaluate(expr.true_value, values), evaluate(expr.false_value, values))
    if kind == "Call":
        name = str(getattr(expr.op, "name", "")).rpartition(".")[2]
        if name == "if_then_else":
            condition, yes, no = (evaluate(a, values) for a in expr.args)
            return np.where(condition, yes, no)
        if name in _CALLS:
            a, b = (evaluate(a, values) for a in expr.args)
            return _CALLS[name](a.astype(np.int64), b.astype(np.int64))
    raise Unknown(kind)
