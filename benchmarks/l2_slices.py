"""How far apart two words have to be to lie in different slices of the second-level cache.

    python benchmarks/l2_slices.py --out l2-slices.json [--bases 500]

The striped barrier counts in four words at once, which helps only where four slices do the adding. Which slice has a word
is a hash of its physical address, which NVIDIA does not publish, so this asks the GPU: blocks add to two words at a
distance, from many places in memory, and take about twice as long where one slice has both. Needs nvcc.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import machine
from rich.console import Console
from rich.table import Table

SOURCE = Path(__file__).with_name("l2_slices.cu")
# Those of the shipped layout, those of the one before it, and others.
DISTANCES = (128, 256, 512, 768, 1024, 1536, 2048, 3072, 4096, 5120, 6144, 8192, 9216, 12288, 16384)
# Of the time that two words in different slices take; one slice for both takes 1.3 to 2.2 of it.
SHARED_ABOVE = 1.2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--bases", type=int, default=500, help="places in memory to start from (default: 500)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        program = Path(folder) / "l2_slices"
        subprocess.run(["nvcc", "-arch=native", "-O2", "-o", program, SOURCE], check=True)
        command = [program, "1", str(args.bases), *map(str, DISTANCES)]
        ran = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, timeout=600)
    rows = [(int(distance), int(base), float(time)) for distance, base, time in map(str.split, ran.stdout.splitlines())]
    bases = [base for distance, base, _ in rows if distance == DISTANCES[0]]
    apart = statistics.median(time for *_, time in rows)
    table = Table("bytes apart", "pairs", "in one slice", "least µs", "greatest µs", title=f"different slices: {apart:.1f} µs")
    found = []
    for distance in DISTANCES:
        times = [time for d, _, time in rows if d == distance]
        shared = sum(time > SHARED_ABOVE * apart for time in times)
        found.append({"distance": distance, "pairs": len(times), "in one slice": shared, "us": times})
        table.add_row(str(distance), str(len(times)), str(shared), f"{min(times):.1f}", f"{max(times):.1f}")
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "us apart": apart, "bases": bases, "distances": found}, file)
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
