"""The kernel that is nothing but grid barriers."""

import tilelang.language as T


def barrier_loop(blocks: int | None, threads: int | tuple[int, ...]):
    """``barriers`` grid barriers in one launch, with a store of every thread before each where ``stores`` is not 0.

    Both are run-time values. The loop takes few registers a thread, so that grids of as many blocks as a
    multiprocessor has room for are resident. Shapes: ``data`` is int32[blocks, threads in a block].
    ``blocks=None`` makes the grid's size a run-time value too.
    """
    width = width_of(threads)
    rows = T.dynamic("rows") if blocks is None else blocks

    @T.prim_func
    def barrier_loop(data: T.Tensor((rows, width), "int32"), barriers: T.int32, stores: T.int32):
        with T.Kernel(rows, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            for i in T.serial(barriers):
                if stores > 0:
                    data[bx, tx + 32 * ty if width != threads else tx] = i
                T.sync_grid()
            if tx == 0:
                data[bx, 0] = barriers

    return barrier_loop


def width_of(threads: int | tuple[int, ...]) -> int:
    return threads if isinstance(threads, int) else threads[0] * threads[1]
