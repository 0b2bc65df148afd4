"""Proves that an expression has the same value in all threads of a block, or in all blocks of the grid.

Where everything is a compile-time constant, the expression is evaluated for every thread and block, which
decides the question and gives an example. Where it is not, or there are very many threads and blocks, TVM's
arithmetic analyser is asked.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..tvm_compat import TIR_NAMESPACE, bind_again, dtype_of, tir, tvm
from . import concrete
from .launch import Axis

# Evaluating more points than this would be felt in compile time.
_MAX_POINTS = 1 << 22
# Evaluating as few as this takes less time than the analyser does.
_FEW_POINTS = 1 << 16


@dataclass(frozen=True)
class Verdict:
    """What was found out: whether the value is proved the same along each axis, and an example where it is not."""

    same_in_block: bool
    same_in_grid: bool
    example: str | None = None


class Prover:
    """Knows the ranges of a function's thread and block indices and of its loop variables.

    A context manager that lets go of the analyser at its end. Up to TileLang 0.1.9 an analyser has to be freed by the thread
    that made it, since that thread's Z3 is in it; left to the garbage collector it corrupts the heap.
    """

    def __init__(self, axes: list[Axis]) -> None:
        self.axes = axes
        self.analyzer = tvm.arith.Analyzer()
        self.loops: dict[int, tuple[object, int, int]] = {}
        self._twins: dict[bool, dict[object, object]] = {True: {}, False: {}}
        for axis in axes:
            self.analyzer.bind(axis.var, tvm.ir.Range(0, axis.extent))
            twin = tir.Var(f"{axis.var.name}'", axis.var.dtype)
            self.analyzer.bind(twin, tvm.ir.Range(0, axis.extent))
            self._twins[axis.is_thread][axis.var] = twin

    def __enter__(self) -> Prover:
        return self

    def __exit__(self, *_: object) -> None:
        del self.analyzer

    def bind_loop(self, var: object, start: object, extent: object) -> None:
        """Let the analyser know a loop variable's range; ``start`` and ``extent`` hold no loads."""
        bind_again(self.analyzer, var, tvm.ir.Range.from_min_extent(start, extent))
        if isinstance(start, tir.IntImm) and isinstance(extent, tir.IntImm) and int(extent) > 0:
            self.loops[hash(var)] = (var, int(start), int(extent))

    def simplify(self, expr: object) -> object:
        return self.analyzer.simplify(expr)

    def verdict(self, expr: object, same_for_all: set[int]) -> Verdict:
        """Decide for an expression without loads whose other variables are the same in all threads.

        Parameters
        ----------
        expr : PrimExpr
        same_for_all : set[int]
            The hashes of the loop variables that are the same in all threads at any moment.
        """
        used = {hash(var): var for var in variables(expr)}
        ranges = self._constant_ranges(used, same_for_all)
        points = np.inf if ranges is None else np.prod([float(n) for _, _, n in ranges])
        # Both are right where they decide, so what comes first is a question of time alone.
        if ranges is not None and points <= _FEW_POINTS:
            found = self._evaluate_everywhere(expr, ranges)
            if found is not None:
                return found
        in_block = not any(hash(a.var) in used for a in self.axes if a.is_thread) or self._twin_equal(expr, threads=True)
        in_grid = not any(hash(a.var) in used for a in self.axes if not a.is_thread) or self._twin_equal(expr, threads=False)
        if in_block and in_grid:
            return Verdict(True, True)
        if ranges is not None and _FEW_POINTS < points <= _MAX_POINTS:
            found = self._evaluate_everywhere(expr, ranges)
            if found is not None:
                return found
        return Verdict(in_block, in_grid)

    def _twin_equal(self, expr: object, threads: bool) -> bool:
        """Whether the analyser proves the value the same for two different threads (or blocks) of any index."""
        twins = self._twins[threads]
        if not any(var in twins for var in variables(expr)):
            return True
        if dtype_of(expr) != "bool":
            return self.analyzer.can_prove_equal(expr, tir.stmt_functor.substitute(expr, twins))
        if self.analyzer.can_prove(expr) or self.analyzer.can_prove(tir.Not(expr)):
            return True
        operands = [expr.a] if isinstance(expr, tir.Not) else [expr.a, expr.b] if hasattr(expr, "b") else []
        return bool(operands) and all(self._twin_equal(operand, threads) for operand in operands)

    def _constant_ranges(self, used: dict[int, object], same_for_all: set[int]) -> list[tuple[object, int, int]] | None:
        """Each used variable with its first value and their number, threads before blocks before loops; None where one has none."""
        axes = [a for threads in (True, False) for a in self.axes if a.is_thread == threads and hash(a.var) in used]
        ranges: list[tuple[object, int, int]] = [(a.var, 0, a.constant) for a in axes if a.constant is not None]
        ranges += [self.loops[h] for h in used if h in self.loops and h in same_for_all]
        return ranges if len(used) == len({hash(var) for var, _, _ in ranges}) else None

    def _evaluate_everywhere(self, expr: object, ranges: list[tuple[object, int, int]]) -> Verdict | None:
        # A line an axis; the order of the axes of the array: threads, blocks, loops.
        values = {}
        for position, (var, start, extent) in enumerate(ranges):
            shape = [1] * len(ranges)
            shape[position] = extent
            values[hash(var)] = np.arange(start, start + extent, dtype=np.int64).reshape(shape)
        try:
            result = concrete.evaluate(expr, values)
        except concrete.Unknown:
            return None
        result = np.broadcast_to(result, [n for _, _, n in ranges])
        axes = {hash(a.var): a for a in self.axes}
        indices = [axes[hash(var)] for var, _, _ in ranges if hash(var) in axes]
        t = sum(a.is_thread for a in indices)
        b = len(indices) - t
        thread_axes, block_axes = tuple(range(t)), tuple(range(t, t + b))
        in_block = t == 0 or bool(np.all(result.max(axis=thread_axes) == result.min(axis=thread_axes)))
        in_grid = b == 0 or bool(np.all(result.max(axis=block_axes) == result.min(axis=block_axes)))
        example = None if in_block and in_grid else _example(result, ranges, thread_axes if not in_block else block_axes, indices)
        return Verdict(in_block, in_grid, example)


def _example(result: np.ndarray, ranges: list, along: tuple[int, ...], axes: list[Axis]) -> str:
    """Two points that differ along some axes only, with their values."""
    first = result[tuple(slice(0, 1) if i in along else slice(None) for i in range(result.ndim))]
    other = np.argwhere(result != first)[0]
    base = [0 if i in along else int(x) for i, x in enumerate(other)]

    def name(point):
        return ", ".join(f"{axes[i].tag} = {point[i] + ranges[i][1]}" for i in along)

    fixed = [f"{ranges[i][0].name} = {base[i] + ranges[i][1]}" for i in range(result.ndim) if i not in along]
    where = f" (at {', '.join(fixed)})" if fixed else ""
    return f"it is {_plain(result[tuple(base)])} for {name(base)} and {_plain(result[tuple(other)])} for {name(other)}{where}"


def _plain(value: object) -> str:
    return str(bool(value)) if isinstance(value, np.bool_) else str(int(value))


def variables(expr: object) -> list[object]:
    """The variables of ``expr``, each once."""
    found: dict[int, object] = {}

    def visit(node: object) -> None:
        if isinstance(node, tir.Var):
            found[hash(node)] = node

    tir.stmt_functor.post_order_visit(tir.Evaluate(expr), visit)
    return list(found.values())


def rewrite(expr: object, replace) -> object:
    """``expr`` with every variable, load and call passed through ``replace``, inner ones first; None keeps one."""
    kinds = [f"{TIR_NAMESPACE}.{kind}" for kind in ("Var", "BufferLoad", "Call")]
    return tir.stmt_functor.ir_transform(tir.Evaluate(expr), lambda _node: None, replace, kinds).value
