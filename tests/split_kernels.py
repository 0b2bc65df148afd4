"""Kernels with a split barrier, right and wrong."""

import tilelang.language as T

from tl_gridsync_pass.language import grid_arrive, grid_wait


def split_rounds(blocks: int, threads=(32, 2), rounds: int = 20, work: int = 50, full: bool = False):
    """In each round every block writes its number plus the round, arrives, works on a buffer of its own, waits, and
    reads its right neighbour's. With ``full`` a full barrier ends every round, else two rows of ``board`` take turns.

    Shapes: ``board`` int32[2, blocks], ``own`` and ``sums`` int32[blocks].
    """

    @T.prim_func
    def split_rounds(
        board: T.Tensor((2, blocks), "int32"),
        own: T.Tensor((blocks,), "int32"),
        sums: T.Tensor((blocks,), "int32"),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            leader = T.get_thread_binding(0) + T.get_thread_binding(1)
            total = T.alloc_local((1,), "int32")
            total[0] = 0
            for r in T.serial(rounds):
                if leader == 0:
                    board[r % 2, bx] = bx + r
                grid_arrive()
                if leader == 0:
                    for _ in T.serial(work):
                        own[bx] = own[bx] + 1
                grid_wait()
                if leader == 0:
                    total[0] = total[0] + board[r % 2, (bx + 1) % blocks]
                if full:
                    T.sync_grid()
            if leader == 0:
                sums[bx] = total[0]

    return split_rounds


def dynamic_split(threads: int = 64):
    """out[i] = values[n - 1 - i] through a second buffer and a split barrier; n is a run-time size."""
    n = T.dynamic("n")

    @T.prim_func
    def dynamic_split(values: T.Tensor((n,), "int32"), middle: T.Tensor((n,), "int32"), out: T.Tensor((n,), "int32")):
        with T.Kernel(T.ceildiv(n, threads), threads=threads) as bx:
            tx = T.get_thread_binding(0)
            if bx * threads + tx < n:
                middle[bx * threads + tx] = values[bx * threads + tx]
            grid_arrive()
            grid_wait()
            if bx * threads + tx < n:
                out[bx * threads + tx] = middle[n - 1 - (bx * threads + tx)]

    return dynamic_split


def late_block(blocks: int, split: bool):
    """Block 0 works before it arrives; the others work as long between the phases, or after them where not ``split``.

    Shape: ``own`` is int32[blocks]. ``steps`` counts dependent multiplications of one thread, some nanoseconds each.
    """

    @T.prim_func
    def late_block(own: T.Tensor((blocks,), "int32"), steps: T.int32):
        with T.Kernel(blocks, threads=64) as bx:
            tx = T.get_thread_binding(0)
            if tx == 0 and bx == 0:
                for i in T.serial(steps):
                    own[bx] = own[bx] * 3 + i
            grid_arrive()
            if split:
                if tx == 0 and bx > 0:
                    for i in T.serial(steps):
                        own[bx] = own[bx] * 3 + i
            grid_wait()
            if not split:
                if tx == 0 and bx > 0:
                    for i in T.serial(steps):
                        own[bx] = own[bx] * 3 + i

    return late_block
