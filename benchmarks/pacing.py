"""How long the leader should pause before it polls: the constants in protocol.py against others.

    python benchmarks/pacing.py --out results.json

Compiles the same kernels with other constants in the protocol texts, without the kernel cache.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

os.environ["TILELANG_DISABLE_CACHE"] = "1"

import machine
from rich.console import Console
from rich.table import Table

from tl_gridsync_pass import protocol
from tl_gridsync_pass.bench.barrier_loop import barrier_loop, width_of
from tl_gridsync_pass.bench.barriers import compile_with_pass
from tl_gridsync_pass.bench.timing import time_launches

FIXED = {"grids": [(33, 128), (132, 128), (132, 1024), (264, 256)], "values": [60, 100, 150, 200, 250]}
RANKED = {"grids": [(528, 256)], "values": [200, 300, 400]}
STRIPED = {"grids": [(1056, 128), (2112, 128)], "values": [20, 22, 24, 26, 30]}


def fixed(value: int) -> None:
    protocol.pause_cycles_above_four = lambda blocks: blocks + value


def ranked(value: int) -> None:
    text = _ranked_text.replace("340;", f"{value + 40};").replace("%cycles, 300;", f"%cycles, {value};")
    protocol.LAUNCH_RANKED = replace(protocol.LAUNCH_RANKED, pace=replace(protocol.PACE_RANKED, text=text))


def striped(value: int) -> None:
    text = _striped_text.replace("$0, 28;", f"$0, {value};")
    protocol.LAUNCH_STRIPED = replace(protocol.LAUNCH_STRIPED, pace=replace(protocol.PACE_STRIPED, text=text))


_ranked_text, _striped_text = protocol.PACE_RANKED.text, protocol.PACE_STRIPED.text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    args = parser.parse_args()
    rows = []
    for name, plan, apply in (("fixed", FIXED, fixed), ("ranked", RANKED, ranked), ("striped", STRIPED, striped)):
        cases = [(value, blocks, threads) for value in plan["values"] for blocks, threads in plan["grids"]]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            kernels = list(pool.map(lambda case: compile_with_pass(barrier_loop(*case[1:])), cases))
        for (value, blocks, threads), kernel in zip(cases, kernels, strict=True):
            # The texts are read when the cubin is made, at the first launch.
            apply(value)
            for stores in (0, 1):
                samples = time_launches(kernel, blocks, width_of(threads), 2000, stores, 3)
                rows.append({"pause": name, "value": value, "blocks": blocks, "threads": threads, "dirty": bool(stores), "ns": samples})
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "rows": rows}, file, indent=1)
    console = Console(width=160)
    for name in ("fixed", "ranked", "striped"):
        of = [row for row in rows if row["pause"] == name]
        table = Table(title=f"{name} pause: ns a barrier, clean and dirty")
        table.add_column("value")
        grids = list(dict.fromkeys((r["blocks"], r["threads"]) for r in of))
        for blocks, threads in grids:
            table.add_column(f"{blocks} x {threads}")
        for value in dict.fromkeys(r["value"] for r in of):
            cells = []
            for grid in grids:
                found = [r for r in of if r["value"] == value and (r["blocks"], r["threads"]) == grid]
                cells.append(" ".join(f"{statistics.median(r['ns']):.0f}" for r in found))
            table.add_row(str(value), *cells)
        console.print(table)


if __name__ == "__main__":
    main()
