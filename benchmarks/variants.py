"""What each part of the barrier costs, and what else was tried: the protocol for small grids with parts replaced.

    python benchmarks/variants.py --out variants.json

Each variant changes the PTX of ``tl_gridsync_pass.protocol.LAUNCH``, compiles the barrier loop of barrier_latency.py in
a process of its own, and times it while no other variant is on the GPU. Variants that are marked as not legal let a
read miss a write; they tell what the part left out costs.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
from dataclasses import replace
from typing import Any

os.environ["TILELANG_DISABLE_CACHE"] = "1"

import machine
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tl_gridsync_pass import protocol
from tl_gridsync_pass.bench.barrier_loop import barrier_loop, width_of
from tl_gridsync_pass.bench.barriers import compile_with_pass
from tl_gridsync_pass.bench.timing import time_launches

GRIDS = [(2, 64), (33, 128), (132, 128), (132, (32, 8)), (132, 1024), (264, 256)]
PAUSES = (60, 90, 120, 150, 180, 210)
BARRIERS, LAUNCHES = 2000, 7

_RELEASE = "fence.release.gpu;"
_ADD = "red.relaxed.gpu.global.add.u32 [$0], $1;"
_POLL = "ld.relaxed.gpu.global.u32 %now, [$0];"
_ACQUIRE = "ld.acquire.gpu.global.u32 %now, [$0];"

ARRIVALS: dict[str, dict[str, str]] = {
    "as shipped": {},
    "release on the addition": {_RELEASE: "", _ADD: "red.release.gpu.global.add.u32 [$0], $1;"},
    "fence of both sides": {_RELEASE: "fence.acq_rel.gpu;"},
    "addition with a result": {_ADD: "{ .reg .b32 %before; atom.relaxed.gpu.global.add.u32 %before, [$0], $1; }"},
    "no release (not legal)": {_RELEASE: ""},
}
WAITS: dict[str, dict[str, str]] = {
    "as shipped": {},
    "acquire polls": {_POLL: _ACQUIRE, _ACQUIRE: ""},
    "acquire fence": {_ACQUIRE: "fence.acquire.gpu;"},
    "no acquire (not legal)": {_ACQUIRE: ""},
}


def variants() -> list[tuple[str, str, int]]:
    """An arrival, a wait and a pause each: every legal wait with every pause, and every arrival and wait with the shipped one."""
    shipped = protocol.pause_cycles_above_four(0)
    waits = [("as shipped", wait, pause) for wait in WAITS for pause in PAUSES if "not legal" not in wait]
    arrivals = [(arrival, wait, shipped) for arrival in ARRIVALS for wait in WAITS]
    return list(dict.fromkeys(waits + arrivals))


def apply(arrival: str, wait: str, pause: int) -> None:
    """Put the variant in the place of the shipped protocol, in this process."""
    shipped = protocol.LAUNCH
    protocol.LAUNCH = replace(
        shipped,
        arrive=replace(shipped.arrive, text=edited(shipped.arrive.text, ARRIVALS[arrival])),
        wait=replace(shipped.wait, text=edited(shipped.wait.text, WAITS[wait])),
    )
    protocol.pause_cycles_above_four = lambda blocks: blocks + pause


def edited(text: str, edits: dict[str, str]) -> str:
    """``text`` with each statement replaced that ``edits`` names; each must be there once."""
    lines = [line.strip() for line in text.splitlines()]
    for old in edits:
        assert lines.count(old) == 1, f"the protocol no longer has the one statement {old}"
    return "\n".join(edits.get(line, line) for line in lines)


def measured(variant: tuple[str, str, int]) -> list[dict[str, Any]]:
    """Compile the loop with the variant, wait for the GPU, and time it."""
    apply(*variant)
    kernels = [compile_with_pass(barrier_loop(*grid)) for grid in GRIDS]
    # The cubins are made at the first launch, which needs no quiet.
    for (blocks, threads), kernel in zip(GRIDS, kernels, strict=True):
        time_launches(kernel, blocks, width_of(threads), 10, 0, 1)
    rows = []
    with _gpu:
        for (blocks, threads), kernel in zip(GRIDS, kernels, strict=True):
            for stores in (0, 1):
                samples = time_launches(kernel, blocks, width_of(threads), BARRIERS, stores, LAUNCHES)
                rows.append({"blocks": blocks, "threads": threads, "dirty": bool(stores), "ns": samples})
    return [{"arrival": variant[0], "wait": variant[1], "pause": variant[2], **row} for row in rows]


def _take(lock: Any) -> None:
    global _gpu
    _gpu = lock


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--processes", type=int, default=os.cpu_count(), help="how many variants are compiled at a time")
    args = parser.parse_args()
    console = Console(width=200)
    spawn = multiprocessing.get_context("spawn")
    plan = variants()
    rows: list[dict[str, Any]] = []
    with spawn.Pool(args.processes, _take, (spawn.Lock(),), maxtasksperchild=1) as pool:
        for of_variant in track(pool.imap(measured, plan, chunksize=1), "variants", total=len(plan), console=console):
            rows += of_variant
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "barriers": BARRIERS, "rows": rows}, file, indent=1)
    grids = [f"{blocks} × {threads}" for blocks, threads in GRIDS]
    table = Table("arrival", "wait", "pause", *grids, title="ns a barrier, clean and dirty")
    for variant in plan:
        of = [row for row in rows if (row["arrival"], row["wait"], row["pause"]) == variant]
        medians = [statistics.median(row["ns"]) for row in of]
        cells = [f"{clean:.0f} {dirty:.0f}" for clean, dirty in zip(medians[::2], medians[1::2], strict=True)]
        table.add_row(variant[0], variant[1], str(variant[2]), *cells)
    console.print(table)


if __name__ == "__main__":
    main()
