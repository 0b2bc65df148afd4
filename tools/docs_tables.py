"""Tables and pictures of the documentation, made from measured data when the site is built (a hook of MkDocs).

A page says ``<!-- insert: NAME -->``, where NAME is one of INSERTS. Data that has not been measured yet is said to
be missing, in words.
"""

from __future__ import annotations

import json
import re
import statistics
from collections.abc import Callable
from pathlib import Path
from typing import Any

from matrix import MARKS

# Of the time that two words in different slices take; see benchmarks/l2_slices.py.
SHARED_ABOVE = 1.2

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
IMAGES = ROOT / "docs" / "images"
README = ROOT / "README.md"
MARK = re.compile(r"<!-- insert: (\S+) -->")
ROLE = re.compile(r":(?:class|func|mod|meth):<code>(?:~(?:\w+\.)*)?([\w.]+)</code>")
ERROR = re.compile(r"^(?:E +)?(?:\w+\.)*(\w+(?:Error|Exception))\b", re.MULTILINE)
TESTS = re.compile(r"(\d+) (failed|passed|error)")
SUMMARY = re.compile(r"^.*\d+ (?:failed|passed|error).* in [\d.]+s.*$", re.MULTILINE)
LAUNCH_US = re.compile(r"^launch: ([\d.]+) us$|^Latency: ([\d.]+) ms$", re.MULTILINE)
# Bytes; the words of a slot are in one page of this size.
PAGE = 4096
NOT_ONE_OF_THE_PLOTS = {"timeline.svg"}


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Put each insert where its mark stands; called by MkDocs."""
    return MARK.sub(lambda mark: INSERTS[mark.group(1)](), markdown)


def on_page_content(html: str, **_: Any) -> str:
    """Docstrings name other objects in Sphinx's way, which MkDocs does not know; called by MkDocs."""
    return ROLE.sub(r"<code>\1</code>", html)


def headline() -> str:
    """Median time of one barrier, a column for each barrier that was measured."""
    file = RESULTS / "h200-headline.json"
    if not file.exists():
        return f"*Not measured yet: `benchmarks/results/{file.name}` is missing.*"
    data = json.loads(file.read_text())
    return headline_table(data) + "\n\n" + machine(data["machine"])


def headline_table(data: dict[str, Any]) -> str:
    """The table of ``barrier_latency.py --rows headline``: ns a barrier, median over launches."""
    rows = [row for row in data["rows"] if row["static"]]
    barriers = list(dict.fromkeys(row["barrier"] for row in rows))
    medians: dict[tuple[str, bool], dict[str, float]] = {}
    for row in rows:
        medians.setdefault((_shape(row), row["dirty"]), {})[row["barrier"]] = statistics.median(row["ns"])
    lines = [f"| blocks × threads | stores before it | {' | '.join(barriers)} |", "| --- | --- |" + " ---: |" * len(barriers)]
    for (shape, dirty), of in medians.items():
        fastest = min(of.values())
        cells = [_cell(of.get(barrier), fastest) for barrier in barriers]
        lines.append(f"| {shape} | {'one a thread' if dirty else 'none'} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(ns: float | None, fastest: float) -> str:
    if ns is None:
        return "not resident"
    return f"**{ns:.0f}**" if ns == fastest else f"{ns:.0f}"


def launch_overhead() -> str:
    """Median time of a call of a kernel, with the plugin's wrapper around it and without."""
    data = json.loads((RESULTS / "h200-launch-overhead.json").read_text())
    lines = ["| kernel | µs a call |", "| --- | ---: |"]
    lines += [f"| {name} | {statistics.median(samples):.1f} |" for name, samples in data["us a call"].items()]
    return "\n".join(lines) + "\n\n" + machine(data["machine"])


def compile_cost() -> str:
    """Median CPU time of a compilation with the plugin, of what the plugin does in it, and the share."""
    data = json.loads((RESULTS / "compile-cost-no-gpu.json").read_text())
    return compile_cost_table(data) + "\n\n" + machine(data["machine"])


def compile_cost_table(data: dict[str, Any]) -> str:
    """The table of ``compile_cost.py``: medians over the compilations with the plugin, without each kernel's first."""
    rows = [row for row in data["rows"] if row["form"] == "plugin" and row["round"] > 0]
    lines = [
        "| kernel | compilation, ms | of that without nvcc | verification | pass | plugin in all | share | share without nvcc |",
        "| --- |" + " ---: |" * 7,
    ]
    for name in dict.fromkeys(row["kernel"] for row in rows):
        of = [row for row in rows if row["kernel"] == name]
        whole, own = (f"{1e3 * statistics.median(row[part] for row in of):.0f}" for part in ("compile", "without nvcc"))
        parts = [f"{1e3 * statistics.median(row[part] for row in of):.1f}" for part in ("verification", "pass", "plugin")]
        shares = [f"{statistics.median(row['plugin'] / row[part] for row in of):.2%}" for part in ("compile", "without nvcc")]
        lines.append(f"| {' | '.join([name, whole, own, *parts, *shares])} |")
    return "\n".join(lines)


def counters() -> str:
    """What the hardware counted in one barrier, a row for each barrier and shape of block."""
    data = json.loads((RESULTS / "h200-counters.json").read_text())
    words = list(data["metrics"])
    lines = [f"| barrier | blocks × threads | {' | '.join(words)} |", "| --- | --- |" + " ---: |" * len(words)]
    for row in data["rows"]:
        cells = " | ".join(f"{row['one barrier'][word]:.0f}" for word in words)
        lines.append(f"| {row['barrier']} | {_shape(row)} | {cells} |")
    return "\n".join([*lines, "", machine(data["machine"])])


def placement() -> str:
    """What became of one barrier in many processes: its time, and its share of the others' in the same process."""
    data = json.loads((RESULTS / "h200-placement.json").read_text())
    of: dict[str, dict[str, list[float]]] = {}
    for row in data["rows"]:
        of.setdefault(_shape(row), {}).setdefault(row["barrier"], []).append(statistics.median(row["ns"]))
    others = [barrier for barrier in next(iter(of.values())) if barrier != "pass"]
    lines = [f"| blocks × threads | pass, ns | {' | '.join(f'of {other}' for other in others)} |", "| --- |" + " --- |" * (1 + len(others))]
    for shape, medians in of.items():
        shares = [[ours / theirs for ours, theirs in zip(medians["pass"], medians[other], strict=True)] for other in others]
        cells = [_spread(medians["pass"], 0), *(_spread(share, 2) for share in shares)]
        lines.append(f"| {shape} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", machine(data["machine"])])


def _spread(values: list[float], digits: int) -> str:
    least, middle, greatest = (f"{value:.{digits}f}" for value in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({least} to {greatest})"


def l2_slices() -> str:
    """How often two words at a distance shared a slice of the second-level cache, in one page and across its end."""
    data = json.loads((RESULTS / "h200-l2-slices.json").read_text())
    lines = ["| bytes apart | in one page: pairs | in one slice | across pages: pairs | in one slice |", "| ---: |" + " ---: |" * 4]
    for row in data["distances"]:
        counts = {True: [0, 0], False: [0, 0]}
        for base, us in zip(data["bases"], row["us"], strict=True):
            of = counts[base % PAGE + row["distance"] < PAGE]
            of[0] += 1
            of[1] += us > SHARED_ABOVE * data["us apart"]
        lines.append(f"| {row['distance']} | {' | '.join(str(count) for within in (True, False) for count in counts[within])} |")
    return "\n".join([*lines, "", machine(data["machine"])])


def variants() -> str:
    """Time of one barrier with parts of the protocol replaced, a column for each grid, without stores before it."""
    data = json.loads((RESULTS / "h200-variants.json").read_text())
    rows = [row for row in data["rows"] if not row["dirty"]]
    shapes = list(dict.fromkeys(map(_shape, rows)))
    of: dict[tuple[str, str, int], dict[str, float]] = {}
    for row in rows:
        of.setdefault((row["arrival"], row["wait"], row["pause"]), {})[_shape(row)] = statistics.median(row["ns"])
    lines = [f"| arrival | wait | pause | {' | '.join(shapes)} |", "| --- | --- | ---: |" + " ---: |" * len(shapes)]
    for (arrival, wait, pause), medians in of.items():
        lines.append(f"| {arrival} | {wait} | {pause} | {' | '.join(f'{medians[shape]:.0f}' for shape in shapes)} |")
    return "\n".join([*lines, "", machine(data["machine"])])


def machine(of: dict[str, Any]) -> str:
    """What it was measured on, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in of["versions"].items())
    if of["gpu"] is None:
        return f"*No GPU; {of['cpus']} cores of {of['cpu']}, {versions}; {of['date'][:10]}.*"
    driver = of["nvidia-smi"]["driver_version"]
    return f"*{of['gpu']}, driver {driver}, CUDA {of['cuda']}, {versions}; {of['date'][:10]}.*"


def plots() -> str:
    """Every picture that benchmarks/plots.py has drawn, under the title that its file name gives."""
    files = [file for file in sorted(IMAGES.glob("*.svg")) if file.name not in NOT_ONE_OF_THE_PLOTS]
    if not files:
        return "*Not drawn yet: `docs/images/` holds no plots.*"
    return "\n\n".join(f"![{file.stem.replace('-', ' ')}](images/{file.name})" for file in files)


def real_kernels() -> str:
    """Whether each kernel of tools/real_kernels.py agrees with its own reference, and its time, a column for each setting."""
    return real_kernels_table(json.loads((RESULTS / "h200-real-kernels.json").read_text()))


def real_kernels_table(kernels: list[dict[str, Any]]) -> str:
    """The table of what tools/real_kernels.py wrote."""
    settings = list(kernels[0]["runs"])
    lines = [f"| kernel | from | {' | '.join(settings)} |", "| --- | --- |" + " --- |" * len(settings)]
    for kernel in kernels:
        cells = ["; ".join(dict.fromkeys(map(_run_of_real_kernel, kernel["runs"][setting]))) for setting in settings]
        lines.append(f"| {kernel['name']} | {kernel['source']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _run_of_real_kernel(run: dict[str, Any]) -> str:
    """What a run found, in words: of a test-suite how many tests passed, of a kernel its time where it printed one."""
    if run["outcome"] == "timed out":
        return f"no end within {run['seconds']:.0f} s"
    if summaries := SUMMARY.findall(run["printed"]):
        counts = {word: int(number) for number, word in TESTS.findall(summaries[-1])}
        return f"{counts.get('passed', 0)} of {sum(counts.values())} tests pass"
    if run["outcome"] == "right":
        time = LAUNCH_US.findall(run["printed"])
        if not time:
            return "right"
        us, ms = time[-1]
        return f"right, {float(us) if us else float(ms) * 1000:.0f} µs a launch"
    errors = [error for error in ERROR.findall(run["printed"]) if error != "AssertionError"]
    return f"fails: `{errors[-1]}`" if errors else "**wrong**"


def matrix() -> str:
    """The table that `nox -s table` has put into README.md."""
    table = README.read_text().partition(MARKS[0])[2].partition(MARKS[1])[0].strip()
    return table or "*Not run yet: `nox -s wheel matrix table` fills this in.*"


def _shape(row: dict[str, Any]) -> str:
    threads = row["threads"]
    return f"{row['blocks']} × {'(' + ', '.join(map(str, threads)) + ')' if isinstance(threads, list) else threads}"


INSERTS: dict[str, Callable[[], str]] = {
    "headline": headline,
    "launch-overhead": launch_overhead,
    "compile-cost": compile_cost,
    "counters": counters,
    "placement": placement,
    "l2-slices": l2_slices,
    "variants": variants,
    "plots": plots,
    "matrix": matrix,
    "real-kernels": real_kernels,
}
