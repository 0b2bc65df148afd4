"""The two phases of a split barrier in device IR: their marker, and the rules for where they may stand.

The rules are structural, so that they hold for every run of the kernel: an arrive and its wait stand in the
same statement list, the wait after the arrive, with no other grid barrier and no way out between them. A
kernel may be right and still break them; it is refused all the same, because one that is wrong hangs.
"""

from __future__ import annotations

from .errors import GridSyncLoweringError
from .tvm_compat import source_line, tir
from .verify.ir_facts import EXIT_NAMES, PHASE_ATTR, is_grid_barrier, op_name

ARRIVE = "arrive"
WAIT = "wait"

__all__ = ["ARRIVE", "PHASE_ATTR", "WAIT", "phase_of", "require_paired_phases"]

_LOOPS = ("For", "While")


def phase_of(stmt: object) -> str | None:
    """The phase that ``stmt`` marks, or None where it marks none."""
    if isinstance(stmt, tir.AttrStmt) and str(stmt.attr_key) == PHASE_ATTR:
        return str(getattr(stmt.value, "value", stmt.value))
    return None


def require_paired_phases(name: str, body: tir.Stmt) -> None:
    """Refuse a kernel whose arrives and waits do not pair up.

    Parameters
    ----------
    name : str
        The kernel's name, for the message.
    body : Stmt

    Raises
    ------
    GridSyncLoweringError
        For an unknown phase, a wait without an arrive, an arrive without a wait, a second arrive or a full
        barrier before the wait, an arrive and a wait in different control flow, and a way out between them.
    """
    walk = _Walk(name)
    walk.region(body)


class _Walk:
    """Visits one function in program order. ``open`` is the arrive of the current region that has no wait yet."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.open: tir.Stmt | None = None
        # Loops entered since the current region began.
        self.loops = 0

    def region(self, stmt: tir.Stmt | None) -> None:
        """One statement list under control flow of its own."""
        if stmt is None:
            return
        outer, self.open = self.open, None
        self.visit(stmt)
        if self.open is not None:
            raise self.refusal(
                self.open,
                "grid_arrive() has no grid_wait() in the same loop body or branch",
                "Put the grid_wait() into the statement list that the grid_arrive() stands in.",
            )
        self.open = outer

    def visit(self, stmt: object, phase: str | None = None) -> None:
        kind = type(stmt).__name__
        if kind == "SeqStmt":
            for inner in stmt.seq:
                self.visit(inner, phase)
        elif kind in (*_LOOPS, "IfThenElse"):
            self.control_flow(stmt, kind)
        elif kind == "Evaluate":
            self.evaluate(stmt, phase)
        elif kind in ("SBlockRealize", "BlockRealize"):
            self.visit(stmt.block.body, phase)
        elif getattr(stmt, "body", None) is not None:
            self.visit(stmt.body, phase_of(stmt) or phase)

    def control_flow(self, stmt: object, kind: str) -> None:
        if self.open is not None and _contains_barrier(stmt):
            raise self.refusal(
                stmt,
                "a grid barrier stands in a loop or branch between grid_arrive() and its grid_wait()",
                "Keep the two in the same statement list, with no other grid barrier between them.",
            )
        if self.open is not None:
            # Only work is inside; what matters of it is whether it leads out.
            self.loops += kind in _LOOPS
            for part in _parts(stmt):
                self.visit(part)
            self.loops -= kind in _LOOPS
            return
        loops, self.loops = self.loops, 0
        for part in _parts(stmt):
            self.region(part)
        self.loops = loops

    def evaluate(self, stmt: tir.Stmt, phase: str | None) -> None:
        call = stmt.value
        if is_grid_barrier(call):
            self.barrier(stmt, phase)
        elif isinstance(call, tir.Call) and self.open is not None:
            leaves = EXIT_NAMES.get(op_name(call))
            if leaves == "return" or (leaves is not None and self.loops == 0):
                raise self.refusal(
                    stmt,
                    f"a {leaves} stands between grid_arrive() and its grid_wait()",
                    "A block that leaves there never waits, and its next arrival is taken for this round's.",
                )

    def barrier(self, stmt: tir.Stmt, phase: str | None) -> None:
        if phase == ARRIVE:
            if self.open is not None:
                raise self.refusal(
                    stmt, "grid_arrive() stands after another one without a grid_wait() between them", "Wait before arriving again."
                )
            self.open = stmt
        elif phase == WAIT:
            if self.open is None:
                raise self.refusal(
                    stmt,
                    "grid_wait() has no grid_arrive() before it in the same loop body or branch",
                    "Put the grid_arrive() into the statement list that the grid_wait() stands in, before it.",
                )
            self.open = None
        elif phase is not None:
            raise self.refusal(stmt, f"the barrier is marked with the unknown phase {phase!r}", f"Known: {ARRIVE!r} and {WAIT!r}.")
        elif self.open is not None:
            raise self.refusal(stmt, "T.sync_grid() stands between grid_arrive() and its grid_wait()", "Wait before the next grid barrier.")

    def refusal(self, stmt: object, what: str, advice: str) -> GridSyncLoweringError:
        place = source_line(stmt)
        where = f" ({place[0]}:{place[1]})" if place else ""
        return GridSyncLoweringError(f"tl_gridsync: in kernel {self.name!r} {what}{where}. {advice}")


def _parts(stmt: object) -> list[tir.Stmt]:
    parts = [stmt.then_case, stmt.else_case] if isinstance(stmt, tir.IfThenElse) else [stmt.body]
    return [part for part in parts if part is not None]


def _contains_barrier(stmt: tir.Stmt) -> bool:
    found: list[object] = []
    tir.stmt_functor.post_order_visit(stmt, lambda node: found.append(node) if is_grid_barrier(node) else None)
    return bool(found)
