"""The kernel that is nothing but grid barriers."""

from __future__ import annotations

import tilelang.language as T


def barrier_loop(blocks: int | None, threads: int | tuple[int, ...]):
    """``barriers`` grid barriers in one launch, with ``stores`` stores of every thread before each of them.

    Both are run-time values, and the loop over the stores also keeps compilers from unrolling the outer one
    into more code than the instruction cache holds, which no loop with work in it would be. Shapes:
    ``data`` is int32[blocks, threads in a block]. ``blocks=None`` makes the grid's size a run-time value too.
    """
    width = width_of(threads)
    rows = T.dynamic("rows") if blocks is None else blocks

    @T.prim_func
    def barrier_loop(data: T.Tensor((rows, width), "int32"), barriers: T.int32, stores: T.int32):
        with T.Kernel(rows, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            for i in T.serial(barriers):
                for j in T.serial(stores):
                    data[bx, ((tx + 32 * ty if width != threads else tx) + j) % width] = i
                T.sync_grid()
            if tx == 0:
                data[bx, 0] = barriers

    return barrier_loop


def width_of(threads: int | tuple[int, ...]) -> int:
    return threads if isinstance(threads, int) else threads[0] * threads[1]
