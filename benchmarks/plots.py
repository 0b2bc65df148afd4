"""Draws the results of the benchmarks as SVG: latency over blocks, whole kernels, and the split phase.

    python benchmarks/plots.py [--results benchmarks/results] [--images docs/images]

Reads every JSON file of the folder and tells what it is by what is in it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
from matplotlib.ticker import ScalarFormatter

ROOT = Path(__file__).parents[1]
COLOURS = {
    "pass": "#0072b2",
    "pass, split": "#56b4e9",
    "cooperative groups": "#e69f00",
    "stock": "#d55e00",
    "upstream shape": "#999999",
    "pass with watchdog": "#000000",
    "separate": "#009e73",
    "separate, graph": "#cc79a7",
}
Result = dict[str, Any]


def latency_over_blocks(result: Result) -> plt.Figure:
    """One panel for each block size, one line for each barrier: median, and the spread of the samples as a band."""
    rows = [row for row in result["rows"] if not row["dirty"] and isinstance(row["threads"], int)]
    sizes = [size for size in sorted({row["threads"] for row in rows}) if len({r["blocks"] for r in rows if r["threads"] == size}) > 1]
    figure, panels = plt.subplots(1, len(sizes), figsize=(4 * len(sizes) + 1, 4), sharey=True, squeeze=False)
    for panel, size in zip(panels[0], sizes, strict=True):
        for name in dict.fromkeys(row["barrier"] for row in rows):
            line = sorted((r for r in rows if r["threads"] == size and r["barrier"] == name), key=lambda r: r["blocks"])
            blocks, colour = [r["blocks"] for r in line], COLOURS.get(name)
            panel.plot(blocks, [statistics.median(r["ns"]) for r in line], marker="o", markersize=3, label=name, color=colour)
            panel.fill_between(blocks, [min(r["ns"]) for r in line], [max(r["ns"]) for r in line], alpha=0.2, color=colour)
        panel.set(xscale="log", yscale="log", xlabel="blocks", title=f"{size} threads a block")
        for axis in (panel.xaxis, panel.yaxis):
            axis.set_major_formatter(ScalarFormatter())
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("ns a barrier")
    panels[0][-1].legend()
    return titled(figure, result, "One grid barrier")


def whole_kernels(result: Result) -> plt.Figure:
    """Bars: how many times faster one launch with the pass is than each other form; below 1 the barrier loses."""
    medians = {(row["kernel"], row["form"]): statistics.median(row["us"]) for row in result["rows"]}
    kernels = list(dict.fromkeys(row["kernel"] for row in result["rows"]))
    forms = [form for form in dict.fromkeys(row["form"] for row in result["rows"]) if form != "pass"]
    figure, panel = plt.subplots(figsize=(2.4 * len(kernels) + 2, 4))
    width = 0.8 / len(forms)
    for number, form in enumerate(forms):
        known = [(i, medians[k, form] / medians[k, "pass"]) for i, k in enumerate(kernels) if (k, form) in medians]
        bars = panel.bar([i + (number - (len(forms) - 1) / 2) * width for i, _ in known], [y for _, y in known], width, label=form)
        panel.bar_label(bars, fmt="%.2f", fontsize=7)
        for bar in bars:
            bar.set_color(COLOURS[form])
    panel.axhline(1, color="black", linewidth=0.8)
    panel.set_xticks(range(len(kernels)), kernels)
    panel.set_ylabel("time over that of one launch with the pass")
    panel.legend()
    return titled(figure, result, "Whole kernels")


def split_phase(result: Result) -> plt.Figure:
    """One panel for each grid: ns a round over the work in it, with a full barrier, a split one, and none."""
    grids = list(dict.fromkeys(row["blocks"] for row in result["rows"]))
    figure, panels = plt.subplots(1, len(grids), figsize=(4 * len(grids) + 1, 4), squeeze=False)
    for panel, blocks in zip(panels[0], grids, strict=True):
        for form in dict.fromkeys(row["form"] for row in result["rows"]):
            line = [row for row in result["rows"] if row["blocks"] == blocks and row["form"] == form]
            panel.plot([row["work"] for row in line], [statistics.median(row["ns"]) for row in line], marker="o", label=form)
        panel.set(xlabel="multiplications a round", title=f"{blocks} blocks", ylim=(0, None))
        panel.grid(alpha=0.3)
    panels[0][0].set_ylabel("ns a round")
    panels[0][-1].legend()
    return titled(figure, result, "Work around a full barrier, and between the phases of a split one")


def titled(figure: plt.Figure, result: Result, title: str) -> plt.Figure:
    machine = result["machine"]
    figure.suptitle(f"{title} ({machine['gpu']}, {machine['date'][:10]})")
    figure.tight_layout()
    return figure


def drawing_for(result: Result) -> Callable[[Result], plt.Figure] | None:
    """The function that draws ``result``, or None where there is none."""
    rows = result.get("rows") or [{}]
    if {"barrier", "ns"} <= rows[0].keys():
        return latency_over_blocks
    if {"form", "us"} <= rows[0].keys():
        return whole_kernels
    if {"form", "work", "ns"} <= rows[0].keys():
        return split_phase
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--images", type=Path, default=ROOT / "docs" / "images")
    args = parser.parse_args()
    mpl.use("svg")
    # The same file for the same numbers.
    mpl.rcParams["svg.hashsalt"] = "tl_gridsync_pass"
    args.images.mkdir(parents=True, exist_ok=True)
    drawn = 0
    for file in sorted(args.results.glob("*.json")):
        result = json.loads(file.read_text())
        if not isinstance(result, dict):
            # The runs of other people's kernels, which have no curve.
            continue
        draw = drawing_for(result)
        if draw is None:
            continue
        figure = draw(result)
        figure.savefig(args.images / f"{file.stem}.svg", metadata={"Date": None})
        plt.close(figure)
        print(args.images / f"{file.stem}.svg")
        drawn += 1
    if not drawn:
        sys.exit(f"nothing to draw in {args.results}")


if __name__ == "__main__":
    main()
