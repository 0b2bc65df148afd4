"""Random structured device functions, as hypothesis strategies."""

from __future__ import annotations

from hypothesis import strategies as st
from verify_catalogue import grid_barrier

from tl_gridsync_pass.tvm_compat import tir, tir_op, tvm

THREADS = 4
BLOCKS = 3
ELEMENTS = 4


def const(value: int) -> tir.IntImm:
    return tir.IntImm("int32", value)


class Names:
    """The variables and buffers of one generated function."""

    def __init__(self) -> None:
        self.tx, self.bx = tir.Var("tx", "int32"), tir.Var("bx", "int32")
        self.n, self.m = tir.Var("n", "int32"), tir.Var("m", "int32")
        self.read_only = self._global("A")
        self.written = self._global("G")
        self.shared = tir.decl_buffer((ELEMENTS,), "int32", "S", scope="shared.dyn")
        self.x = tir.decl_buffer((1,), "int32", "x", scope="local.var")
        self.y = tir.decl_buffer((1,), "int32", "y", scope="local.var")
        self.array = tir.decl_buffer((2,), "int32", "array", scope="local")

    @staticmethod
    def _global(name: str) -> tir.Buffer:
        pointer = tir.Var(name, tvm.ir.PointerType(tvm.ir.PrimType("int32"), "global"))
        return tir.decl_buffer((ELEMENTS,), "int32", name, data=pointer)

    def function(self, body: tir.Stmt) -> tir.PrimFunc:
        zeros = [tir.BufferStore(self.array, const(0), [const(i)]) for i in range(2)]
        zeros += [tir.BufferStore(self.shared, const(0), [const(i)]) for i in range(ELEMENTS)]
        stmt = tir.SeqStmt([*(tir.AllocBuffer(b) for b in (self.shared, self.x, self.y, self.array)), *zeros, block_barrier(), body])
        for var, tag, extent in ((self.tx, "threadIdx.x", THREADS), (self.bx, "blockIdx.x", BLOCKS)):
            domain = tvm.ir.Range.from_min_extent(0, extent)
            stmt = tir.AttrStmt(tir.IterVar(domain, var, tir.IterVar.ThreadIndex, tag), "thread_extent", const(extent), stmt)
        params = [self.read_only.data, self.written.data, self.n, self.m]
        return tir.PrimFunc(params, stmt).with_attr("global_symbol", "generated")


def block_barrier() -> tir.Stmt:
    return tir.Evaluate(tir.Call("int32", tir_op("tvm_storage_sync"), [tir.StringImm("shared")]))


@st.composite
def integers(draw, names: Names, loops: tuple, leaves: str, depth: int = 2):
    """An int32 expression; ``leaves`` is ``"any"``, or ``"uniform"`` for what is the same in all threads."""
    if depth == 0 or draw(st.integers(0, 2)) == 0:
        choices = ["constant", "n", "m", "read", *(["loop"] if loops else [])]
        if leaves == "any":
            choices += ["tx", "tx", "bx", "bx", "x", "y", "array", "read_any", "shared", "written"]
        else:
            choices += ["tx//4", "bx%1", "tx-tx"]
        kind = draw(st.sampled_from(choices))
        index = lambda: draw(integers(names, loops, leaves, 0)) % const(ELEMENTS)  # noqa: E731
        return {
            "constant": lambda: const(draw(st.integers(0, 4))),
            "n": lambda: names.n,
            "m": lambda: names.m,
            "loop": lambda: draw(st.sampled_from(loops)),
            "tx": lambda: names.tx,
            "bx": lambda: names.bx,
            "tx//4": lambda: tir.FloorDiv(names.tx, const(THREADS)),
            "bx%1": lambda: tir.FloorMod(names.bx * const(2), const(2)),
            "tx-tx": lambda: (names.tx + names.n) - names.tx,
            "x": lambda: tir.BufferLoad(names.x, [const(0)]),
            "y": lambda: tir.BufferLoad(names.y, [const(0)]),
            "array": lambda: tir.BufferLoad(names.array, [index() % const(2)]),
            "read": lambda: tir.BufferLoad(names.read_only, [const(draw(st.integers(0, ELEMENTS - 1)))]),
            "read_any": lambda: tir.BufferLoad(names.read_only, [index()]),
            "shared": lambda: tir.BufferLoad(names.shared, [index()]),
            "written": lambda: tir.BufferLoad(names.written, [index()]),
        }[kind]()
    a, b = (draw(integers(names, loops, leaves, depth - 1)) for _ in range(2))
    operation = draw(st.sampled_from(["+", "-", "*", "//", "%", "min", "select", "shift", "and"]))
    return {
        "+": lambda: a + b,
        "-": lambda: a - b,
        "*": lambda: a * b,
        "//": lambda: tir.FloorDiv(a, const(draw(st.integers(1, 4)))),
        "%": lambda: tir.FloorMod(a, const(draw(st.integers(1, 4)))),
        "min": lambda: tir.Min(a, b),
        "select": lambda: tir.Select(tir.LT(a, b), a, const(1)),
        "shift": lambda: tir.shift_right(a, const(1)),
        "and": lambda: tir.bitwise_and(a, const(3)),
    }[operation]()


@st.composite
def conditions(draw, names: Names, loops: tuple, leaves: str):
    a, b = (draw(integers(names, loops, leaves, 1)) for _ in range(2))
    comparison = draw(st.sampled_from([tir.EQ, tir.NE, tir.LT, tir.LE, tir.GT, tir.GE]))(a, b)
    if draw(st.integers(0, 3)) == 0:
        other = draw(conditions(names, loops, leaves))
        comparison = draw(st.sampled_from([tir.And, tir.Or]))(comparison, other)
    return tir.Not(comparison) if draw(st.integers(0, 5)) == 0 else comparison


@st.composite
def statements(draw, names: Names, loops: tuple = (), leaves: str = "any", depth: int = 3, divergent_work: bool = True):
    """A statement.

    With ``leaves="uniform"`` everything that decides about a barrier is the same in all threads. With
    ``divergent_work`` there are also branches and loops of single threads, without barriers or exits.
    """
    kinds = ["barrier", "barrier", "store x", "store shared", "store global", "block barrier", "sequence", "sequence"]
    if depth > 0:
        kinds += ["sequence", "if", "if else", "for", "while", "exit"]
        if leaves == "uniform" and divergent_work:
            kinds += ["work"]
    kind = draw(st.sampled_from(kinds))

    def inner(more: tuple = ()):
        return draw(statements(names, (*loops, *more), leaves, depth - 1, divergent_work))

    def index():
        return draw(integers(names, loops, "any", 1)) % const(ELEMENTS)

    if kind == "barrier":
        return grid_barrier()
    if kind == "block barrier":
        return block_barrier() if leaves == "any" else grid_barrier()
    if kind == "store x":
        target = draw(st.sampled_from([(names.x, 0), (names.y, 0), (names.array, 0), (names.array, 1)]))
        return tir.BufferStore(target[0], draw(integers(names, loops, leaves)), [const(target[1])])
    if kind == "store shared":
        return tir.BufferStore(names.shared, draw(integers(names, loops, "any")), [index()])
    if kind == "store global":
        return tir.BufferStore(names.written, draw(integers(names, loops, "any")), [index()])
    if kind == "sequence":
        return tir.SeqStmt(
            [draw(statements(names, loops, leaves, depth - 1 if depth else 0, divergent_work)) for _ in range(2)]
            if depth
            else [grid_barrier(), block_barrier()]
        )
    if kind == "if":
        return tir.IfThenElse(draw(conditions(names, loops, leaves)), inner(), None)
    if kind == "if else":
        return tir.IfThenElse(draw(conditions(names, loops, leaves)), inner(), inner())
    if kind == "work":
        lane = tir.Var("lane", "int32")
        body = tir.BufferStore(names.written, names.tx, [lane % const(ELEMENTS)])
        return tir.IfThenElse(tir.LT(names.tx, names.bx), tir.For(lane, const(0), names.tx, tir.ForKind.SERIAL, body), None)
    if kind == "exit":
        exits = [tir.op.thread_return] + ([tir.op.break_loop, tir.op.continue_loop] if loops else [])
        leave = tir.Evaluate(draw(st.sampled_from(exits))())
        return tir.IfThenElse(draw(conditions(names, loops, leaves)), leave, None)
    if kind == "while":
        # Counts down a variable of its own, so that it ends.
        count = tir.decl_buffer((1,), "int32", "count", scope="local.var")
        left = tir.BufferLoad(count, [const(0)])
        step = tir.BufferStore(count, left - const(1), [const(0)])
        start = tir.BufferStore(count, tir.FloorMod(draw(integers(names, loops, leaves, 1)), const(4)), [const(0)])
        return tir.SeqStmt([tir.AllocBuffer(count), start, tir.While(tir.GT(left, const(0)), tir.SeqStmt([step, inner((left,))]))])
    i = tir.Var("i", "int32")
    extent = tir.FloorMod(draw(integers(names, loops, leaves, 1)), const(4))
    return tir.For(i, const(0), extent, tir.ForKind.SERIAL, inner((i,)))


@st.composite
def functions(draw, leaves: str = "any") -> tir.PrimFunc:
    """A whole device function with parameters A and G (int32[4] in global memory), n and m (int32)."""
    names = Names()
    count = draw(st.integers(1, 3))
    return names.function(tir.SeqStmt([*(draw(statements(names, leaves=leaves)) for _ in range(count)), grid_barrier()]))
