"""Builds device functions out of a description, with any statement in place of the barrier.

The description is plain data, so one description gives both the module that the pass is run on and,
with the lowered barrier written out by hand, the module that has to come out.
"""

from __future__ import annotations

from collections.abc import Callable

from tl_gridsync_pass.tvm_compat import tir, tir_op, tvm

BARRIER = "barrier"

# Thread or block axes and their extents; None is an extent known only when the kernel is launched.
Extents = dict[str, "int | None"]
GRID: Extents = {"blockIdx.x": 4}
MakeBarrier = Callable[[dict[str, tir.Var]], list[tir.Stmt]]


def block_sync() -> tir.Stmt:
    return tir.Evaluate(tir.Call("int32", tir_op("tvm_storage_sync"), [tir.StringImm("shared")]))


def sync_grid(_axes: dict[str, tir.Var] | None = None) -> list[tir.Stmt]:
    return [tir.Evaluate(tir.call_intrin("handle", tvm.ir.Op.get("tl.sync_grid")))]


def work(number: int) -> tir.Stmt:
    return tir.Evaluate(tir.call_extern("handle", "work", tir.IntImm("int32", number)))


def lowered(guarded: tuple[str, ...], state: str = "launch", blocks: int = 4, watchdog: tuple = ()) -> MakeBarrier:
    """The barrier that the pass has to emit, with a guard on the axes ``guarded``, in a grid of ``blocks`` (0: not known).

    ``watchdog`` is the time limit in milliseconds and the kernel's name, or empty.
    """

    def make(axes: dict[str, tir.Var]) -> list[tir.Stmt]:
        arguments = [tir.StringImm(state), tir.IntImm("int32", blocks)]
        if watchdog:
            arguments += [tir.IntImm("int32", watchdog[0]), tir.StringImm(watchdog[1])]
        call = tir.Evaluate(tir.call_extern("handle", "tl_gridsync::arrive_and_wait", *arguments))
        if not guarded:
            return [block_sync(), call, block_sync()]
        condition = tir.EQ(axes[guarded[0]], tir.IntImm("int32", 0))
        for axis in guarded[1:]:
            condition = tir.And(condition, tir.EQ(axes[axis], tir.IntImm("int32", 0)))
        return [block_sync(), tir.IfThenElse(condition, call, None), block_sync()]

    return make


def function(
    statements: list, extents: Extents, make_barrier: MakeBarrier = sync_grid, name: str = "kernel", grid: Extents = GRID
) -> tir.PrimFunc:
    """A device function of ``statements``: numbers (work), BARRIER, or tuples of a kind and its nested statements.

    The kinds are ("serial" | "unrolled", trip count, body), ("if", body), ("if else", body, other body) and
    ("attr", body).
    """
    # Conditions are on a parameter: uniform, as a condition around a barrier has to be.
    flag = tir.Var("flag", "int32")
    parameters = [flag]
    launch = []
    axes = {}
    for tag, extent in {**grid, **extents}.items():
        axes[tag] = tir.Var(tag.replace("Idx.", ""), "int32")
        if extent is None:
            parameters.append(tir.Var(f"extent_of_{axes[tag].name}", "int32"))
        launch.append((tag, axes[tag], parameters[-1] if extent is None else tir.IntImm("int32", extent)))
    block = axes["blockIdx.x"]

    def body(nested: list) -> tir.Stmt:
        made = [stmt for entry in nested for stmt in one(entry)]
        return made[0] if len(made) == 1 else tir.SeqStmt(made)

    def one(entry) -> list[tir.Stmt]:
        if entry == BARRIER:
            return make_barrier(axes)
        if isinstance(entry, int):
            return [work(entry)]
        kind, *rest = entry
        if kind in ("serial", "unrolled"):
            loop = tir.ForKind.SERIAL if kind == "serial" else tir.ForKind.UNROLLED
            return [tir.For(tir.Var("i", "int32"), 0, rest[0], loop, body(rest[1]))]
        if kind == "attr":
            return [tir.AttrStmt(block, "pragma_of_somebody", 1, body(rest[0]))]
        return [tir.IfThenElse(tir.LT(flag, tir.IntImm("int32", 2)), body(rest[0]), body(rest[1]) if kind == "if else" else None)]

    stmt = body(statements)
    for tag, var, extent in reversed(launch):
        iter_var = tir.IterVar(None, var, tir.IterVar.ThreadIndex, tag)
        stmt = tir.AttrStmt(iter_var, "thread_extent", extent, stmt)
    return tir.PrimFunc(parameters, stmt).with_attr("global_symbol", name)


def module(*functions: tir.PrimFunc) -> tvm.IRModule:
    return tvm.IRModule({str(f.attrs["global_symbol"]): f for f in functions})
