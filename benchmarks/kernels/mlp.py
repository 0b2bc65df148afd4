"""A persistent multi-layer perceptron: every layer is spread over the grid, with a barrier between two layers."""

import tilelang
import tilelang.language as T
import torch

from .case import Buffers, Case

BATCH, WIDTH, LAYERS = 128, 2048, 16
TILE_M, TILE_N, TILE_K = 64, 32, 128
BLOCKS, THREADS = (BATCH // TILE_M) * (WIDTH // TILE_N), 128


def one_launch():
    @T.prim_func
    def mlp(
        activations: T.Tensor((LAYERS + 1, BATCH, WIDTH), "float16"),
        weights: T.Tensor((LAYERS, WIDTH, WIDTH), "float16"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            left = T.alloc_shared((TILE_M, TILE_K), "float16")
            right = T.alloc_shared((TILE_K, TILE_N), "float16")
            product = T.alloc_fragment((TILE_M, TILE_N), "float32")
            row = bx % (BATCH // TILE_M) * TILE_M
            column = bx // (BATCH // TILE_M) * TILE_N
            for layer in T.serial(LAYERS):
                T.clear(product)
                for k in T.serial(WIDTH // TILE_K):
                    T.copy(activations[layer, row, k * TILE_K], left)
                    T.copy(weights[layer, k * TILE_K, column], right)
                    T.gemm(left, right, product)
                for i, j in T.Parallel(TILE_M, TILE_N):
                    activations[layer + 1, row + i, column + j] = T.max(product[i, j], 0)
                T.sync_grid()

    return mlp


def layer_phase():
    @T.prim_func
    def mlp_layer(
        before: T.Tensor((BATCH, WIDTH), "float16"),
        weights: T.Tensor((WIDTH, WIDTH), "float16"),
        after: T.Tensor((BATCH, WIDTH), "float16"),
    ):
        with T.Kernel(BLOCKS, threads=THREADS) as bx:
            left = T.alloc_shared((TILE_M, TILE_K), "float16")
            right = T.alloc_shared((TILE_K, TILE_N), "float16")
            product = T.alloc_fragment((TILE_M, TILE_N), "float32")
            row = bx % (BATCH // TILE_M) * TILE_M
            column = bx // (BATCH // TILE_M) * TILE_N
            T.clear(product)
            for k in T.serial(WIDTH // TILE_K):
                T.copy(before[row, k * TILE_K], left)
                T.copy(weights[k * TILE_K, column], right)
                T.gemm(left, right, product)
            for i, j in T.Parallel(TILE_M, TILE_N):
                after[row + i, column + j] = T.max(product[i, j], 0)

    return mlp_layer


def buffers(device: str) -> Buffers:
    generator = torch.Generator(device).manual_seed(0)
    activations = torch.zeros((LAYERS + 1, BATCH, WIDTH), dtype=torch.float16, device=device)
    activations[0] = torch.randn((BATCH, WIDTH), device=device, generator=generator).half()
    # So that a layer of rectified units keeps the size of its input.
    scale = (2 / WIDTH) ** 0.5
    weights = torch.randn((LAYERS, WIDTH, WIDTH), device=device, generator=generator).mul_(scale).half()
    return {"activations": activations, "weights": weights}


def run_one_launch(kernel, data: Buffers, stream: int) -> None:
    kernel(data["activations"], data["weights"], stream=stream)


def run_phases(kernels, data: Buffers, stream: int) -> None:
    for layer in range(LAYERS):
        kernels["layer"](data["activations"][layer], data["weights"][layer], data["activations"][layer + 1], stream=stream)


def answer(data: Buffers) -> tuple[torch.Tensor, torch.Tensor]:
    now = data["activations"][0]
    for layer in range(LAYERS):
        now = (now.float() @ data["weights"][layer].float()).relu().half()
    return data["activations"][LAYERS].float(), now.float()


CASE = Case(
    name="persistent MLP",
    summary=f"{LAYERS} layers of {WIDTH} float16 for a batch of {BATCH}",
    blocks=BLOCKS,
    threads=THREADS,
    barriers=LAYERS,
    launches=LAYERS,
    one_launch=one_launch,
    phases={"layer": layer_phase},
    buffers=buffers,
    run_one_launch=run_one_launch,
    run_phases=run_phases,
    answer=answer,
    tolerance=3e-2,
    # As in split_k.py. A bulk copy would also read what other blocks wrote through another proxy, which no
    # grid barrier orders.
    pass_configs={tilelang.PassConfigKey.TL_DISABLE_TMA_LOWER: True, tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True},
)
