"""How much the time of a barrier depends on where its words lie.

    python benchmarks/placement.py --out placement.json [--processes 14]

The words of a barrier stand in one slice of the second-level cache, which is nearer to some multiprocessors than to
others, and which slice it is depends on the physical address that a process happens to get. So one process measures one
draw of it, for each barrier its own. This measures the barriers of barrier_latency.py in many processes that hold their
memory at the same time, one after another on a GPU that is otherwise idle, and writes every raw sample.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import tempfile
from typing import Any

# Every process compiles the same kernels; the first one's come from the cache for the others, which inherit the folder.
os.environ["TILELANG_DISABLE_CACHE"] = "0"
if multiprocessing.parent_process() is None:
    os.environ["TILELANG_CACHE_DIR"] = tempfile.mkdtemp()

import machine
from barrier_latency import HEADLINE, compile_all
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tl_gridsync_pass.bench.barrier_loop import width_of
from tl_gridsync_pass.bench.barriers import BARRIERS
from tl_gridsync_pass.bench.timing import time_launches

# Without the grid that only stock and the pass can have resident.
GRIDS = HEADLINE[:-1]
PLAN = [(barrier, *grid) for grid in GRIDS for barrier in BARRIERS]
A_LAUNCH, LAUNCHES = 2000, 7


def measured(process: int) -> list[dict[str, Any]]:
    """All barriers on all grids, with the words where this process has them."""
    kernels = compile_all([(barrier.compile, *grid) for barrier, *grid in PLAN])
    for (_, blocks, threads), kernel in zip(PLAN, kernels, strict=True):
        time_launches(kernel, blocks, width_of(threads), 10, 0, 1)
    # From here on everyone has the memory that it measures with, until the last has measured.
    _everyone.wait()
    rows = []
    with _gpu:
        for (barrier, blocks, threads), kernel in zip(PLAN, kernels, strict=True):
            samples = time_launches(kernel, blocks, width_of(threads), A_LAUNCH, 0, LAUNCHES)
            rows.append({"process": process, "barrier": barrier.name, "blocks": blocks, "threads": threads, "ns": samples})
    _everyone.wait()
    return rows


def _take(lock: Any, barrier: Any) -> None:
    global _gpu, _everyone
    _gpu, _everyone = lock, barrier


def spread(values: list[float], digits: int) -> str:
    """Least, median and greatest."""
    return " ".join(f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))


def table(rows: list[dict[str, Any]]) -> Table:
    """Over the processes: the pass's time, and its share of each other barrier's in the same process."""
    others = [f"share of {barrier.name}" for barrier in BARRIERS[1:]]
    found = Table("blocks × threads", "pass, ns", *others, title="least, median, greatest")
    for blocks, threads in GRIDS:
        medians = [
            [
                statistics.median(row["ns"])
                for row in rows
                if row["barrier"] == barrier.name and (row["blocks"], row["threads"]) == (blocks, threads)
            ]
            for barrier in BARRIERS
        ]
        shares = [spread([ours / theirs for ours, theirs in zip(medians[0], of_other, strict=True)], 2) for of_other in medians[1:]]
        found.add_row(f"{blocks} × {threads}", spread(medians[0], 0), *shares)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--processes", type=int, default=14)
    args = parser.parse_args()
    console = Console(width=160)
    compile_all([(barrier.compile, *grid) for barrier, *grid in PLAN])
    spawn = multiprocessing.get_context("spawn")
    rows: list[dict[str, Any]] = []
    with spawn.Pool(args.processes, _take, (spawn.Lock(), spawn.Barrier(args.processes))) as pool:
        work = pool.imap(measured, range(args.processes), chunksize=1)
        for of_process in track(work, "processes", total=args.processes, console=console):
            rows += of_process
    shutil.rmtree(os.environ["TILELANG_CACHE_DIR"])
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "barriers": A_LAUNCH, "rows": rows}, file, indent=1)
    console.print(table(rows))


if __name__ == "__main__":
    main()
