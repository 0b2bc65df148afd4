"""A five-point Jacobi iteration: hundreds of steps in one launch, a grid barrier after each."""

import tilelang.language as T
import torch

from tl_gridsync_pass.language import grid_arrive, grid_wait

from .case import Buffers, Case

BLOCKS, THREADS = 128, 256
SIZE = 1024
STEPS = 400
ROWS = SIZE // BLOCKS


def one_launch():
    @T.prim_func
    def jacobi(grid: T.Tensor((2, SIZE + 2, SIZE + 2), "float32")):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            for step in T.serial(STEPS):
                for i, j in T.Parallel(ROWS, SIZE):
                    grid[(step + 1) % 2, bx * ROWS + i + 1, j + 1] = 0.25 * (
                        grid[step % 2, bx * ROWS + i, j + 1]
                        + grid[step % 2, bx * ROWS + i + 2, j + 1]
                        + grid[step % 2, bx * ROWS + i + 1, j]
                        + grid[step % 2, bx * ROWS + i + 1, j + 2]
                    )
                T.sync_grid()

    return jacobi


def split():
    """The block's first and last row are all that others read: they come before the arrival, the rest after it."""

    @T.prim_func
    def jacobi_split(grid: T.Tensor((2, SIZE + 2, SIZE + 2), "float32")):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            for step in T.serial(STEPS):
                for i, j in T.Parallel(2, SIZE):
                    grid[(step + 1) % 2, bx * ROWS + i * (ROWS - 1) + 1, j + 1] = 0.25 * (
                        grid[step % 2, bx * ROWS + i * (ROWS - 1), j + 1]
                        + grid[step % 2, bx * ROWS + i * (ROWS - 1) + 2, j + 1]
                        + grid[step % 2, bx * ROWS + i * (ROWS - 1) + 1, j]
                        + grid[step % 2, bx * ROWS + i * (ROWS - 1) + 1, j + 2]
                    )
                grid_arrive()
                for i, j in T.Parallel(ROWS - 2, SIZE):
                    grid[(step + 1) % 2, bx * ROWS + i + 2, j + 1] = 0.25 * (
                        grid[step % 2, bx * ROWS + i + 1, j + 1]
                        + grid[step % 2, bx * ROWS + i + 3, j + 1]
                        + grid[step % 2, bx * ROWS + i + 2, j]
                        + grid[step % 2, bx * ROWS + i + 2, j + 2]
                    )
                grid_wait()

    return jacobi_split


def step_phase():
    @T.prim_func
    def jacobi_step(
        before: T.Tensor((SIZE + 2, SIZE + 2), "float32"),
        after: T.Tensor((SIZE + 2, SIZE + 2), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            for i, j in T.Parallel(ROWS, SIZE):
                after[bx * ROWS + i + 1, j + 1] = 0.25 * (
                    before[bx * ROWS + i, j + 1]
                    + before[bx * ROWS + i + 2, j + 1]
                    + before[bx * ROWS + i + 1, j]
                    + before[bx * ROWS + i + 1, j + 2]
                )

    return jacobi_step


def buffers(device: str) -> Buffers:
    generator = torch.Generator(device).manual_seed(0)
    start = torch.rand((SIZE + 2, SIZE + 2), device=device, generator=generator)
    # The second plane needs the same border; its inside is overwritten by the first step.
    return {"start": start, "grid": torch.stack([start, start])}


def run_one_launch(kernel, data: Buffers, stream: int) -> None:
    kernel(data["grid"], stream=stream)


def run_phases(kernels, data: Buffers, stream: int) -> None:
    step, planes = kernels["step"], (data["grid"][0], data["grid"][1])
    for i in range(STEPS):
        step(planes[i % 2], planes[(i + 1) % 2], stream=stream)


def answer(data: Buffers) -> tuple[torch.Tensor, torch.Tensor]:
    now = data["start"].clone()
    for _ in range(STEPS):
        now[1:-1, 1:-1] = 0.25 * (now[:-2, 1:-1] + now[2:, 1:-1] + now[1:-1, :-2] + now[1:-1, 2:])
    return data["grid"][STEPS % 2], now


CASE = Case(
    name="Jacobi",
    summary=f"{STEPS} Jacobi steps on {SIZE} x {SIZE} float32",
    blocks=BLOCKS,
    threads=THREADS,
    barriers=STEPS,
    launches=STEPS,
    one_launch=one_launch,
    phases={"step": step_phase},
    buffers=buffers,
    run_one_launch=run_one_launch,
    run_phases=run_phases,
    answer=answer,
    tolerance=1e-4,
    split=split,
)
