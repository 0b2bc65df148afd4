"""A warp-specialised kernel with a barrier between its layers computes what the layers compute."""

from __future__ import annotations

import pytest
import tilelang
import torch
from bounded import synchronize
from kernels import CUTEDSL, PIPELINE_IN_LOOP, skipping_where
from verify_catalogue import CASES

import tl_gridsync_pass as gs

pytestmark = pytest.mark.gpu

LAYERS, ROWS, WIDTH, LAUNCHES = 8, 128, 256, 50


def test_every_layer_reads_all_of_the_layer_before():
    func = next(case.func for case in CASES if case.name == "barrier_between_layers")
    with skipping_where(*PIPELINE_IN_LOOP):
        kernel = tilelang.compile(func, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    generator = torch.Generator("cuda").manual_seed(0)
    # Scaled so that the numbers neither grow nor vanish from layer to layer.
    weights = torch.randn(LAYERS, WIDTH, WIDTH, device="cuda", generator=generator, dtype=torch.float32).div(WIDTH**0.5).half()
    first = torch.randn(ROWS, WIDTH, device="cuda", generator=generator, dtype=torch.float32).half()
    expected = [first]
    for layer in range(LAYERS):
        expected.append((expected[-1].float() @ weights[layer].float()).half())
    for _ in range(LAUNCHES):
        # NaN, so that a tile read before it was written shows in everything behind it.
        activations = torch.full((LAYERS + 1, ROWS, WIDTH), float("nan"), device="cuda", dtype=torch.float16)
        activations[0] = first
        torch.cuda.synchronize()
        kernel(weights, activations)
        synchronize()
        torch.testing.assert_close(activations, torch.stack(expected), rtol=2e-2, atol=2e-2)
