"""The kernel that shows whether a grid barrier holds: blocks write, meet, and read what all of them wrote."""

import tilelang.language as T

from .seams.target import cutedsl_target

# With the architecture written out, so that it means the same with and without a GPU.
CUTEDSL_TARGET = cutedsl_target("sm_90a")

# Block shapes with one leader by threadIdx.x alone, and with several.
LAYOUTS: tuple[int | tuple[int, ...], ...] = (32, (32, 2), (32, 1, 2), (16, 2, 2))


def handoff(threads: int | tuple[int, ...] = (32, 2), blocks: int = 2, delay: int = 20000):
    """Every block writes its number plus one; after a grid barrier every block sums what all wrote.

    The last block first spins on ``delay`` atomic additions to its own word of ``scratch``, so that a
    barrier that opens early lets the others read its zero: with two blocks the answer is [3, 3], and
    [1, 3] where block 0 did not wait.

    Shapes: ``values``, ``sums`` and ``scratch`` are int32[blocks].
    """

    @T.prim_func
    def handoff(
        values: T.Tensor((blocks,), "int32"),
        sums: T.Tensor((blocks,), "int32"),
        scratch: T.Tensor((blocks,), "int32"),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            tz = T.get_thread_binding(2)
            if tx == 0 and ty == 0 and tz == 0:
                if bx == blocks - 1:
                    for _ in T.serial(delay):
                        T.atomic_add(scratch[bx], 1)
                values[bx] = bx + 1
            T.sync_grid()
            if tx == 0 and ty == 0 and tz == 0:
                total = T.alloc_local((1,), "int32")
                total[0] = 0
                for i in T.serial(blocks):
                    total[0] = total[0] + values[i]
                sums[bx] = total[0]

    return handoff
