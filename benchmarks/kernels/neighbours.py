"""Rounds of an exchange between blocks with work of each block's own, as a full and as a split barrier."""

import tilelang.language as T

from tl_gridsync_pass.language import grid_arrive, grid_wait

BLOCKS, THREADS = 132, 128
FORMS = ("full", "split", "work alone")


def exchange(form: str, blocks: int = BLOCKS, threads: int = THREADS):
    """Each round: publish a value, a grid barrier, read the right neighbour's; and a chain of ``work`` multiplications.

    ``"full"`` works after the barrier, ``"split"`` between arrive and wait, ``"work alone"`` has no barrier and
    reads its own value. The work depends on nothing of other blocks. Shapes: ``board`` is float32[2, blocks,
    threads], ``out`` float32[blocks, threads]; the sum over the rounds r of (right neighbour + r), plus what
    the work made of ``out``'s first value, which is 0.
    """

    @T.prim_func
    def exchange(
        board: T.Tensor((2, blocks, threads), "float32"),
        out: T.Tensor((blocks, threads), "float32"),
        rounds: T.int32,
        work: T.int32,
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            total = T.alloc_local((1,), "float32")
            chain = T.alloc_local((1,), "float32")
            total[0] = 0
            chain[0] = out[bx, tx]
            for r in T.serial(rounds):
                board[r % 2, bx, tx] = T.cast(bx + r, "float32")
                if form == "split":
                    grid_arrive()
                if form == "full":
                    T.sync_grid()
                for _ in T.serial(work):
                    chain[0] = chain[0] * T.float32(0.999)
                if form == "split":
                    grid_wait()
                if form == "work alone":
                    total[0] = total[0] + board[r % 2, bx, tx]
                else:
                    total[0] = total[0] + board[r % 2, (bx + 1) % blocks, tx]
            out[bx, tx] = total[0] + chain[0]

    return exchange


def expected(form: str, rounds: int, blocks: int = BLOCKS) -> list[float]:
    """What each block's threads end with; the sums are whole numbers that float32 holds up to 2**24."""
    shift = 0 if form == "work alone" else 1
    return [rounds * ((b + shift) % blocks) + rounds * (rounds - 1) / 2 for b in range(blocks)]
