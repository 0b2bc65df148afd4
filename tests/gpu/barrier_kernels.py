"""Kernels with more than a handoff: many rounds, grids of every rank, dynamic sizes, shared memory."""

import tilelang.language as T


def rounds(grid: tuple[int, ...], threads, count: int):
    """In each round every block writes its number plus the round, and after the barrier reads its right neighbour's.

    Two rows of ``board`` in turn, so that one barrier a round is enough. Shapes: ``board`` int32[2, blocks],
    ``sums`` int32[blocks]; block b ends with the sum over the rounds r of (b + 1) % blocks + r.
    """
    blocks = 1
    for extent in grid:
        blocks *= extent

    @T.prim_func
    def rounds(board: T.Tensor((2, blocks), "int32"), sums: T.Tensor((blocks,), "int32")):
        with T.Kernel(*grid, threads=threads):
            block = T.alloc_var("int32")
            block = 0
            if len(grid) == 1:
                block = T.get_block_binding(0)
            elif len(grid) == 2:
                block = T.get_block_binding(0) + grid[0] * T.get_block_binding(1)
            else:
                block = T.get_block_binding(0) + grid[0] * (T.get_block_binding(1) + grid[1] * T.get_block_binding(2))
            leader = T.get_thread_binding(0) + T.get_thread_binding(1) + T.get_thread_binding(2)
            total = T.alloc_local((1,), "int32")
            total[0] = 0
            for r in T.serial(count):
                if leader == 0:
                    board[r % 2, block] = block + r
                T.sync_grid()
                if leader == 0:
                    total[0] = total[0] + board[r % 2, (block + 1) % blocks]
            if leader == 0:
                sums[block] = total[0]

    return rounds


def rounds_answer(blocks: int, count: int) -> list[int]:
    return [sum((b + 1) % blocks + r for r in range(count)) for b in range(blocks)]


def everyone(threads):
    """Every block writes its number, and after the barrier reads that of the block as far from the other end; n blocks, at run time.

    Shapes: ``values`` and ``sums`` int32[n]; block b ends with n - 1 - b.
    """
    n = T.dynamic("n")

    @T.prim_func
    def everyone(values: T.Tensor((n,), "int32"), sums: T.Tensor((n,), "int32")):
        with T.Kernel(n, threads=threads) as bx:
            leader = T.get_thread_binding(0) + T.get_thread_binding(1) + T.get_thread_binding(2)
            if leader == 0:
                values[bx] = bx
            T.sync_grid()
            if leader == 0:
                sums[bx] = values[n - 1 - bx]

    return everyone


def dynamic_reverse(threads: int = 64):
    """out[i] = values[n - 1 - i] through a second buffer and a grid barrier; n is a run-time size."""
    n = T.dynamic("n")

    @T.prim_func
    def dynamic_reverse(values: T.Tensor((n,), "int32"), middle: T.Tensor((n,), "int32"), out: T.Tensor((n,), "int32")):
        with T.Kernel(T.ceildiv(n, threads), threads=threads) as bx:
            tx = T.get_thread_binding(0)
            if bx * threads + tx < n:
                middle[bx * threads + tx] = values[bx * threads + tx]
            T.sync_grid()
            if bx * threads + tx < n:
                out[bx * threads + tx] = middle[n - 1 - (bx * threads + tx)]

    return dynamic_reverse


def shared_stages(blocks: int, threads: int):
    """A shared-memory reversal before the barrier and one after it, on another block's data."""

    @T.prim_func
    def shared_stages(
        values: T.Tensor((blocks, threads), "int32"),
        middle: T.Tensor((blocks, threads), "int32"),
        out: T.Tensor((blocks, threads), "int32"),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            tile = T.alloc_shared((threads,), "int32")
            tx = T.get_thread_binding(0)
            tile[tx] = values[bx, tx]
            T.sync_threads()
            middle[bx, tx] = tile[threads - 1 - tx] + 1
            T.sync_grid()
            tile[tx] = middle[(bx + 1) % blocks, tx]
            T.sync_threads()
            out[bx, tx] = tile[threads - 1 - tx] + 1

    return shared_stages


def two_kernels(blocks: int):
    """Two kernels with a barrier each in one module; the second reads what the first wrote."""

    @T.prim_func
    def two_kernels(
        first: T.Tensor((blocks,), "int32"),
        middle: T.Tensor((blocks,), "int32"),
        second: T.Tensor((blocks,), "int32"),
        out: T.Tensor((blocks,), "int32"),
    ):
        with T.Kernel(blocks, threads=(32, 2)) as bx:
            if T.get_thread_binding(0) + T.get_thread_binding(1) == 0:
                first[bx] = bx + 1
            T.sync_grid()
            if T.get_thread_binding(0) + T.get_thread_binding(1) == 0:
                middle[bx] = first[(bx + 1) % blocks]
        with T.Kernel(blocks, threads=(16, 2, 2)) as bx:
            if T.get_thread_binding(0) + T.get_thread_binding(1) + T.get_thread_binding(2) == 0:
                second[bx] = middle[bx] * 10
            T.sync_grid()
            if T.get_thread_binding(0) + T.get_thread_binding(1) + T.get_thread_binding(2) == 0:
                out[bx] = second[(bx + 1) % blocks]

    return two_kernels
