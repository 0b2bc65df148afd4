"""Which statements of a device function can bear on how often its barriers are reached.

Most of a kernel computes values that no condition around a barrier depends on. The uniformity analysis need
not follow those, and what it finds is the same: this is a program slice, made without regard to the order of
statements. It starts from the barriers and exits and takes in the control flow around them, the variables
and memory that this control flow reads, everything that writes those or keeps track of races on them, and
the control flow around that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator

from ..tvm_compat import tir
from . import ir_facts
from .pointers import Pointers


class Relevance:
    """The slice of one device function.

    Variables and memory objects are named by the hash of the variable, statements by their own hash.

    Attributes
    ----------
    inert : dict[int, bool]
        The largest statements that have no bearing, each with whether it does anything that could need a grid barrier.
    """

    def __init__(self, func: tir.PrimFunc, pointers: Pointers) -> None:
        self.inert: dict[int, bool] = {}
        self._pointers = pointers
        # Statements by what they touch, and what must be known to know a variable or an object.
        self._touching: dict[int, list[_Part]] = defaultdict(list)
        self._made_of: dict[int, list[object]] = defaultdict(list)
        self._needed: set[int] = set()
        self._anchors: list[_Part] = []
        root = self._survey(func.body, None)
        for part in self._anchors:
            self._activate(part)
        self._list_inert(root)

    # What each statement touches

    def _survey(self, stmt: object, outer: _Part | None) -> _Part:
        part = _Part(stmt, outer)
        kind = type(stmt).__name__
        describe = _DESCRIBED.get(kind)
        if describe is not None:
            describe(self, part, stmt)
        elif kind == "SeqStmt":
            part.inner = [self._survey(inner, part) for inner in stmt.seq]
        elif kind in ("SBlockRealize", "BlockRealize"):
            part.inner = [self._survey(stmt.block.body, part)]
        else:
            self._body(part, stmt)
        part.works = part.works or any(inner.works for inner in part.inner)
        return part

    def _body(self, part: _Part, stmt: object) -> None:
        body = getattr(stmt, "body", None)
        if body is not None:
            part.inner = [self._survey(body, part)]

    def _attr(self, part: _Part, stmt: object) -> None:
        # These say something about the control flow around them, or that there is work between two barriers.
        if str(stmt.attr_key) in (*ir_facts.WARP_SPECIALIZE_ATTRS, ir_facts.PHASE_ATTR):
            self._anchors.append(part)
        self._body(part, stmt)

    def _alloc(self, part: _Part, stmt: object) -> None:
        initial = ir_facts.initial_value(stmt)
        self._defines(part, hash(stmt.buffer.data), [] if initial is None else [initial])
        self._body(part, stmt)

    def _bind(self, part: _Part, stmt: object) -> None:
        self._defines(part, hash(stmt.var), [stmt.value])
        self._body(part, stmt)

    def _store(self, part: _Part, stmt: object) -> None:
        data = stmt.buffer.data
        self._defines(part, hash(data), [stmt.value, *stmt.indices])
        part.works = part.works or ir_facts.scope_of(data) != "local"

    def _evaluate(self, part: _Part, stmt: object) -> None:
        call = stmt.value
        is_call = isinstance(call, tir.Call)
        if is_call and (ir_facts.is_grid_barrier(call) or ir_facts.is_block_barrier(call) or ir_facts.op_name(call) in ir_facts.EXIT_NAMES):
            self._anchors.append(part)
        self._reads(part, call)

    def _if(self, part: _Part, stmt: object) -> None:
        self._controls(part, [stmt.condition])
        part.inner = [self._survey(branch, part) for branch in (stmt.then_case, stmt.else_case) if branch is not None]

    def _for(self, part: _Part, stmt: object) -> None:
        if stmt.thread_binding is None:
            step = getattr(stmt, "step", None)
            self._controls(part, [stmt.min, stmt.extent] if step is None else [stmt.min, stmt.extent, step])
        self._body(part, stmt)

    def _while(self, part: _Part, stmt: object) -> None:
        self._controls(part, [stmt.condition])
        self._body(part, stmt)

    def _controls(self, part: _Part, conditions: list[object]) -> None:
        part.conditions = conditions
        for condition in conditions:
            self._reads(part, condition)

    def _defines(self, part: _Part, key: int, values: list[object]) -> None:
        self._touching[key].append(part)
        self._made_of[key] += values
        for value in values:
            self._reads(part, value)

    def _reads(self, part: _Part, expr: object) -> None:
        """What evaluating ``expr`` does to the analysis' state: the races that it may take part in, and barriers."""
        for node in _nodes(expr, lambda node: isinstance(node, tir.Call) and ir_facts.op_name(node) in ir_facts.POINTER_MAKERS):
            if isinstance(node, tir.BufferLoad):
                data = node.buffer.data
                scope = ir_facts.scope_of(data)
                if scope != "local":
                    part.works = True
                    if scope != "global" or self._pointers.is_written(hash(data)):
                        self._touching[hash(data)].append(part)
            elif isinstance(node, tir.Call) and not ir_facts.is_pure(node) and ir_facts.op_name(node) not in ir_facts.THREAD_NUMBERS:
                part.works = True
                if ir_facts.is_block_barrier(node):
                    self._anchors.append(part)
                for data in self._pointers.written_by(node):
                    self._touching[hash(data)].append(part)

    # What bears on a barrier

    def _activate(self, part: _Part | None) -> None:
        while part is not None and not part.active:
            part.active = True
            for condition in part.conditions:
                self._need(condition)
            part = part.outer

    def _need(self, expr: object) -> None:
        """Everything that the value of ``expr`` is made of bears on a barrier."""
        pending = list(_variables(expr))
        while pending:
            key = pending.pop()
            if key in self._needed:
                continue
            self._needed.add(key)
            for part in self._touching.get(key, ()):
                self._activate(part)
            for value in self._made_of.get(key, ()):
                pending += _variables(value)
            pending += self._pointers.overlapping(key)

    def _list_inert(self, part: _Part) -> None:
        if not part.active:
            self.inert[hash(part.stmt)] = part.works
        for inner in part.inner if part.active else ():
            self._list_inert(inner)


class _Part:
    """A statement: the one around it and those in it, the expressions that decide its control flow, and what it does.

    ``works`` says whether it touches memory that others share, ``active`` whether it bears on a barrier.
    """

    __slots__ = ("active", "conditions", "inner", "outer", "stmt", "works")

    def __init__(self, stmt: object, outer: _Part | None) -> None:
        self.stmt = stmt
        self.outer = outer
        self.inner: list[_Part] = []
        self.conditions: list[object] = []
        self.works = False
        self.active = False


_DESCRIBED: dict[str, Callable[[Relevance, _Part, object], None]] = {
    "AttrStmt": Relevance._attr,
    "AllocBuffer": Relevance._alloc,
    "Bind": Relevance._bind,
    "LetStmt": Relevance._bind,
    "BufferStore": Relevance._store,
    "Evaluate": Relevance._evaluate,
    "IfThenElse": Relevance._if,
    "For": Relevance._for,
    "While": Relevance._while,
}


def _nodes(expr: object, opaque: Callable[[object], bool]) -> Iterator[object]:
    """The nodes of ``expr`` from the outside in; what is in an opaque one is left out."""
    pending = [expr]
    while pending:
        node = pending.pop()
        yield node
        if not opaque(node):
            pending += ir_facts.children(node)


def _variables(expr: object) -> Iterator[int]:
    """The variables in ``expr``, and those that point to the memory it loads."""
    for node in _nodes(expr, lambda _node: False):
        if isinstance(node, tir.Var):
            yield hash(node)
        elif isinstance(node, tir.BufferLoad):
            yield hash(node.buffer.data)
