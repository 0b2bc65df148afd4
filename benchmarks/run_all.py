"""Runs every benchmark and draws the plots.

    python benchmarks/run_all.py [--prefix h200] [--only NAME ...]

Results go to benchmarks/results/PREFIX-NAME.json, plots to docs/images/. Each benchmark runs in a process of its
own, so that one that fails or hangs leaves the others; the exit status says whether any did.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).parent
# Script, arguments, and after how many seconds it is ended.
BENCHMARKS = {
    "headline": ("barrier_latency.py", ["--rows", "headline"], 600),
    "sweep": ("barrier_latency.py", ["--rows", "sweep", "--launches", "3", "--barriers", "500"], 600),
    "placement": ("placement.py", [], 600),
    "variants": ("variants.py", [], 600),
    "l2-slices": ("l2_slices.py", [], 120),
    "whole-kernels": ("whole_kernels.py", [], 300),
    "split-phase": ("split_phase.py", [], 300),
    "launch-overhead": ("launch_overhead.py", [], 120),
    "compile-cost": ("compile_cost.py", [], 600),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prefix", default="h200", help="what the result files begin with, as a name for the machine")
    parser.add_argument("--only", nargs="+", choices=[*BENCHMARKS], default=[*BENCHMARKS])
    args = parser.parse_args()
    console = Console()
    (HERE / "results").mkdir(exist_ok=True)
    failed = []
    for number, name in enumerate(args.only, 1):
        script, arguments, limit = BENCHMARKS[name]
        console.rule(f"{number} of {len(args.only)}: {name}")
        out = HERE / "results" / f"{args.prefix}-{name}.json"
        start = time.monotonic()
        try:
            status = subprocess.run([sys.executable, HERE / script, "--out", out, *arguments], timeout=limit, check=False).returncode
        except subprocess.TimeoutExpired:
            status = -1
            console.print(f"[red]{name} was not done in {limit} s and was ended[/]")
        if status:
            failed.append(name)
        console.print(f"{name}: {'failed' if status else 'done'} after {time.monotonic() - start:.0f} s")
    console.rule("plots")
    if subprocess.run([sys.executable, HERE / "plots.py"], check=False).returncode:
        failed.append("plots")
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


if __name__ == "__main__":
    main()
