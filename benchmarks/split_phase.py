"""How much of a grid barrier the split phase hides behind work.

    python benchmarks/split_phase.py --out results.json [--launches 7] [--rounds 1000]

The same rounds of exchange and work three times: work after a full barrier, work between arrive and wait, and
work with no barrier. The share hidden is (full - split) / (full - work alone). Writes every raw sample, in
nanoseconds a round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("TILELANG_DISABLE_CACHE", "1")

import machine
import torch
from kernels.neighbours import FORMS, THREADS, exchange, expected
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tl_gridsync_pass.bench.barriers import compile_with_pass
from tl_gridsync_pass.bench.timing import finish

# One block for each multiprocessor, several, and enough for the striped protocol.
GRIDS = (132, 528, 1056)
# Multiplications a round, of about 4 cycles each.
WORK = (0, 100, 200, 400, 800, 1600)


def measure(form: str, kernel: Any, blocks: int, work: int, rounds: int, launches: int) -> dict[str, Any]:
    board = torch.zeros((2, blocks, THREADS), device="cuda")
    samples = []
    for launch in range(launches + 1):
        out = torch.zeros((blocks, THREADS), device="cuda")
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda._sleep(500_000)
        start.record()
        kernel(board, out, rounds, work)
        end.record()
        finish(end)
        if launch:
            samples.append(start.elapsed_time(end) * 1e6 / rounds)
    right = torch.tensor(expected(form, rounds, blocks), device="cuda")[:, None].expand(blocks, THREADS)
    if not torch.equal(out, right):
        raise SystemExit(f"wrong answer: {form}, {blocks} blocks, {work} multiplications")
    return {"form": form, "blocks": blocks, "threads": THREADS, "work": work, "ns": samples}


def table(rows: list[dict[str, Any]]) -> Table:
    """Medians side by side, and the share of the barrier that the split hides."""
    medians = {(row["blocks"], row["work"], row["form"]): statistics.median(row["ns"]) for row in rows}
    out = Table(title="ns a round, median")
    for column in ("blocks", "multiplications", *FORMS, "barrier", "hidden"):
        out.add_column(column, justify="right")
    for blocks, work in dict.fromkeys(key[:2] for key in medians):
        full, split, alone = (medians[blocks, work, form] for form in FORMS)
        cells = [f"{ns:.0f}" for ns in (full, split, alone, full - alone)]
        out.add_row(str(blocks), str(work), *cells, f"{(full - split) / (full - alone):.0%}")
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--launches", type=int, default=7)
    parser.add_argument("--rounds", type=int, default=1000)
    args = parser.parse_args()
    plan = [(blocks, form) for blocks in GRIDS for form in FORMS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = list(pool.map(lambda p: compile_with_pass(exchange(p[1], p[0])), plan))
    rows = []
    for (blocks, form), kernel in track(list(zip(plan, kernels, strict=True)), "measuring"):
        rows += [measure(form, kernel, blocks, work, args.rounds, args.launches) for work in WORK]
    rows.sort(key=lambda row: (row["blocks"], row["work"]))
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "rounds": args.rounds, "rows": rows}, file, indent=1)
    Console(width=160).print(table(rows))


if __name__ == "__main__":
    main()
