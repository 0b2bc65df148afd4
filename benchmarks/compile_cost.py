"""What the pass and the verification add to ``tilelang.compile``; needs no GPU.

    python benchmarks/compile_cost.py --out results.json [--rounds 5]

Compiles each whole kernel with the pass and without, in turn and without the kernel cache, and times the pass's
two parts inside the compilation. Writes every raw sample, in seconds of wall clock. The share is the time spent
in the two parts over the whole compilation with them; the difference of the two compilations is much smaller
than the noise of either on a machine that does anything else.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

os.environ["TILELANG_DISABLE_CACHE"] = "1"

import machine
import tilelang
from kernels import CASES, Case
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tl_gridsync_pass as gs
from tl_gridsync_pass import lowering
from tl_gridsync_pass.handoff import CUTEDSL_TARGET
from tl_gridsync_pass.seams import offline

PARTS = {"rejoin": "pass", "verify_barriers": "verification", "lower_grid_sync": "pass"}


class Parts:
    """While open, adds up the seconds spent in the parts of :func:`tl_gridsync_pass.lowering.verify_and_lower`."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(PARTS.values(), 0.0)
        self._originals = {name: getattr(lowering, name) for name in PARTS}

    def __enter__(self) -> dict[str, float]:
        for name, part in PARTS.items():
            setattr(lowering, name, self._timed(self._originals[name], part))
        return self.seconds

    def __exit__(self, *_: object) -> None:
        for name, original in self._originals.items():
            setattr(lowering, name, original)

    def _timed(self, original: Callable[..., Any], part: str) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            start = time.perf_counter()
            try:
                return original(*args, **kwargs)
            finally:
                self.seconds[part] += time.perf_counter() - start

        return timed


def compile_once(case: Case, passes: list[gs.GridSyncPass]) -> dict[str, float]:
    with Parts() as seconds:
        start = time.perf_counter()
        tilelang.compile(
            case.one_launch(), target=CUTEDSL_TARGET, execution_backend="cutedsl", passes=passes, pass_configs=dict(case.pass_configs)
        )
        whole = time.perf_counter() - start
    return {"compile": whole, **seconds}


def table(rows: list[dict[str, Any]]) -> Table:
    """Medians in milliseconds, and what was added as a share of the compilation."""
    out = Table(title="ms, median")
    for column in ("kernel", "compile, stock", "compile, pass", "pass", "verification", "share"):
        out.add_column(column, justify="right")
    for name in dict.fromkeys(row["kernel"] for row in rows):
        of = [row for row in rows if row["kernel"] == name]
        stock, whole = (statistics.median(r["compile"] for r in of if r["form"] == form) for form in ("stock", "pass"))
        parts = [statistics.median(r[part] for r in of if r["form"] == "pass") for part in ("pass", "verification")]
        out.add_row(name, *(f"{1e3 * s:.1f}" for s in (stock, whole, *parts)), f"{share(of):.2%}")
    return out


def share(rows: list[dict[str, Any]]) -> float:
    """The median over the compilations with the pass of its two parts over the whole."""
    return statistics.median((r["pass"] + r["verification"]) / r["compile"] for r in rows if r["form"] == "pass")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    logging.getLogger("tilelang").setLevel(logging.WARNING)
    rows: list[dict[str, Any]] = []
    with offline.linkable_driver():
        # Once to warm up: the first compilation loads TileLang's templates and CuTe DSL.
        for number in track(range(args.rounds + 1), "compiling"):
            for case in CASES:
                for form, passes in (("stock", []), ("pass", [gs.GridSyncPass()])):
                    measured = compile_once(case, passes)
                    if number:
                        rows.append({"kernel": case.name, "form": form, **measured})
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "rows": rows}, file, indent=1)
    Console(width=140).print(table(rows))


if __name__ == "__main__":
    main()
