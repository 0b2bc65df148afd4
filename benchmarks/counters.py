"""What the hardware counts in one grid barrier: ``python benchmarks/counters.py --out counters.json``.

Nsight Compute (``ncu`` on PATH) runs the barrier loop of barrier_latency.py once with each barrier, on the blocks where stock has many
leaders and on as many threads in one row, where it has one, and reads the counters below. Each is written for the whole
launch and for one barrier. The clocks are left as they are, so the times are comparable with those of barrier_latency.py.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import subprocess
import sys
from contextlib import nullcontext
from typing import Any

os.environ.setdefault("TILELANG_DISABLE_CACHE", "1")

import machine
import torch
from barrier_latency import compile_all
from barriers import upstream_shape
from rich.console import Console
from rich.table import Table

from tl_gridsync_pass.bench.barrier_loop import width_of
from tl_gridsync_pass.bench.barriers import BARRIERS, compile_stock
from tl_gridsync_pass.bench.timing import finish

BARRIERS_A_LAUNCH = 2000
GRIDS = [(132, (32, 8)), (132, 256)]
# What it is in words: the metric of Nsight Compute. L2 requests are those of the multiprocessors' load and store units.
METRICS = {
    "ns": "gpu__time_duration.sum",
    "instructions": "smsp__inst_executed.sum",
    "L2 atomics": "lts__t_requests_srcunit_tex_op_atom.sum",
    "L2 reductions": "lts__t_requests_srcunit_tex_op_red.sum",
    "L2 reads": "lts__t_requests_srcunit_tex_op_read.sum",
    "L2 writes": "lts__t_requests_srcunit_tex_op_write.sum",
    "L2 fences": "lts__t_requests_srcunit_tex_op_membar.sum",
}
PLAN = [(*barrier, *grid) for grid in GRIDS for barrier in [*((b.name, b.compile) for b in BARRIERS), ("upstream shape", compile_stock)]]


def launch_all() -> None:
    """One launch of each barrier of PLAN, in its order; what ncu looks at."""
    kernels = compile_all([(compile_, blocks, threads) for _, compile_, blocks, threads in PLAN])
    for (name, _, blocks, threads), kernel in zip(PLAN, kernels, strict=True):
        data = torch.zeros((blocks, width_of(threads)), dtype=torch.int32, device="cuda")
        with upstream_shape() if name == "upstream shape" else nullcontext():
            kernel(data, BARRIERS_A_LAUNCH, 0)
        done = torch.cuda.Event()
        done.record()
        finish(done)


def counted() -> list[dict[str, float]]:
    """The counters of each launch of PLAN, under the words of METRICS."""
    command = ["ncu", "--clock-control", "none", "--csv", "--page", "raw", "--print-units", "base", "-k", "regex:barrier_loop"]
    command += ["--metrics", ",".join(METRICS.values()), sys.executable, __file__, "--launch"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=400, check=False)
    lines = [line for line in run.stdout.splitlines() if line.startswith('"')]
    # The second line holds the units.
    rows = list(csv.DictReader([lines[0], *lines[2:]])) if lines else []
    if len(rows) != len(PLAN):
        sys.exit(f"ncu saw {len(rows)} launches of {len(PLAN)}:\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")
    return [{name: float(row[metric].replace(",", "")) for name, metric in METRICS.items()} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--out")
    what.add_argument("--launch", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.launch:
        launch_all()
        return
    table = Table(title="counted in one barrier")
    for column in ("barrier", "blocks x threads", *METRICS):
        table.add_column(column, justify="left" if column == "barrier" else "right")
    rows: list[dict[str, Any]] = []
    for (name, _, blocks, threads), counts in zip(PLAN, counted(), strict=True):
        each = {word: count / BARRIERS_A_LAUNCH for word, count in counts.items()}
        rows.append({"barrier": name, "blocks": blocks, "threads": threads, "launch": counts, "one barrier": each})
        table.add_row(name, f"{blocks} x {threads}", *(f"{value:.0f}" for value in each.values()))
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "barriers": BARRIERS_A_LAUNCH, "metrics": METRICS, "rows": rows}, file, indent=1)
    Console(width=160).print(table)


if __name__ == "__main__":
    main()
