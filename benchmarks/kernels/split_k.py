"""A split-K matrix product: every block multiplies a stretch of K, then the whole grid adds the parts up."""

import tilelang
import tilelang.language as T
import torch

from .case import Buffers, Case

M, N, K = 256, 256, 16384
TILE, TILE_K, SPLITS = 128, 64, 32
STRETCH = K // SPLITS
TILES = (M // TILE) * (N // TILE)
BLOCKS, THREADS = TILES * SPLITS, 128
PART = M * N // BLOCKS


@T.macro
def multiply(a, b, parts, bx):
    """``parts[split]`` of one output tile, float32[splits, M, N]."""
    left = T.alloc_shared((TILE, TILE_K), "float16")
    right = T.alloc_shared((TILE_K, TILE), "float16")
    product = T.alloc_fragment((TILE, TILE), "float32")
    row = bx % TILES // (N // TILE) * TILE
    column = bx % (N // TILE) * TILE
    split = bx // TILES
    T.clear(product)
    for k in T.serial(STRETCH // TILE_K):
        T.copy(a[row, split * STRETCH + k * TILE_K], left)
        T.copy(b[split * STRETCH + k * TILE_K, column], right)
        T.gemm(left, right, product)
    T.copy(product, parts[split, row, column])


@T.macro
def add_up(parts, out, bx):
    """This block's share of the sum over the splits."""
    total = T.alloc_fragment((PART,), "float32")
    T.clear(total)
    for split in T.serial(SPLITS):
        for i in T.Parallel(PART):
            total[i] += parts[split, (bx * PART + i) // N, (bx * PART + i) % N]
    for i in T.Parallel(PART):
        out[(bx * PART + i) // N, (bx * PART + i) % N] = total[i]


def one_launch():
    @T.prim_func
    def split_k(
        a: T.Tensor((M, K), "float16"),
        b: T.Tensor((K, N), "float16"),
        parts: T.Tensor((SPLITS, M, N), "float32"),
        out: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            multiply(a, b, parts, bx)
            T.sync_grid()
            add_up(parts, out, bx)

    return split_k


def multiply_phase():
    @T.prim_func
    def split_k_multiply(
        a: T.Tensor((M, K), "float16"),
        b: T.Tensor((K, N), "float16"),
        parts: T.Tensor((SPLITS, M, N), "float32"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            multiply(a, b, parts, bx)

    return split_k_multiply


def add_up_phase():
    @T.prim_func
    def split_k_add_up(parts: T.Tensor((SPLITS, M, N), "float32"), out: T.Tensor((M, N), "float32")):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            add_up(parts, out, bx)

    return split_k_add_up


def buffers(device: str) -> Buffers:
    generator = torch.Generator(device).manual_seed(0)
    return {
        "a": torch.randn((M, K), device=device, generator=generator).half(),
        "b": torch.randn((K, N), device=device, generator=generator).half(),
        "parts": torch.zeros((SPLITS, M, N), device=device),
        "out": torch.zeros((M, N), device=device),
    }


def run_one_launch(kernel, data: Buffers, stream: int) -> None:
    kernel(data["a"], data["b"], data["parts"], data["out"], stream=stream)


def run_phases(kernels, data: Buffers, stream: int) -> None:
    kernels["multiply"](data["a"], data["b"], data["parts"], stream=stream)
    kernels["add up"](data["parts"], data["out"], stream=stream)


def answer(data: Buffers) -> tuple[torch.Tensor, torch.Tensor]:
    return data["out"] / K**0.5, data["a"].double() @ data["b"].double() / K**0.5


CASE = Case(
    name="split-K product",
    summary=f"{M} x {N} x {K} float16, K in {SPLITS} parts, added up in the kernel",
    blocks=BLOCKS,
    threads=THREADS,
    barriers=1,
    launches=2,
    one_launch=one_launch,
    phases={"multiply": multiply_phase, "add up": add_up_phase},
    buffers=buffers,
    run_one_launch=run_one_launch,
    run_phases=run_phases,
    answer=answer,
    tolerance=2e-3,
    # Copies and products by the block's own threads: no producer warps, no bulk copies.
    pass_configs={tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True, tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True},
)
