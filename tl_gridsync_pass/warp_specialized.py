"""Brings grid barriers back out of one side of TileLang's automatic warp specialisation.

That pass of TileLang splits a block into producer and consumer warps, adds the producers as extra threads,
and leaves everything that follows in the consumers' branch, ``T.sync_grid()`` with it::

    if threadIdx.x < 128:      # producers
        ...
    else:                      # consumers: all of the threads that the user asked for
        ...
        tl.sync_grid()
        ...

The producers never reach that barrier. Thread 0 is one of them, so a barrier led by thread 0 lets everybody
through; and in a loop the producers would load the next round's data before the barrier has opened. Here
the branch is split at its barriers, so that all threads of the block reach each of them::

    if threadIdx.x < 128: ...
    else: ...
    tl.sync_grid()
    if not threadIdx.x < 128: ...
"""

from __future__ import annotations

from .errors import GridSyncLoweringError
from .tvm_compat import TIR_NAMESPACE, tir, tvm
from .verify.ir_facts import is_asynchronous, is_grid_barrier, op_name

SCOPE_ATTR = "kWarpSpecializationScope"

_DECLARATIONS = ("AllocBuffer", "DeclBuffer", "Bind")


def rejoin(mod: tvm.IRModule) -> tvm.IRModule:
    """Split every warp-specialised branch with a grid barrier in it; the same object where there is none.

    Raises
    ------
    GridSyncLoweringError
        For a barrier that cannot be brought out: one inside a ``while``, or one with a value computed before
        it that is used after it and cannot be computed by all threads.
    """
    rewritten = {}
    for var, func in mod.functions.items():
        boundaries = _boundaries(func) if isinstance(func, tir.PrimFunc) else set()
        if boundaries:
            body = _Rejoin(str(var.name_hint), func, boundaries).run(func.body)
            if not body.same_as(func.body):
                rewritten[var] = func.with_body(body)
    if not rewritten:
        return mod
    out = tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in rewritten.items():
        out.update_func(var, func)
    return out


def _boundaries(func: tir.PrimFunc) -> set[int]:
    """The thread indices at which warp specialisation split the block; empty where it did not."""
    found: set[int] = set()

    def visit(node: object) -> None:
        if isinstance(node, tir.AttrStmt) and str(node.attr_key) == SCOPE_ATTR:
            # How many producers and how many consumers. Which come first differs between releases.
            found.update(int(count) for count in node.node)

    tir.stmt_functor.post_order_visit(func.body, visit)
    return found


class _Rejoin:
    """The rewriting of one function."""

    def __init__(self, name: str, func: tir.PrimFunc, boundaries: set[int]) -> None:
        self.name = name
        self.boundaries = boundaries
        self.threads: list[tir.Var] = []

        def visit(node: object) -> None:
            if isinstance(node, tir.AttrStmt) and node.attr_key == "thread_extent" and str(node.node.thread_tag).startswith("threadIdx"):
                self.threads.append(node.node.var)

        tir.stmt_functor.post_order_visit(func.body, visit)

    def run(self, body: tir.Stmt) -> tir.Stmt:
        def leave(stmt: object) -> object | None:
            if self._is_split(stmt) and (_has_barrier(stmt.then_case) or _has_barrier(stmt.else_case)):
                return self._split(stmt)
            return None

        return tir.stmt_functor.ir_transform(body, lambda _stmt: None, leave, [f"{TIR_NAMESPACE}.IfThenElse"])

    def _is_split(self, stmt: tir.IfThenElse) -> bool:
        """Whether this is the branch that warp specialisation made; a user's own index starts at the boundary."""
        condition = stmt.condition
        if isinstance(condition, (tir.LT, tir.GE)):
            index, boundary = condition.a, condition.b
        elif isinstance(condition, (tir.GT, tir.LE)):
            index, boundary = condition.b, condition.a
        else:
            return False
        return isinstance(boundary, tir.IntImm) and int(boundary) in self.boundaries and any(index.same_as(t) for t in self.threads)

    def _split(self, stmt: tir.IfThenElse) -> tir.Stmt | None:
        if stmt.else_case is None:
            return _sequence(self._segments(stmt.condition, stmt.then_case))
        if _has_barrier(stmt.then_case) and _has_barrier(stmt.else_case):
            # The user's own, on both sides: nothing says which of them belong together.
            return None
        condition, inside, other = stmt.condition, stmt.else_case, stmt.then_case
        if _has_barrier(stmt.then_case):
            inside, other = other, inside
        else:
            condition = tir.Not(condition)
        if _barrier_in_loop(inside) and _copies_ahead(other):
            raise GridSyncLoweringError(
                f"tl_gridsync: kernel {self.name!r} has a T.sync_grid() inside a loop whose loads TileLang gives to producer warps. They "
                "load ahead of the barrier, which then orders nothing for them, and wait for consumers that wait at it. Move it out of "
                "the T.Pipelined loop, or compile with pass_configs={tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}."
            )
        parts = self._segments(condition, inside)
        first = next((i for i, part in enumerate(parts) if isinstance(part, tir.IfThenElse) or _has_barrier(part)), len(parts))
        if first < len(parts) and isinstance(parts[first], tir.IfThenElse) and parts[first].condition.same_as(condition):
            both = tir.IfThenElse(condition, _without_register_moves(parts[first].then_case), _without_register_moves(other))
            parts[first] = both
        else:
            parts.insert(first, tir.IfThenElse(tir.Not(condition), _without_register_moves(other), None))
        return _sequence(parts)

    def _segments(self, condition: object, branch: tir.Stmt) -> list[tir.Stmt]:
        """``branch``, executed under ``condition`` but for its barriers, as a list of statements."""
        parts: list[tir.Stmt] = []
        segment: list[tir.Stmt] = []

        def flush() -> None:
            if segment:
                parts.append(tir.IfThenElse(condition, _sequence(segment), None))
                segment.clear()

        statements = list(branch.seq) if isinstance(branch, tir.SeqStmt) else [branch]
        for position, stmt in enumerate(statements):
            if not _has_barrier(stmt):
                if type(stmt).__name__ in _DECLARATIONS and any(map(_has_barrier, statements[position:])):
                    parts += [] if self._declare(stmt, segment) else [stmt]
                else:
                    segment.append(stmt)
                continue
            flush()
            parts += self._around_barrier(condition, stmt)
        flush()
        return parts

    def _declare(self, stmt: tir.Stmt, segment: list[tir.Stmt]) -> bool:
        """Keep a declaration with its segment where its value needs what the segment did; whether it was kept."""
        if type(stmt).__name__ != "Bind":
            return False
        impure = []

        def visit(node: object) -> None:
            if isinstance(node, tir.BufferLoad):
                impure.append(node)

        tir.stmt_functor.post_order_visit(tir.Evaluate(stmt.value), visit)
        if impure:
            segment.append(stmt)
        return bool(impure)

    def _around_barrier(self, condition: object, stmt: tir.Stmt) -> list[tir.Stmt]:
        if isinstance(stmt, tir.Evaluate):
            return [stmt]
        if isinstance(stmt, tir.For):
            body = _sequence(self._segments(condition, stmt.body))
            return [tir.For(stmt.loop_var, stmt.min, stmt.extent, stmt.kind, body, stmt.thread_binding, stmt.annotations)]
        if isinstance(stmt, tir.AttrStmt):
            return [tir.AttrStmt(stmt.node, stmt.attr_key, stmt.value, _sequence(self._segments(condition, stmt.body)))]
        if isinstance(stmt, tir.IfThenElse):
            then = _sequence(self._segments(condition, stmt.then_case))
            otherwise = None if stmt.else_case is None else _sequence(self._segments(condition, stmt.else_case))
            return [tir.IfThenElse(stmt.condition, then, otherwise)]
        raise GridSyncLoweringError(
            f"tl_gridsync: kernel {self.name!r} is warp-specialised, and a T.sync_grid() in a {type(stmt).__name__} on the consumers' "
            "side cannot be brought out to where all warps meet. Compile it with "
            "pass_configs={tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}."
        )


def _has_barrier(stmt: tir.Stmt | None) -> bool:
    found = []
    if stmt is not None:
        tir.stmt_functor.post_order_visit(stmt, lambda node: found.append(node) if is_grid_barrier(node) else None)
    return bool(found)


def _barrier_in_loop(stmt: tir.Stmt) -> bool:
    """Whether a loop inside ``stmt`` holds a barrier."""
    found = []

    def visit(node: object) -> None:
        if isinstance(node, (tir.For, tir.While)) and _has_barrier(node.body):
            found.append(node)

    tir.stmt_functor.post_order_visit(stmt, visit)
    return bool(found)


def _copies_ahead(stmt: tir.Stmt) -> bool:
    """Whether ``stmt`` starts asynchronous copies or waits on the barriers that pace them."""
    found = []
    tir.stmt_functor.post_order_visit(
        stmt, lambda node: found.append(node) if isinstance(node, tir.Call) and is_asynchronous(node) else None
    )
    return bool(found)


def _without_register_moves(stmt: tir.Stmt) -> tir.Stmt:
    """Without setmaxnreg: code that both sides run must fit the registers of either."""

    def leave(node: object) -> object | None:
        if isinstance(node.value, tir.Call) and op_name(node.value) == "set_max_nreg":
            return tir.Evaluate(tir.const(0, "int32"))
        return None

    return tir.stmt_functor.ir_transform(stmt, lambda _node: None, leave, [f"{TIR_NAMESPACE}.Evaluate"])


def _sequence(parts: list[tir.Stmt]) -> tir.Stmt:
    return parts[0] if len(parts) == 1 else tir.SeqStmt(list(parts))
