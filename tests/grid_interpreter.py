"""Runs a device function's control flow for every thread of every block, in plain Python.

It knows nothing of how a value varies: each thread is a coroutine with its own variables, which stops at
barriers. It is the truth that the verification is held against, so it shares no code with it.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tl_gridsync_pass.tvm_compat import dtype_of

WARP = 32


class TooLong(Exception):
    """The function ran for more steps than the interpreter is willing to take."""


class _Break(Exception):
    pass


class _Continue(Exception):
    pass


class _Return(Exception):
    pass


@dataclass
class Outcome:
    """What became of one launch.

    Attributes
    ----------
    hangs : bool
        Whether some threads wait at a grid barrier for ever.
    reached : dict[int, list[int]]
        For each grid barrier statement, how often each thread reached it.
    memory : dict[str, dict[int, int]]
        The global buffers afterwards, by the name of the pointer parameter.
    """

    hangs: bool
    reached: dict[int, list[int]]
    memory: dict[str, dict[int, int]]

    @property
    def diverges(self) -> bool:
        return self.hangs or any(len(set(counts)) > 1 for counts in self.reached.values())


@dataclass
class _Memory:
    """One object's elements; missing ones are zero."""

    values: dict[int, Any] = field(default_factory=dict)


def run(func: Any, data: Mapping[str, Sequence[int]], scalars: Mapping[str, int], seed: int = 0, max_steps: int = 200_000) -> Outcome:
    """Launch ``func``.

    Parameters
    ----------
    func : tir.PrimFunc
        A device function with constant launch extents.
    data : Mapping
        What the global buffers hold, by the name of the pointer parameter.
    scalars : Mapping
        The scalar parameters, by name.
    seed : int
        Decides the order in which threads run between barriers.

    Raises
    ------
    TooLong
        After ``max_steps`` statements.
    """
    return _Launch(func, data, scalars, seed, max_steps).run()


class _Launch:
    def __init__(self, func, data, scalars, seed, max_steps) -> None:
        self.func = func
        self.random = random.Random(seed)
        self.steps = max_steps
        self.memory: dict[int, _Memory] = {}
        self.scalars: dict[int, Any] = {}
        for param in func.params:
            name = str(param.name)
            if dtype_of(param) == "handle":
                self.memory[hash(param)] = _Memory(dict(enumerate(data.get(name, ()))))
            else:
                self.scalars[hash(param)] = scalars[name]
        self.axes: dict[str, tuple[Any, int]] = {}
        self._find_axes(func.body)

    def _find_axes(self, stmt) -> None:
        kind = type(stmt).__name__
        if kind == "AttrStmt" and stmt.attr_key == "thread_extent":
            self.axes[str(stmt.node.thread_tag)] = (stmt.node.var, int(stmt.value))
        for inner in stmt.seq if kind == "SeqStmt" else [getattr(stmt, "body", None)]:
            if inner is not None:
                self._find_axes(inner)

    def run(self) -> Outcome:
        blocks = [a for a in self.axes.items() if a[0].startswith("blockIdx")]
        threads = [a for a in self.axes.items() if a[0].startswith("threadIdx")]
        waiting: dict[int, tuple[str, int] | None] = {}
        coroutines: dict[int, Generator] = {}
        block_of: dict[int, int] = {}
        reached: dict[int, Counter] = {}
        for b, block in enumerate(itertools.product(*(range(e) for _, (_, e) in blocks))):
            shared: dict[int, _Memory] = {}
            for thread in itertools.product(*(range(e) for _, (_, e) in threads)):
                indices = {hash(v): i for (_, (v, _)), i in zip([*blocks, *threads], [*block, *thread], strict=True)}
                linear, stride = 0, 1
                for (_, (_, extent)), i in sorted(zip(threads, thread, strict=True)):
                    linear, stride = linear + i * stride, stride * extent
                number = len(coroutines)
                coroutines[number] = _Thread(self, indices, shared, linear).run()
                block_of[number] = b
        running = list(coroutines)
        while True:
            self.random.shuffle(running)
            for number in running:
                try:
                    waiting[number] = next(coroutines[number])
                    kind, barrier = waiting[number]
                    if kind == "grid":
                        reached.setdefault(barrier, Counter())[number] += 1
                except StopIteration:
                    waiting.pop(number, None)
                    del coroutines[number]
            if not coroutines:
                return self._outcome(False, reached, len(block_of))
            if len(waiting) == len(block_of) and all(kind == "grid" for kind, _ in waiting.values()):
                running = list(coroutines)
                continue
            at_block_barrier = [
                [n for n in coroutines if block_of[n] == b]
                for b in set(block_of.values())
                if all(waiting[n][0] == "block" for n in coroutines if block_of[n] == b)
            ]
            running = [n for members in at_block_barrier for n in members]
            if not running:
                return self._outcome(True, reached, len(block_of))

    def _outcome(self, hangs: bool, reached: dict[int, Counter], threads: int) -> Outcome:
        counts = {barrier: [by_thread[n] for n in range(threads)] for barrier, by_thread in reached.items()}
        memory = {str(p.name): self.memory[hash(p)].values for p in self.func.params if hash(p) in self.memory}
        return Outcome(hangs, counts, memory)


class _Thread:
    def __init__(self, launch: _Launch, indices, shared, linear) -> None:
        self.launch = launch
        self.vars = {**launch.scalars, **indices}
        self.shared = shared
        self.local: dict[int, _Memory] = {}
        self.linear = linear

    def run(self):
        try:
            yield from self.visit(self.launch.func.body)
        except _Return:
            return

    def visit(self, stmt):
        self.launch.steps -= 1
        if self.launch.steps < 0:
            raise TooLong
        kind = type(stmt).__name__
        if kind == "SeqStmt":
            for inner in stmt.seq:
                yield from self.visit(inner)
        elif kind == "AttrStmt":
            yield from self.visit(stmt.body)
        elif kind == "IfThenElse":
            if self.value(stmt.condition):
                yield from self.visit(stmt.then_case)
            elif stmt.else_case is not None:
                yield from self.visit(stmt.else_case)
        elif kind == "For":
            start = self.value(stmt.min)
            for i in range(start, start + self.value(stmt.extent)):
                self.vars[hash(stmt.loop_var)] = i
                try:
                    yield from self.visit(stmt.body)
                except _Continue:
                    continue
                except _Break:
                    break
        elif kind == "While":
            while self.value(stmt.condition):
                self.launch.steps -= 1
                try:
                    yield from self.visit(stmt.body)
                except _Continue:
                    continue
                except _Break:
                    break
        elif kind in ("Bind", "LetStmt"):
            self.vars[hash(stmt.var)] = self.value(stmt.value)
            yield from self.scope(stmt)
        elif kind in ("AllocBuffer", "Allocate"):
            self.local.pop(hash(stmt.buffer.data if kind == "AllocBuffer" else stmt.buffer_var), None)
            yield from self.scope(stmt)
        elif kind == "DeclBuffer":
            yield from self.scope(stmt)
        elif kind == "BufferStore":
            value = self.value(stmt.value)
            self.object(stmt.buffer).values[self.index(stmt)] = value
        elif kind == "Evaluate":
            yield from self.call(stmt)
        else:
            raise NotImplementedError(kind)

    def scope(self, stmt):
        """What the statement declares something for; since TileLang 0.1.10 that is whatever follows it."""
        if getattr(stmt, "body", None) is not None:
            yield from self.visit(stmt.body)

    def call(self, stmt):
        call = stmt.value
        name = str(getattr(getattr(call, "op", None), "name", "")).rpartition(".")[2]
        if name == "sync_grid":
            yield "grid", hash(stmt)
        elif name == "tvm_storage_sync":
            yield "block", 0
        elif name == "thread_return":
            raise _Return
        elif name in ("break_loop", "loop_break"):
            raise _Break
        elif name == "continue_loop":
            raise _Continue
        elif type(call).__name__ == "IntImm":
            return
        else:
            raise NotImplementedError(name)

    def object(self, buffer) -> _Memory:
        key = hash(buffer.data)
        scope = buffer.scope()
        if scope.startswith("shared"):
            return self.shared.setdefault(key, _Memory())
        if scope.startswith("local"):
            return self.local.setdefault(key, _Memory())
        return self.launch.memory[key]

    def index(self, access) -> int:
        # Buffers of more dimensions are flat by the time the code generator sees them.
        (index,) = access.indices
        return self.value(index)

    def value(self, expr):
        kind = type(expr).__name__
        method = getattr(self, f"value_{kind}", None)
        if method is not None:
            return method(expr)
        a, b = self.value(expr.a), self.value(expr.b)
        return _BINARY[kind](a, b)

    def value_IntImm(self, expr):
        return bool(int(expr.value)) if dtype_of(expr) == "bool" else int(expr.value)

    def value_Var(self, expr):
        return self.vars[hash(expr)]

    def value_Cast(self, expr):
        return self.value(expr.value)

    def value_Not(self, expr):
        return not self.value(expr.a)

    def value_And(self, expr):
        return self.value(expr.a) and self.value(expr.b)

    def value_Or(self, expr):
        return self.value(expr.a) or self.value(expr.b)

    def value_Select(self, expr):
        return self.value(expr.true_value) if self.value(expr.condition) else self.value(expr.false_value)

    def value_BufferLoad(self, expr):
        return self.object(expr.buffer).values.get(self.index(expr), 0)

    def value_Call(self, expr):
        name = str(expr.op.name).rpartition(".")[2]
        if name == "if_then_else":
            return self.value(expr.args[1]) if self.value(expr.args[0]) else self.value(expr.args[2])
        if name == "get_lane_idx":
            return self.linear % WARP
        if name in ("get_warp_idx", "get_warp_idx_sync"):
            return self.linear // WARP
        if name == "get_warp_group_idx":
            return self.linear // (4 * WARP)
        if name == "tl_shuffle_elect":
            group = self.value(expr.args[0])
            return self.linear == 0 if group == 0 else self.linear % group == 0
        return _CALLS[name](*(self.value(a) for a in expr.args))


def _truncating_div(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_BINARY = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "FloorDiv": lambda a, b: a // b,
    "FloorMod": lambda a, b: a % b,
    "Div": _truncating_div,
    "Mod": lambda a, b: a - _truncating_div(a, b) * b,
    "Min": min,
    "Max": max,
    "EQ": lambda a, b: a == b,
    "NE": lambda a, b: a != b,
    "LT": lambda a, b: a < b,
    "LE": lambda a, b: a <= b,
    "GT": lambda a, b: a > b,
    "GE": lambda a, b: a >= b,
}
_CALLS = {
    "bitwise_and": lambda a, b: a & b,
    "bitwise_or": lambda a, b: a | b,
    "bitwise_xor": lambda a, b: a ^ b,
    "shift_left": lambda a, b: a << b,
    "shift_right": lambda a, b: a >> b,
}
