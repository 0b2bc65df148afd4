"""A TIR expression as the user might have written it, for diagnostics."""

from __future__ import annotations

from collections.abc import Callable

from ..tvm_compat import dtype_of

# Binding strength, loosest first, of what each node prints.
_BINARY = {
    "Or": ("or", 1),
    "And": ("and", 2),
    "EQ": ("==", 4),
    "NE": ("!=", 4),
    "LT": ("<", 4),
    "LE": ("<=", 4),
    "GT": (">", 4),
    "GE": (">=", 4),
    "Add": ("+", 6),
    "Sub": ("-", 6),
    "Mul": ("*", 7),
    "Div": ("/", 7),
    "FloorDiv": ("//", 7),
    "Mod": ("%", 7),
    "FloorMod": ("%", 7),
}
_SHIFTS = {"shift_left": ("<<", 5), "shift_right": (">>", 5), "bitwise_and": ("&", 3), "bitwise_or": ("|", 3), "bitwise_xor": ("^", 3)}
_ATOM = 9
_MAX_LENGTH = 120


def expression_text(expr: object, expand: Callable[[object], object | None] = lambda _var: None) -> str:
    """``expr`` in Python's notation.

    Parameters
    ----------
    expr : PrimExpr
    expand : callable
        The expression that stands for a variable which the compiler made up, or None for the user's own.
    """
    text = _Printer(expand).print(expr)[0]
    return text if len(text) <= _MAX_LENGTH else text[: _MAX_LENGTH - 3] + "..."


class _Printer:
    def __init__(self, expand: Callable[[object], object | None]) -> None:
        self.expand = expand

    def print(self, expr: object) -> tuple[str, int]:
        """The text and how tightly it binds."""
        kind = type(expr).__name__
        if kind in _BINARY:
            return self._infix(*_BINARY[kind], expr.a, expr.b)
        method = getattr(self, f"_{kind}", None)
        return method(expr) if method is not None else (str(expr).strip().splitlines()[-1], _ATOM)

    def _infix(self, sign: str, strength: int, a: object, b: object) -> tuple[str, int]:
        return f"{self._within(a, strength)} {sign} {self._within(b, strength + 1)}", strength

    def _within(self, expr: object, strength: int) -> str:
        text, own = self.print(expr)
        return text if own >= strength else f"({text})"

    def _IntImm(self, expr):
        if dtype_of(expr) == "bool":
            return str(bool(int(expr.value))), _ATOM
        return str(int(expr.value)), _ATOM if int(expr.value) >= 0 else 8

    def _FloatImm(self, expr):
        return str(float(expr.value)), _ATOM

    def _StringImm(self, expr):
        return repr(str(expr.value)), _ATOM

    def _Var(self, expr):
        meaning = self.expand(expr)
        return (str(expr.name), _ATOM) if meaning is None else self.print(meaning)

    _SizeVar = _Var

    def _Not(self, expr):
        return f"not {self._within(expr.a, 3)}", 3

    def _Cast(self, expr):
        return self.print(expr.value)

    def _Broadcast(self, expr):
        return self.print(expr.value)

    def _Ramp(self, expr):
        return f"{self._within(expr.base, 1)}:...", 0

    def _Min(self, expr):
        return f"min({self.print(expr.a)[0]}, {self.print(expr.b)[0]})", _ATOM

    def _Max(self, expr):
        return f"max({self.print(expr.a)[0]}, {self.print(expr.b)[0]})", _ATOM

    def _Select(self, expr):
        return f"{self._within(expr.true_value, 1)} if {self._within(expr.condition, 1)} else {self._within(expr.false_value, 0)}", 0

    def _BufferLoad(self, expr):
        buffer = expr.buffer
        one_element = len(buffer.shape) == 1 and str(buffer.shape[0]) == "1"
        if buffer.scope() == "local.var" or (buffer.scope() == "local" and one_element and str(expr.indices[0]) == "0"):
            return str(buffer.name), _ATOM
        return f"{buffer.name}[{', '.join(self.print(i)[0] for i in expr.indices)}]", _ATOM

    def _Call(self, expr):
        name = str(getattr(expr.op, "name", expr.op))
        short = name.rpartition(".")[2]
        args = list(expr.args)
        constant = int(args[1].value) if len(args) == 2 and type(args[1]).__name__ == "IntImm" else None
        # TileLang writes division and modulo by a power of two as a shift and a mask.
        if short == "shift_right" and constant is not None:
            return f"{self._within(args[0], 7)} // {1 << constant}", 7
        if short == "bitwise_and" and constant is not None and constant & (constant + 1) == 0:
            return f"{self._within(args[0], 7)} % {constant + 1}", 7
        if short in _SHIFTS and len(args) == 2:
            return self._infix(*_SHIFTS[short], *args)
        if short == "if_then_else":
            return f"{self._within(args[1], 1)} if {self._within(args[0], 1)} else {self._within(args[2], 0)}", 0
        if short in ("call_extern", "call_pure_extern") and type(args[0]).__name__ == "StringImm":
            short, args = str(args[0].value), args[1:]
        prefix = "T." if name.startswith(("tl.", "tir")) and "extern" not in name else ""
        return f"{prefix}{short.removeprefix('tl_')}({', '.join(self.print(a)[0] for a in args)})", _ATOM
