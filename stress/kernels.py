"""The kernel that the stress test runs: message passing through a grid barrier, from every block to every block.

It follows what the literature on testing GPU memory models found to bring out weak behaviour (Alglave et al.,
"GPU Concurrency: Weak Behaviours and Programming Assumptions", ASPLOS 2015; Sorensen and Donaldson, "Exposing
Errors Related to Weak Memory in GPU Applications", PLDI 2016): many threads at once, random delays, locations
at changing distances, and caches that hold the old values.
"""

import tilelang.language as T

# int32[4]: stale reads, then round, reader block and value of one of them.
REPORT = 4


def message_passing(grid: tuple[int, ...], threads: int | tuple[int, ...], rounds: int, readers: int = 2):
    """In each round every thread writes a number of its own block's row, and after the barrier reads other blocks' rows.

    A round's number is written by every thread and differs from round to round, so any other number read
    after the barrier is stale. There are two rows a block, used in turn, which makes one barrier a round
    enough. Before the barrier each reader loads the words that it will check after it, so that its L1 cache
    holds their old values. The block read changes with the round, over all blocks; the thread read, too. Now
    and then a random thread of a block delays it before its write or after its read.

    Shapes: ``board`` is int32[2, blocks, threads], ``report`` int32[4], ``sink`` int32[blocks, threads],
    ``clock`` int32[blocks] (where delays spin), ``seed`` int32[1].
    """
    blocks = 1
    for extent in grid:
        blocks *= extent
    shape = (threads,) if isinstance(threads, int) else tuple(threads)
    width = 1
    for extent in shape:
        width *= extent

    @T.prim_func
    def message_passing(
        board: T.Tensor((2, blocks, width), "int32"),
        report: T.Tensor((REPORT,), "int32"),
        sink: T.Tensor((blocks, width), "int32"),
        clock: T.Tensor((blocks,), "int32"),
        seed: T.Tensor((1,), "int32"),
    ):
        with T.Kernel(*grid, threads=threads):
            block = T.alloc_local((1,), "int32")
            if len(grid) == 1:
                block[0] = T.get_block_binding(0)
            elif len(grid) == 2:
                block[0] = T.get_block_binding(0) + grid[0] * T.get_block_binding(1)
            else:
                block[0] = T.get_block_binding(0) + grid[0] * (T.get_block_binding(1) + grid[1] * T.get_block_binding(2))
            thread = T.alloc_local((1,), "int32")
            thread[0] = T.get_thread_binding(0)
            if len(shape) > 1:
                thread[0] = thread[0] + shape[0] * T.get_thread_binding(1)
            if len(shape) > 2:
                thread[0] = thread[0] + shape[0] * shape[1] * T.get_thread_binding(2)
            random = T.alloc_local((1,), "int32")
            random[0] = seed[0] + block[0] * 7919
            old = T.alloc_local((1,), "int32")
            old[0] = 0
            stale = T.alloc_local((1,), "int32")
            stale[0] = 0
            seen = T.alloc_local((1,), "int32")
            writer = T.alloc_local((1,), "int32")
            for r in T.serial(rounds):
                random[0] = (random[0] * 1105 + 12345) & 0xFFFFF
                if (random[0] >> 4) % 16 == 0:
                    if thread[0] == (random[0] >> 8) % width:
                        for _ in T.serial(random[0] % 8):
                            T.atomic_add(clock[block[0]], 1)
                for k in T.serial(readers):
                    writer[0] = (block[0] + 1 + r + k * 37) % blocks
                    old[0] = old[0] + board[r % 2, writer[0], (thread[0] + r) % width]
                board[r % 2, block[0], thread[0]] = r + 1
                T.sync_grid()
                for k in T.serial(readers):
                    writer[0] = (block[0] + 1 + r + k * 37) % blocks
                    seen[0] = board[r % 2, writer[0], (thread[0] + r) % width]
                    if seen[0] != r + 1:
                        stale[0] = stale[0] + 1
                        report[1] = r
                        report[2] = block[0]
                        report[3] = seen[0]
                if (random[0] >> 4) % 16 == 1:
                    if thread[0] == (random[0] >> 8) % width:
                        for _ in T.serial(random[0] % 8):
                            T.atomic_add(clock[block[0]], 1)
            sink[block[0], thread[0]] = old[0]
            if stale[0] > 0:
                T.atomic_add(report[0], stale[0])

    return message_passing
