"""`bench`: the time of one grid barrier on this machine's GPU, the pass beside stock and cooperative groups."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from typing import Any

import click

from .output import console, json_option, print_json, reported_errors, require_attached

# Blocks for each multiprocessor, and threads; None is a grid of two blocks.
SHAPES = ((None, 64), (1, 128), (1, 1024), (4, 256), (16, 128))
LAUNCHES = 3
BARRIERS_A_LAUNCH = 1000


@click.command(name="bench")
@json_option
def command(as_json: bool) -> None:
    """Time one grid barrier on this GPU: the pass, TileLang's own, and cooperative groups.

    Takes less than a minute, most of it to compile. Every barrier is timed in loops of 1000, three launches each.
    """
    require_attached()
    import torch

    if not torch.cuda.is_available():
        raise click.ClickException(
            "bench needs an NVIDIA GPU, and torch.cuda.is_available() is False. `tl-gridsync demo` shows the compiled barrier without one."
        )
    with reported_errors(), redirect_stdout(sys.stderr):
        rows = measure(shapes_for(torch.cuda.get_device_properties(0)))
    if as_json:
        print_json({"gpu": torch.cuda.get_device_name(), "barriers": BARRIERS_A_LAUNCH, "rows": rows})
        return
    from ..bench.tables import table

    out = console()
    out.print(f"{torch.cuda.get_device_name()}, {LAUNCHES} launches of {BARRIERS_A_LAUNCH} barriers each.")
    out.print(table(rows))


def shapes_for(properties: Any) -> list[tuple[int, int]]:
    """Blocks and threads of the grids to time, no more than can be resident on a device of these ``properties``."""
    shapes = []
    for per_multiprocessor, threads in SHAPES:
        resident = properties.max_threads_per_multi_processor // threads
        count = 2 if per_multiprocessor is None else properties.multi_processor_count * min(per_multiprocessor, resident)
        shapes.append((count, threads))
    return shapes


def measure(shapes: list[tuple[int, int]]) -> list[dict[str, Any]]:
    """One row for each barrier and shape, with the nanoseconds a barrier of every launch."""
    from rich.console import Console
    from rich.progress import track

    from ..bench.barrier_loop import barrier_loop
    from ..bench.barriers import BARRIERS
    from ..bench.timing import time_launches

    progress = Console(stderr=True)
    plan = [(barrier, blocks, threads) for blocks, threads in shapes for barrier in BARRIERS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        compiling = pool.map(lambda p: p[0].compile(barrier_loop(*p[1:])), plan)
        kernels = list(track(compiling, "compiling", len(plan), console=progress))
    rows = []
    for (barrier, blocks, threads), kernel in track(list(zip(plan, kernels, strict=True)), "measuring", console=progress):
        samples = time_launches(kernel, blocks, threads, BARRIERS_A_LAUNCH, 0, LAUNCHES)
        rows.append({"barrier": barrier.name, "blocks": blocks, "threads": threads, "dirty": False, "ns": samples})
    return rows
