"""Softmax over rows that are longer than a block: every row is spread over the whole grid.

In one launch a block keeps its part of the row in registers across the barrier. Separate launches have to
read the row again.
"""

import tilelang.language as T
import torch

from .case import Buffers, Case

BLOCKS, THREADS = 128, 256
CHUNK = 8192
ROWS = 16
LENGTH = BLOCKS * CHUNK


@T.macro
def reduce_chunk(x, largest, total, peaks, sums, row, bx):
    """Write the chunk's maximum and its sum of exponentials to ``peaks`` and ``sums``, float32[rows, blocks]."""
    T.reduce_max(x, largest, dim=0, clear=True)
    e = T.alloc_fragment((CHUNK,), "float32")
    for i in T.Parallel(CHUNK):
        e[i] = T.exp(x[i] - largest[0])
    T.reduce_sum(e, total, dim=0, clear=True)
    peaks[row, bx] = largest[0]
    sums[row, bx] = total[0]


@T.macro
def write_chunk(x, largest, total, peaks, sums, out, row, bx):
    """Combine what all blocks found in the row, and write this block's part of the result."""
    peak = T.alloc_fragment((BLOCKS,), "float32")
    part = T.alloc_fragment((BLOCKS,), "float32")
    T.copy(peaks[row, 0], peak)
    T.reduce_max(peak, largest, dim=0, clear=True)
    for i in T.Parallel(BLOCKS):
        part[i] = sums[row, i] * T.exp(peak[i] - largest[0])
    T.reduce_sum(part, total, dim=0, clear=True)
    for i in T.Parallel(CHUNK):
        out[row, bx * CHUNK + i] = T.exp(x[i] - largest[0]) / total[0]


def one_launch():
    @T.prim_func
    def softmax(
        values: T.Tensor((ROWS, LENGTH), "float32"),
        peaks: T.Tensor((ROWS, BLOCKS), "float32"),
        sums: T.Tensor((ROWS, BLOCKS), "float32"),
        out: T.Tensor((ROWS, LENGTH), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            x = T.alloc_fragment((CHUNK,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for row in T.serial(ROWS):
                T.copy(values[row, bx * CHUNK], x)
                reduce_chunk(x, largest, total, peaks, sums, row, bx)
                T.sync_grid()
                write_chunk(x, largest, total, peaks, sums, out, row, bx)

    return softmax


def reduce_phase():
    @T.prim_func
    def softmax_reduce(
        values: T.Tensor((ROWS, LENGTH), "float32"),
        peaks: T.Tensor((ROWS, BLOCKS), "float32"),
        sums: T.Tensor((ROWS, BLOCKS), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            x = T.alloc_fragment((CHUNK,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for row in T.serial(ROWS):
                T.copy(values[row, bx * CHUNK], x)
                reduce_chunk(x, largest, total, peaks, sums, row, bx)

    return softmax_reduce


def write_phase():
    @T.prim_func
    def softmax_write(
        values: T.Tensor((ROWS, LENGTH), "float32"),
        peaks: T.Tensor((ROWS, BLOCKS), "float32"),
        sums: T.Tensor((ROWS, BLOCKS), "float32"),
        out: T.Tensor((ROWS, LENGTH), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            x = T.alloc_fragment((CHUNK,), "float32")
            largest = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            for row in T.serial(ROWS):
                T.copy(values[row, bx * CHUNK], x)
                write_chunk(x, largest, total, peaks, sums, out, row, bx)

    return softmax_write


def buffers(device: str) -> Buffers:
    generator = torch.Generator(device).manual_seed(0)
    return {
        "values": torch.randn((ROWS, LENGTH), device=device, generator=generator),
        "peaks": torch.zeros((ROWS, BLOCKS), device=device),
        "sums": torch.zeros((ROWS, BLOCKS), device=device),
        "out": torch.zeros((ROWS, LENGTH), device=device),
    }


def run_one_launch(kernel, data: Buffers, stream: int) -> None:
    kernel(data["values"], data["peaks"], data["sums"], data["out"], stream=stream)


def run_phases(kernels, data: Buffers, stream: int) -> None:
    kernels["reduce"](data["values"], data["peaks"], data["sums"], stream=stream)
    kernels["write"](data["values"], data["peaks"], data["sums"], data["out"], stream=stream)


def answer(data: Buffers) -> tuple[torch.Tensor, torch.Tensor]:
    # Scaled to values of about one: a softmax over a million numbers is tiny, and any tolerance would do.
    return data["out"] * LENGTH, torch.softmax(data["values"], 1) * LENGTH


CASE = Case(
    name="softmax",
    summary=f"softmax of {ROWS} rows of {LENGTH} float32, each spread over the grid",
    blocks=BLOCKS,
    threads=THREADS,
    barriers=ROWS,
    launches=2,
    one_launch=one_launch,
    phases={"reduce": reduce_phase, "write": write_phase},
    buffers=buffers,
    run_one_launch=run_one_launch,
    run_phases=run_phases,
    answer=answer,
    tolerance=1e-3,
)
