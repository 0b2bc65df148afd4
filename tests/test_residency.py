"""Occupancy arithmetic by the rules of the CUDA occupancy calculator, and the words about it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tl_gridsync_pass.residency import bounds, explain
from tl_gridsync_pass.seams.launch_shape import LaunchShape
from tl_gridsync_pass.seams.occupancy import Occupancy

# Compute capability 9.0 (CUDA C++ Programming Guide, "Technical Specifications per Compute Capability").
HOPPER = Occupancy(
    blocks_per_multiprocessor=0,
    multiprocessors=132,
    registers=32,
    static_shared_bytes=0,
    registers_per_multiprocessor=65536,
    shared_bytes_per_multiprocessor=233472,
    threads_per_multiprocessor=2048,
    blocks_limit_per_multiprocessor=32,
)


def shape(threads: int, shared_bytes: int = 0, blocks: int = 100) -> LaunchShape:
    return LaunchShape("kernel", (blocks, 1, 1), (threads, 1, 1), shared_bytes)


# Rows as the calculator gives them for compute capability 9.0.
@pytest.mark.parametrize(
    ("threads", "registers", "shared", "limits"),
    [
        (1024, 32, 0, {"threads": 2, "registers": 2, "blocks": 32}),
        (1024, 33, 0, {"threads": 2, "registers": 1, "blocks": 32}),
        (256, 64, 0, {"threads": 8, "registers": 4, "blocks": 32}),
        (128, 255, 0, {"threads": 16, "registers": 2, "blocks": 32}),
        (33, 16, 0, {"threads": 32, "registers": 64, "blocks": 32}),
        (32, 24, 0, {"threads": 64, "registers": 85, "blocks": 32}),
        (32, 41, 0, {"threads": 64, "registers": 42, "blocks": 32}),
        (128, 32, 98304, {"threads": 16, "registers": 16, "blocks": 32, "shared memory": 2}),
        (128, 32, 232448, {"threads": 16, "registers": 16, "blocks": 32, "shared memory": 1}),
    ],
)
def test_each_limit_alone(threads, registers, shared, limits):
    assert bounds(shape(threads, shared), replace(HOPPER, registers=registers)) == limits


def test_shared_memory_of_the_cubin_counts():
    assert bounds(shape(128), replace(HOPPER, static_shared_bytes=98304))["shared memory"] == 2


@pytest.mark.parametrize(
    ("launch", "occupancy", "bound", "remedy"),
    [
        (shape(1024, blocks=300), replace(HOPPER, blocks_per_multiprocessor=2), "threads: 1024 threads a block of 2048", "smaller blocks"),
        (
            shape(256, blocks=600),
            replace(HOPPER, registers=64, blocks_per_multiprocessor=4),
            "registers: 64 registers a thread",
            "fewer registers",
        ),
        (
            shape(128, 98304, blocks=300),
            replace(HOPPER, blocks_per_multiprocessor=2),
            "shared memory: 98304 bytes of shared memory a block of 233472",
            "less shared memory",
        ),
        (
            shape(32, blocks=5000),
            replace(HOPPER, registers=16, blocks_per_multiprocessor=32),
            "a multiprocessor holds 32 blocks",
            "more work",
        ),
    ],
    ids=["threads", "registers", "shared memory", "blocks"],
)
def test_the_message_names_kernel_grid_limit_bound_and_remedy(launch, occupancy, bound, remedy):
    message = explain(launch, occupancy)
    per, total = occupancy.blocks_per_multiprocessor, occupancy.blocks
    for part in (
        "'kernel'",
        f"{launch.blocks} blocks",
        f"only {total} blocks",
        f"{per} on each of 132",
        bound,
        remedy,
        "max_coresident_blocks",
    ):
        assert part in message, part
