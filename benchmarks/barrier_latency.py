"""Time of one grid barrier, for grids from one block to as many as can be resident.

    python benchmarks/barrier_latency.py --out results.json [--rows headline|sweep] [--launches 7] [--barriers 2000]

Writes every raw sample. A sample is the time of one launch between two CUDA events, over the number of
barriers that the launch runs, in nanoseconds; the launch itself is in it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("TILELANG_DISABLE_CACHE", "1")

import machine
import tilelang.language as T
import torch
from barriers import BARRIERS, compile_stock, upstream_shape
from rich.console import Console
from rich.progress import track
from rich.table import Table

HEADLINE = [(2, 64), (132, 128), (132, (32, 8)), (132, 1024), (264, 256), (528, 256), (1056, 128), (2112, 128)]
SWEEP_BLOCKS = [1, 2, 4, 8, 16, 33, 66, 100, 132, 198, 264, 330, 396, 528, 660, 792, 1056, 1320, 1584, 2112, 4224]
SWEEP_THREADS = [32, 128, 256, 1024]


def barrier_loop(blocks: int | None, threads: int | tuple[int, ...]):
    """``barriers`` grid barriers in one launch, with ``stores`` stores of every thread before each of them.

    Both are run-time values, and the loop over the stores also keeps compilers from unrolling the outer one
    into more code than the instruction cache holds, which no loop with work in it would be. Shapes:
    ``data`` is int32[blocks, threads in a block]. ``blocks=None`` makes the grid's size a run-time value too.
    """
    width = width_of(threads)
    rows = T.dynamic("rows") if blocks is None else blocks

    @T.prim_func
    def barrier_loop(data: T.Tensor((rows, width), "int32"), barriers: T.int32, stores: T.int32):
        with T.Kernel(rows, threads=threads) as bx:
            tx = T.get_thread_binding(0)
            ty = T.get_thread_binding(1)
            for i in T.serial(barriers):
                for j in T.serial(stores):
                    data[bx, ((tx + 32 * ty if width != threads else tx) + j) % width] = i
                T.sync_grid()
            if tx == 0:
                data[bx, 0] = barriers

    return barrier_loop


def time_launches(kernel: Any, blocks: int, width: int, barriers: int, stores: int, launches: int) -> list[float]:
    data = torch.zeros((blocks, width), dtype=torch.int32, device="cuda")
    stream = torch.cuda.current_stream()
    samples = []
    for launch in range(launches + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Keeps the device busy while the host queues the launch, which would be in the time otherwise.
        torch.cuda._sleep(500_000)
        start.record(stream)
        kernel(data, barriers, stores)
        end.record(stream)
        finish(end)
        if launch:
            samples.append(start.elapsed_time(end) * 1e6 / barriers)
    assert int(data[:, 0].min()) == barriers, "the kernel did not finish its loop"
    return samples


def finish(event: torch.cuda.Event, seconds: float = 60.0) -> None:
    """Wait for ``event``, but not for ever: a barrier that hangs ends the benchmark."""
    waiter = threading.Thread(target=event.synchronize, daemon=True)
    waiter.start()
    waiter.join(seconds)
    if waiter.is_alive():
        print(f"no answer from the GPU in {seconds:.0f} s: a barrier hangs", flush=True)
        os._exit(1)


def width_of(threads: int | tuple[int, ...]) -> int:
    return threads if isinstance(threads, int) else threads[0] * threads[1]


def measure_headline(args: argparse.Namespace) -> list[dict[str, Any]]:
    plan = [(b.name, b.compile, blocks, threads) for blocks, threads in HEADLINE for b in BARRIERS]
    plan += [("upstream shape", compile_stock, blocks, threads) for blocks, threads in HEADLINE]
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


def compile_all(plan: list[tuple[Any, int | None, Any]]) -> list[Any]:
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(lambda p: p[0](barrier_loop(p[1], p[2])), plan))


def measure(name: str, kernel: Any, blocks: int, threads: Any, static: bool, args: argparse.Namespace) -> list[dict[str, Any]]:
    return [
        {
            "barrier": name,
            "blocks": blocks,
            "threads": threads,
            "dirty": bool(stores),
            "static": static,
            "ns": time_launches(kernel, blocks, width_of(threads), args.barriers, stores, args.launches),
        }
        for stores in (0, 1)
    ]


def table(rows: list[dict[str, Any]]) -> Table:
    """Medians side by side, with the pass as a share of the others."""
    names = list(dict.fromkeys(row["barrier"] for row in rows))
    medians = {(str(r["threads"]), r["blocks"], r["dirty"], r["barrier"]): statistics.median(r["ns"]) for r in rows}
    out = Table(title="ns a barrier, median")
    for column in ("blocks x threads", "dirty", *names, "pass / cooperative groups", "pass / stock"):
        out.add_column(column, justify="right")
    for threads, blocks, dirty in dict.fromkeys(key[:3] for key in medians):
        of = {name: medians.get((threads, blocks, dirty, name)) for name in names}
        shares = [f"{of['pass'] / of[name]:.2f}" for name in ("cooperative groups", "stock")]
        cells = [f"{of[name]:.0f}" if of[name] else "" for name in names]
        out.add_row(f"{blocks} x {threads}", "yes" if dirty else "no", *cells, *shares)
    return out


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
