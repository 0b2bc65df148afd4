"""Small kernels, each with what the verification must say about its grid barriers.

A case's verdict is the worst finding: ``"clean"``, or the name of a rule. ``truth`` says what really
happens, for the interpreter to confirm: ``"same"`` (all threads reach every barrier equally often, for
every input), ``"differs"`` (for some input they do not), or None where the interpreter cannot run the kernel.
"""

from dataclasses import dataclass
from typing import Any

import tilelang.language as T

from tl_gridsync_pass.tvm_compat import tir, tvm

SIZE = 512
BLOCKS = 4
THREADS = 128

CLEAN = "clean"
BLOCK = "block-divergent"
GRID = "grid-divergent"
DATA = "not-provably-uniform"


@dataclass(frozen=True, eq=False)
class Case:
    name: str
    func: Any
    verdict: str
    truth: str | None


CASES: list[Case] = []


def case(verdict: str, truth: str | None = ""):
    """Register a kernel; ``truth`` follows from the verdict where it is not given."""
    if truth == "":
        truth = "same" if verdict == CLEAN else "differs"

    def register(func):
        CASES.append(Case(str(func.attrs["global_symbol"]), func, verdict, truth))
        return func

    return register


# Barriers that every thread reaches


@case(CLEAN)
@T.prim_func
def straight(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx * THREADS + tx] = n
        T.sync_grid()
        B[bx * THREADS + tx] = A[tx]


@case(CLEAN)
@T.prim_func
def in_a_constant_loop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(5):
            A[bx * THREADS + tx] = i
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def in_a_loop_of_n(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(T.ceildiv(n, 3)):
            A[bx * THREADS + tx] = i
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def under_a_scalar_argument(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if n > 2:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def in_both_branches_of_a_uniform_condition(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if n > 2:
            T.sync_grid()
            B[bx] = A[0]
        else:
            B[bx] = 1
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def thread_index_divided_away(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if tx // 1024 == 0:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def block_index_divided_away(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        for _i in T.serial(bx // BLOCKS + 2):
            A[bx] = 2
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def true_for_every_index(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if bx * THREADS + tx < SIZE:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def proved_with_a_mask_and_a_shift(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if (tx & 127) >> 7 == 0 and n > 0:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def only_evaluation_proves_it(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if (tx & 85) + (tx & 42) == tx:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def trip_count_the_same_for_every_block(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(bx, 16, BLOCKS):
            A[i] = 1
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def waves_with_a_guarded_tail(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for w in T.serial(T.ceildiv(10, BLOCKS)):
            tile = w * BLOCKS + bx
            if tile < 10:
                A[tile] = w
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def divergent_work_beside_it(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        if tx == 0:
            A[bx] = 1
        for i in T.serial(tx):
            B[i] = bx
        T.sync_grid()
        if bx == 0:
            B[tx] = A[0]


@case(CLEAN)
@T.prim_func
def in_a_parallel_loop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.Parallel(THREADS):
            A[bx * THREADS + i] = 1
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def uniform_variable(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        x = T.alloc_var("int32")
        x = n * 2
        A[bx] = x
        if x > 4:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def variable_set_anew(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = tx
        A[bx * THREADS + tx] = x
        x = 3
        if x > 2:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def variable_that_is_uniform_by_arithmetic(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = tx // 200
        A[bx] = n
        if x == 0:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def counting_while(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        x = T.alloc_var("int32")
        x = 0
        while x < n:
            x = x + 1
            A[bx] = x
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def uniform_break(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(10):
            if i == n:
                break
            A[bx] = i
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def uniform_continue(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(6):
            A[bx] = i
            if i == n:
                continue
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def uniform_return(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if n == 0:
            T.thread_return()
        T.sync_grid()


@case(CLEAN)
@T.prim_func
def divergent_return_behind_it(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        T.sync_grid()
        if tx > 3:
            T.thread_return()
        B[bx] = A[0]


@case(CLEAN)
@T.prim_func
def divergent_break_of_an_inner_loop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for _ in T.serial(3):
            for j in T.serial(10):
                if j > tx:
                    break
                A[bx * THREADS + tx] = j
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def read_only_argument_at_one_place(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        B[bx] = 1
        if A[3] > 0:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def trip_count_from_a_read_only_argument(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(A[0]):
            B[bx] = i
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def written_before_the_last_barrier(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        if bx == 1 and tx == 0:
            A[0] = n
        T.sync_grid()
        if A[0] > 2:
            B[bx] = 1
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def flag_decides_when_to_stop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = 1
        while x > 0:
            T.sync_grid()
            if bx == 0 and tx == 0:
                A[0] = A[0] // 2
            T.sync_grid()
            x = A[0]


@case(CLEAN)
@T.prim_func
def broadcast_through_shared_memory(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((1,), "int32")
        if tx == 0:
            s[0] = A[0] + n
        T.sync_threads()
        B[bx] = 1
        if s[0] > 2:
            T.sync_grid()


@case(CLEAN, None)
@T.prim_func
def decision_by_one_word_of_all_blocks(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        if tx == 0:
            T.atomic_max(A[0], B[bx])
        T.sync_grid()
        if A[0] > n:
            B[bx] = 1
            T.sync_grid()


@case(CLEAN, None)
@T.prim_func
def one_warp_asks_for_its_number(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=32) as bx:
        A[bx] = 1
        if T.get_warp_idx() == 0:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def one_block(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(1, threads=THREADS) as bx:
        A[bx] = 1
        for _i in T.serial(bx + 2):
            A[bx] = n
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def several_dimensions(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(2, 2, threads=(16, 4)) as (bx, by):
        tx = T.get_thread_binding(0)
        ty = T.get_thread_binding(1)
        A[(by * 2 + bx) * 64 + ty * 16 + tx] = n
        if ty * 16 + tx < 64 and by * 2 + bx < 4:
            T.sync_grid()


@case(CLEAN, None)
@T.prim_func
def persistent_with_full_waves(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i, j in T.Persistent([4, 4], BLOCKS, bx):
            A[i * 4 + j] = 1
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def select_of_uniform_values(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if T.if_then_else(n > 3, 1, 2) == 1:
            T.sync_grid()


# Barriers that the threads of a block reach differently


@case(BLOCK)
@T.prim_func
def under_thread_zero(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if tx == 0:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def under_one_warp(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if tx // 32 == 1:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def under_a_warp_number(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if T.get_warp_idx() == 0:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def under_a_lane_number(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if T.get_lane_idx() < 16:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def under_an_elected_thread(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if T.shuffle_elect(0):
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def in_both_branches_of_a_thread_condition(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        if tx < 64:
            A[bx] = 1
            T.sync_grid()
        else:
            B[bx] = 1
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def second_thread_dimension(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=(32, 4)) as bx:
        ty = T.get_thread_binding(1)
        A[bx] = 1
        if ty == 0:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def trip_count_of_the_thread(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(tx + n):
            A[bx] = i
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def grid_stride_loop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(bx * THREADS + tx, n, BLOCKS * THREADS):
            A[i] = 1
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def compared_with_an_argument(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if tx < n:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def while_of_the_thread(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = tx
        while x < 4:
            x = x + 1
            A[bx] = x
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def through_a_variable(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = tx % 2
        A[bx] = n
        if x == 0:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def through_a_variable_set_under_a_condition(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = 0
        if tx < 10:
            x = 1
        A[bx] = 1
        if x == 1:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def through_a_counter(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = 0
        for _i in T.serial(tx % 3):
            x = x + 1
        A[bx] = 1
        if x == 2:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def through_a_loop_left_at_different_times(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = 0
        for i in T.serial(8):
            if i >= tx:
                break
            x = x + 1
        A[bx] = 1
        if x == 3:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def through_an_array(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_local((2,), "int32")
        x[0] = n
        x[1] = tx
        A[bx] = 1
        if x[1] == 0:
            T.sync_grid()


@case(CLEAN)
@T.prim_func
def the_other_element_of_an_array(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_local((2,), "int32")
        x[0] = n
        x[1] = tx
        A[bx * THREADS + tx] = x[1]
        if x[0] == 0:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def after_a_thread_returned(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if tx >= 64:
            T.thread_return()
        T.sync_grid()


@case(BLOCK)
@T.prim_func
def after_a_break(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(10):
            A[bx] = i
            if i == tx:
                break
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def before_a_break(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(10):
            A[bx] = i
            T.sync_grid()
            if i == tx:
                break


@case(BLOCK)
@T.prim_func
def after_a_continue(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(4):
            A[bx] = i
            if tx == 5:
                continue
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def uniform_break_that_some_skipped(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(4):
            A[bx] = i
            T.sync_grid()
            if tx + i == 0:
                continue
            if i == 0:
                break


@case(CLEAN)
@T.prim_func
def before_a_continue(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        for i in T.serial(4):
            A[bx] = i
            T.sync_grid()
            if tx == 5:
                continue
            B[bx] = i


@case(BLOCK)
@T.prim_func
def one_side_of_warp_specialisation(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=256) as bx:
        with T.ws(0):
            A[bx] = 1
            T.sync_grid()
        with T.ws(1):
            B[bx] = 1


@case(BLOCK)
@T.prim_func
def nested_in_a_uniform_condition(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if n > 0:
            for _i in T.serial(n):
                if tx > 3:
                    T.sync_grid()


@case(BLOCK)
@T.prim_func
def select_on_the_thread(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if T.if_then_else(tx < 4, 1, 2) == 1:
            T.sync_grid()


# Barriers that the blocks of the grid reach differently


@case(GRID)
@T.prim_func
def under_block_zero(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        A[bx] = 1
        if bx == 0:
            T.sync_grid()


@case(GRID)
@T.prim_func
def in_both_branches_of_a_block_condition(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        if bx < 2:
            A[bx] = 1
            T.sync_grid()
        else:
            B[bx] = 1
            T.sync_grid()


@case(GRID)
@T.prim_func
def second_grid_dimension(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(2, 2, threads=THREADS) as (bx, by):
        A[bx] = 1
        if by > 0:
            T.sync_grid()


@case(GRID)
@T.prim_func
def trip_count_of_the_block(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(bx + 1):
            A[bx] = i
            T.sync_grid()


@case(GRID)
@T.prim_func
def tail_of_a_strided_loop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(bx, 10, BLOCKS):
            A[i] = 1
            T.sync_grid()


@case(GRID)
@T.prim_func
def strided_loop_over_an_unknown_number(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(bx, n, BLOCKS):
            A[i] = 1
            T.sync_grid()


@case(GRID, None)
@T.prim_func
def tail_of_a_persistent_loop(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i, j in T.Persistent([10, 3], BLOCKS, bx):
            A[i * 3 + j] = 1
            T.sync_grid()


@case(GRID)
@T.prim_func
def inside_the_guard_of_the_tail(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for w in T.serial(T.ceildiv(10, BLOCKS)):
            if w * BLOCKS + bx < 10:
                A[w * BLOCKS + bx] = w
                T.sync_grid()


@case(GRID)
@T.prim_func
def while_tiles_are_left(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tile = T.alloc_var("int32")
        tile = bx
        while tile < 10:
            A[tile] = 1
            T.sync_grid()
            tile = tile + BLOCKS


@case(GRID)
@T.prim_func
def after_a_block_returned(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        if bx >= n:
            T.thread_return()
        A[bx] = 1
        T.sync_grid()


@case(GRID)
@T.prim_func
def after_a_break_of_the_block(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(8):
            if i * BLOCKS + bx >= 10:
                break
            A[i * BLOCKS + bx] = 1
            T.sync_grid()


@case(GRID)
@T.prim_func
def block_number_through_shared_memory(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((1,), "int32")
        if tx == 0:
            s[0] = bx
        T.sync_threads()
        A[bx] = 1
        if s[0] == 0:
            T.sync_grid()


@case(BLOCK)
@T.prim_func
def global_thread_number(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        A[bx] = 1
        if bx * THREADS + tx < 300:
            T.sync_grid()


# Barriers that depend on data


@case(DATA)
@T.prim_func
def data_of_the_thread(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        B[bx] = 1
        if A[tx] > 0:
            T.sync_grid()


@case(DATA)
@T.prim_func
def data_of_the_block(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(A[bx]):
            B[bx] = i
            T.sync_grid()


@case(DATA)
@T.prim_func
def data_of_the_block_through_shared_memory(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        s = T.alloc_shared((1,), "int32")
        if tx == 0:
            s[0] = A[bx]
        T.sync_threads()
        B[bx] = 1
        if s[0] > 0:
            T.sync_grid()


@case(DATA)
@T.prim_func
def written_since_the_last_barrier(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        T.sync_grid()
        if bx == 0 and tx == 0:
            A[0] = A[1] + 1
        if A[0] > 2:
            T.sync_grid()


@case(DATA)
@T.prim_func
def written_too_soon_after_the_read(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        x = T.alloc_var("int32")
        x = A[0]
        if bx == 0 and tx == 0:
            A[0] = n
        B[bx] = 1
        if x > 0:
            T.sync_grid()


@case(DATA)
@T.prim_func
def break_on_data(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        for i in T.serial(4):
            if A[bx * 4 + i] > 0:
                break
            B[bx] = i
            T.sync_grid()


@case(DATA, None)
@T.prim_func
def vote_of_a_warp(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        tx = T.get_thread_binding()
        B[bx] = 1
        if T.any_sync(A[tx]):
            T.sync_grid()


@case(DATA, None)
@T.prim_func
def ticket_of_an_atomic(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        x = T.alloc_var("int32")
        x = T.atomic_add(A[0], 1, return_prev=True)
        B[bx] = x
        if x < 100:
            T.sync_grid()


@case(DATA, None)
@T.prim_func
def reduction_over_the_block(A: T.Tensor((SIZE,), "int32"), B: T.Tensor((SIZE,), "int32"), n: T.int32):
    with T.Kernel(BLOCKS, threads=THREADS) as bx:
        f = T.alloc_fragment((THREADS,), "int32")
        r = T.alloc_fragment((1,), "int32")
        T.copy(A[bx * THREADS : (bx + 1) * THREADS], f)
        T.reduce_max(f, r)
        B[bx] = r[0]
        if r[0] > 4:
            T.sync_grid()


# Kernels of the shapes that people write


@case(CLEAN, None)
@T.prim_func
def routing_table(
    tokens: T.Tensor((T.dynamic("count"),), "int64"),
    place: T.Tensor((T.dynamic("count"),), "int32"),
    counts: T.Tensor((BLOCKS, 32), "int32"),
):
    # Count by expert in shared memory, publish a row a block, and place the tokens by the sums of all rows.
    with T.Kernel(BLOCKS, threads=256) as bx:
        tx = T.get_thread_binding()
        count = tokens.shape[0]
        mine = T.alloc_shared((32,), "int32")
        before = T.alloc_var("int32", init=0)
        if tx < 32:
            mine[tx] = 0
        T.sync_threads()
        for i in T.serial(bx * 256 + tx, count, BLOCKS * 256):
            expert = T.Cast("int32", tokens[i])
            if expert != -1:
                T.atomic_add(mine[expert], 1)
        T.sync_threads()
        if tx < 32:
            counts[bx, tx] = mine[tx]
        T.sync_grid()
        if tx < 32:
            for b in T.serial(BLOCKS):
                if b < bx:
                    before += counts[b, tx]
            mine[tx] = before
        T.sync_threads()
        for i in T.serial(bx * 256 + tx, count, BLOCKS * 256):
            place[i] = mine[T.Cast("int32", tokens[i])]


@case(CLEAN, None)
@T.prim_func
def split_then_combine(X: T.Tensor((16, 64), "float32"), partial: T.Tensor((16, 64), "float32"), out: T.Tensor((16,), "float32")):
    # Persistent waves over tiles, a barrier, and waves over the rows that combine what the tiles left.
    with T.Kernel(6, threads=128) as bx:
        T.use_swizzle(4)
        acc = T.alloc_fragment((64,), "float32")
        total = T.alloc_fragment((1,), "float32")
        for w in T.serial(T.ceildiv(16, 6)):
            tile = w * 6 + bx
            if tile < 16:
                T.copy(X[tile, :], acc)
                for i in T.Parallel(64):
                    acc[i] = T.exp2(acc[i])
                T.copy(acc, partial[tile, :])
        T.sync_grid()
        for w in T.serial(T.ceildiv(16, 6)):
            row = w * 6 + bx
            if row < 16:
                T.copy(partial[row, :], acc)
                T.reduce_sum(acc, total)
                out[row] = total[0]


@case(CLEAN, None)
@T.prim_func
def barrier_between_layers(W: T.Tensor((8, 256, 256), "float16"), X: T.Tensor((9, 128, 256), "float16")):
    # A persistent megakernel; on Hopper TileLang specialises its warps and moves the barrier to one side.
    with T.Kernel(2, threads=128) as bx:
        a = T.alloc_shared((128, 64), "float16")
        b = T.alloc_shared((64, 128), "float16")
        acc = T.alloc_fragment((128, 128), "float32")
        for layer in T.serial(8):
            T.clear(acc)
            for k in T.Pipelined(4, num_stages=2):
                T.copy(X[layer, 0, k * 64], a)
                T.copy(W[layer, k * 64, bx * 128], b)
                T.gemm(a, b, acc)
            T.copy(acc, X[layer + 1, 0, bx * 128])
            T.sync_grid()


# Device functions that the frontend has no words for


def device_function(name: str, body, params=(), threads: int = 8, blocks: int = 3):
    """A function as the code generator sees it; ``body`` takes the thread and the block index."""
    tx, bx = tir.Var("tx", "int32"), tir.Var("bx", "int32")
    stmt = body(tx, bx)
    for var, tag, extent in ((tx, "threadIdx.x", threads), (bx, "blockIdx.x", blocks)):
        domain = tvm.ir.Range.from_min_extent(0, extent)
        axis = tir.IterVar(domain, var, tir.IterVar.ThreadIndex, tag)
        stmt = tir.AttrStmt(axis, "thread_extent", tir.IntImm("int32", extent), stmt)
    return tir.PrimFunc(list(params), stmt).with_attr("global_symbol", name)


def grid_barrier():
    return tir.Evaluate(tir.call_intrin("handle", tvm.ir.Op.get("tl.sync_grid")))


def _infinite_loop_left_by_a_break():
    i = tir.Var("i", "int32")

    def body(tx, _bx):
        leave = tir.IfThenElse(tir.EQ(i, tx % 2 + 1), tir.Evaluate(tir.op.break_loop()), None)
        return tir.For(i, tir.IntImm("int32", 0), tir.IntImm("int32", 9), tir.ForKind.SERIAL, tir.SeqStmt([leave, grid_barrier()]))

    return device_function("left_by_a_break", body)


def _let_expression():
    def body(tx, _bx):
        x = tir.Var("x", "int32")
        return tir.IfThenElse(tir.EQ(tir.Let(x, tx % 4, x * 2), 2), grid_barrier(), None)

    return device_function("let_expression", body)


def _return_from_inside_a_loop():
    i = tir.Var("i", "int32")

    def body(_tx, bx):
        leave = tir.IfThenElse(tir.EQ(i, bx), tir.Evaluate(tir.op.thread_return()), None)
        loop = tir.For(i, tir.IntImm("int32", 0), tir.IntImm("int32", 2), tir.ForKind.SERIAL, leave)
        return tir.SeqStmt([loop, grid_barrier()])

    return device_function("return_from_inside_a_loop", body)


DEVICE_CASES = [
    Case("left_by_a_break", _infinite_loop_left_by_a_break(), BLOCK, "differs"),
    Case("let_expression", _let_expression(), BLOCK, None),
    Case("return_from_inside_a_loop", _return_from_inside_a_loop(), GRID, "differs"),
]
