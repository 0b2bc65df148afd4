"""Grid barriers that TileLang's warp specialisation left to the consumers come back out to all threads."""

import pytest
import tilelang
import tilelang.language as T
from generated_kernels import const
from grid_interpreter import run
from kernels import CAST_IN_LOOP, CUTEDSL, PIPELINE_IN_LOOP, needs_warp_specialisation, skipping_where
from verify_catalogue import CASES, device_function, grid_barrier

import tl_gridsync_pass as gs
from tl_gridsync_pass.seams import offline
from tl_gridsync_pass.seams.device_ir import device_module
from tl_gridsync_pass.tvm_compat import tir, tvm
from tl_gridsync_pass.verify import find
from tl_gridsync_pass.warp_specialized import rejoin

THREADS, PRODUCERS, BLOCKS = 6, 2, 3


def kernel(name: str):
    return next(case.func for case in CASES if case.name == name)


class Specialised:
    """A device function whose threads from PRODUCERS on are consumers, made by hand."""

    def __init__(self) -> None:
        pointer = tir.Var("G", tvm.ir.PointerType(tvm.ir.PrimType("int32"), "global"))
        self.memory = tir.decl_buffer((64,), "int32", "G", data=pointer)

    def store(self, index, value) -> tir.Stmt:
        return tir.BufferStore(self.memory, value, [index])

    def load(self, index) -> tir.PrimExpr:
        return tir.BufferLoad(self.memory, [index])

    def module(self, consumers, otherwise: bool = True) -> tvm.IRModule:
        """``consumers`` takes the thread and block index; with ``otherwise`` it is the else branch of the producers'."""

        def body(tx, bx):
            mine = self.store(const(40) + bx * const(THREADS) + tx, const(7))
            is_producer = tir.LT(tx, const(PRODUCERS))
            if otherwise:
                branch = tir.IfThenElse(is_producer, mine, consumers(tx, bx))
            else:
                branch = tir.SeqStmt(
                    [tir.IfThenElse(is_producer, mine, None), tir.IfThenElse(tir.LE(const(PRODUCERS), tx), consumers(tx, bx), None)]
                )
            counts = [const(PRODUCERS), const(THREADS - PRODUCERS)]
            return tir.AttrStmt(tvm.runtime.convert(counts), "kWarpSpecializationScope", const(0), branch)

        func = device_function("by_hand", body, [self.memory.data], threads=THREADS, blocks=BLOCKS)
        return tvm.IRModule({"by_hand": func})


def launch(mod: tvm.IRModule, seed: int = 0):
    (func,) = mod.functions.values()
    return run(func, {"G": [0] * 64}, {}, seed)


def first(tx):
    return tir.EQ(tx, const(PRODUCERS))


@pytest.mark.parametrize("otherwise", [True, False], ids=["else branch", "branch of its own"])
def test_data_crosses_barriers_brought_out_of_the_branch(otherwise):
    made = Specialised()

    def consumers(tx, bx):
        doubled = made.load(const(0)) + made.load(const(1)) + made.load(const(2))
        summed = tir.IfThenElse(first(tx), made.store(const(10) + bx, doubled), None)
        again = tir.IfThenElse(first(tx), made.store(const(20) + bx, made.load(const(10)) + made.load(const(12))), None)
        mine = tir.IfThenElse(first(tx), made.store(bx, bx + const(1)), None)
        return tir.SeqStmt([mine, grid_barrier(), summed, grid_barrier(), again])

    before = made.module(consumers, otherwise)
    after = rejoin(before)
    assert launch(before).diverges
    assert [d.rule.name for d in find(before)] == ["block-divergent"] * 2
    assert find(after) == []
    for seed in range(5):
        outcome = launch(after, seed)
        assert not outcome.diverges
        assert [outcome.memory["G"][10 + b] for b in range(BLOCKS)] == [6] * BLOCKS
        assert [outcome.memory["G"][20 + b] for b in range(BLOCKS)] == [12] * BLOCKS
        # The producers' own work was done once, and the consumers' not by them.
        assert [outcome.memory["G"].get(40 + t) for t in range(THREADS)] == [7, 7, 0, 0, 0, 0]


def test_a_barrier_in_a_loop_of_the_consumers_takes_the_loop_with_it():
    made = Specialised()
    i = tir.Var("i", "int32")

    def consumers(tx, bx):
        # Every block doubles its neighbour's number, three times.
        neighbour = tir.FloorMod(bx + const(1), const(BLOCKS))
        read = tir.IfThenElse(first(tx), made.store(const(10) + bx, made.load(neighbour) * const(2)), None)
        write = tir.IfThenElse(first(tx), made.store(bx, made.load(const(10) + bx)), None)
        start = tir.IfThenElse(first(tx), made.store(bx, bx + const(1)), None)
        loop = tir.For(i, const(0), const(3), tir.ForKind.SERIAL, tir.SeqStmt([read, grid_barrier(), write, grid_barrier()]))
        return tir.SeqStmt([start, grid_barrier(), loop])

    after = rejoin(made.module(consumers))
    assert find(after) == []
    outcome = launch(after)
    assert not outcome.diverges
    assert [outcome.memory["G"][b] for b in range(BLOCKS)] == [8, 16, 24]


@pytest.mark.skipif(not hasattr(tir, "Bind"), reason="TileLang 0.1.9 binds a variable around a body, and not before what follows")
def test_a_value_that_only_consumers_can_compute_is_still_refused():
    made = Specialised()
    x = tir.Var("x", "int32")

    def consumers(_tx, bx):
        bind = tir.Bind(x, made.load(bx))
        return tir.SeqStmt([bind, tir.For(tir.Var("i", "int32"), const(0), x, tir.ForKind.SERIAL, grid_barrier())])

    assert find(rejoin(made.module(consumers))) != []


def test_a_barrier_in_a_while_of_the_consumers_is_an_error():
    made = Specialised()
    with pytest.raises(gs.GridSyncLoweringError, match="TL_DISABLE_WARP_SPECIALIZED"):
        rejoin(made.module(lambda _tx, bx: tir.While(tir.LT(made.load(bx), const(3)), grid_barrier())))


@needs_warp_specialisation
def test_tilelang_leaves_the_barrier_to_the_consumers_and_it_comes_back():
    with skipping_where(*CAST_IN_LOOP), skipping_where(*PIPELINE_IN_LOOP):
        mod = device_module(kernel("barrier_between_layers"), CUTEDSL)
    assert [d.rule.name for d in find(mod)] == ["block-divergent"]
    assert find(rejoin(mod)) == []


def test_the_users_own_branches_stay():
    mod = device_module(kernel("one_side_of_warp_specialisation"), CUTEDSL)
    assert rejoin(mod).same_as(mod)


def test_a_kernel_with_the_barrier_outside_is_left_alone():
    mod = device_module(kernel("split_then_combine"), CUTEDSL)
    assert rejoin(mod).same_as(mod)


@needs_warp_specialisation
def test_a_warp_specialised_kernel_compiles_to_a_cubin():
    with skipping_where(*CAST_IN_LOOP), skipping_where(*PIPELINE_IN_LOOP):
        built = tilelang.compile(kernel("barrier_between_layers"), target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    lines = built.get_kernel_source().splitlines()
    barrier = next(i for i, line in enumerate(lines) if "tl_gridsync.arrive_and_wait" in line)
    loop = next(line for line in lines if line.lstrip().startswith("for ") and "range(8)" in line)
    # Directly inside the loop over layers, under nothing but the leader's guard.
    assert _indent(lines[barrier - 1]) == _indent(loop) + 2
    assert "threadIdx.x == 0" in lines[barrier - 1]
    assert offline.cubin_of(built).stat().st_size > 0


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def test_a_barrier_inside_the_pipelined_loop_itself_is_refused():
    """The producers' loads would run ahead of it, and the consumers would wait at it for producers that wait for them."""

    @T.prim_func
    def pipelined(A: T.Tensor((64, 256), "float16"), B: T.Tensor((256, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(2, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(A[0, k * 64], a)
                T.copy(B[k * 64, 0], b)
                T.gemm(a, b, c)
                T.sync_grid()
            T.copy(c, C)

    with pytest.raises(
        gs.GridSyncLoweringError, match=r"'pipelined_kernel' has a T.sync_grid\(\) inside a loop whose loads .* T.Pipelined"
    ):
        tilelang.compile(pipelined, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
