"""Time of one grid barrier, for grids from one block to as many as can be resident.

    python benchmarks/barrier_latency.py --out results.json [--rows headline|sweep] [--launches 7] [--barriers 2000]

Writes every raw sample. A sample is the time of one launch between two CUDA events, over the number of
barriers that the launch runs, in nanoseconds; the launch itself is in it.
"""

from __future__ import annotations

import argparse
import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("TILELANG_DISABLE_CACHE", "1")

import machine
import torch
from barriers import upstream_shape
from rich.console import Console
from rich.progress import track

from tl_gridsync_pass.bench.barrier_loop import barrier_loop, width_of
from tl_gridsync_pass.bench.barriers import BARRIERS, compile_stock, compile_with_pass
from tl_gridsync_pass.bench.tables import table
from tl_gridsync_pass.bench.timing import time_launches

HEADLINE = [(2, 64), (132, 128), (132, (32, 8)), (132, 1024), (264, 256), (528, 256), (1056, 128), (2112, 128), (2112, 32)]
WATCHDOG_MS = 2000
SWEEP_BLOCKS = [1, 2, 4, 8, 16, 33, 66, 100, 132, 198, 264, 330, 396, 528, 660, 792, 1056, 1320, 1584, 2112, 4224]
SWEEP_THREADS = [32, 128, 256, 1024]


def measure_headline(args: argparse.Namespace) -> list[dict[str, Any]]:
    barriers = [(b.name, b.compile) for b in BARRIERS]
    barriers += [("upstream shape", compile_stock), ("pass with watchdog", compile_with_watchdog)]
    # Those of one grid after one another, so that whatever drifts hits all of them.
    plan = [(name, compile_, blocks, threads) for blocks, threads in HEADLINE for name, compile_ in barriers]
    kernels = compile_all([(compile_, blocks, threads) for _, compile_, blocks, threads in plan])
    rows = []
    for (name, _, blocks, threads), kernel in track(list(zip(plan, kernels, strict=True)), "measuring"):
        with upstream_shape() if name == "upstream shape" else nullcontext():
            rows += measure(name, kernel, blocks, threads, True, args)
    return rows


def measure_sweep(args: argparse.Namespace) -> list[dict[str, Any]]:
    plan = [(b, threads) for threads in SWEEP_THREADS for b in BARRIERS]
    kernels = compile_all([(barrier.compile, None, threads) for barrier, threads in plan])
    properties = torch.cuda.get_device_properties(0)
    rows = []
    for (barrier, threads), kernel in track(list(zip(plan, kernels, strict=True)), "measuring"):
        resident = properties.multi_processor_count * min(32, properties.max_threads_per_multi_processor // threads)
        for blocks in SWEEP_BLOCKS:
            if blocks <= resident:
                rows += measure(barrier.name, kernel, blocks, threads, False, args)
    return rows


def compile_with_watchdog(func: Any) -> Any:
    return compile_with_pass(func, timeout_ms=WATCHDOG_MS)


def compile_all(plan: list[tuple[Any, int | None, Any]]) -> list[Any]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda p: p[0](barrier_loop(p[1], p[2])), plan))


def measure(name: str, kernel: Any, blocks: int, threads: Any, static: bool, args: argparse.Namespace) -> list[dict[str, Any]]:
    """A row with clean and one with dirty data; none where the grid cannot be resident, which is said."""
    rows = []
    for stores in (0, 1):
        try:
            samples = time_launches(kernel, blocks, width_of(threads), args.barriers, stores, args.launches)
        except RuntimeError as error:
            print(f"left out: {name}, {blocks} x {threads}: {error}")
            break
        rows.append({"barrier": name, "blocks": blocks, "threads": threads, "dirty": bool(stores), "static": static, "ns": samples})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rows", choices=["headline", "sweep"], default="headline")
    parser.add_argument("--launches", type=int, default=7)
    parser.add_argument("--barriers", type=int, default=2000)
    args = parser.parse_args()
    rows = measure_headline(args) if args.rows == "headline" else measure_sweep(args)
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "barriers": args.barriers, "rows": rows}, file, indent=1)
    Console(width=160).print(table(rows))


if __name__ == "__main__":
    main()
