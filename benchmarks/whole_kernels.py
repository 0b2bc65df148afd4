"""Time of whole kernels: one launch with the pass, one with the stock barrier, and a launch for each phase.

    python benchmarks/whole_kernels.py --out results.json [--launches 20]

Writes every raw sample, in microseconds for the whole computation, between two CUDA events. The device is kept
busy for about 0.3 ms while the host queues the work, so that a short computation is timed without the host;
where separate launches take the host longer than that, its time is in them. "separate, graph" replays the
same launches from a CUDA graph and has no host in it. Each form's answer is held against torch first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ.setdefault("TILELANG_DISABLE_CACHE", "1")

import machine
import torch
from kernels import CASES, Case
from rich.console import Console
from rich.progress import track
from rich.table import Table

from tl_gridsync_pass.bench.barriers import compile_stock, compile_with_pass
from tl_gridsync_pass.bench.timing import finish

FORMS = ("pass", "pass, split", "stock", "separate", "separate, graph")
WARM_UPS = 3


def compile_all(cases: tuple[Case, ...]) -> dict[tuple[str, str], Any]:
    """Every kernel of ``cases`` by (case, "pass" or "stock" or the phase's name)."""
    plan: list[tuple[tuple[str, str], Callable[..., Any], Any, Any]] = []
    for case in cases:
        plan.append(((case.name, "pass"), compile_with_pass, case.one_launch, case.pass_configs))
        plan.append(((case.name, "stock"), compile_stock, case.one_launch, case.pass_configs))
        if case.split is not None:
            plan.append(((case.name, "pass, split"), compile_with_pass, case.split, case.pass_configs))
        plan += [((case.name, name), compile_stock, make, case.pass_configs) for name, make in case.phases.items()]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        kernels = pool.map(lambda p: p[1](p[2](), pass_configs=p[3]), plan)
        return {key: kernel for (key, *_), kernel in zip(plan, track(kernels, "compiling", len(plan)), strict=True)}


def call_of(case: Case, form: str, kernels: dict[tuple[str, str], Any], data: dict[str, torch.Tensor]) -> Callable[[], None]:
    """One computation of ``case`` in this form, queued on torch's current stream."""
    if form in ("pass", "pass, split", "stock"):
        kernel = kernels[case.name, form]
        return lambda: case.run_one_launch(kernel, data, torch.cuda.current_stream().cuda_stream)
    phases = {name: kernels[case.name, name] for name in case.phases}
    return lambda: case.run_phases(phases, data, torch.cuda.current_stream().cuda_stream)


def captured(call: Callable[[], None]) -> Callable[[], None]:
    """``call`` as the replay of a CUDA graph; it must have run before, so that its modules are loaded."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph.replay


def queued(call: Callable[[], None]) -> tuple[torch.cuda.Event, torch.cuda.Event]:
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda._sleep(500_000)
    start.record()
    call()
    end.record()
    finish(end)
    return start, end


def measure(case: Case, form: str, kernels: dict[tuple[str, str], Any], launches: int) -> dict[str, Any]:
    row: dict[str, Any] = {"kernel": case.name, "form": form, "barriers": case.barriers, "launches": case.launches}
    data = case.buffers("cuda")
    call = call_of(case, form, kernels, data)
    if form == "separate, graph":
        # Also what loads the modules, which cannot be done while capturing.
        queued(call)
        call = captured(call)
        # What ran before the capture has left its results behind; the answer below must be the graph's own.
        for name, fresh in case.buffers("cuda").items():
            data[name].copy_(fresh)
    queued(call)
    got, expected = case.answer(data)
    row["largest error"] = float((got.double() - expected.double()).abs().max())
    row["right"] = bool(torch.allclose(got.double(), expected.double(), rtol=case.tolerance, atol=case.tolerance))
    for _ in range(WARM_UPS):
        queued(call)
    row["us"] = [start.elapsed_time(end) * 1e3 for start, end in (queued(call) for _ in range(launches))]
    return row


def table(rows: list[dict[str, Any]]) -> Table:
    """Medians side by side; a speed-up above 1 is in favour of one launch with the pass."""
    medians = {(row["kernel"], row["form"]): statistics.median(row["us"]) for row in rows}
    out = Table(title="us a computation, median")
    for column in ("kernel", "barriers", *FORMS, *(f"{form} / pass" for form in FORMS[1:])):
        out.add_column(column, justify="right")
    for name, barriers in dict.fromkeys((row["kernel"], row["barriers"]) for row in rows):
        of = [medians.get((name, form)) for form in FORMS]
        cells = ["" if us is None else f"{us:.1f}" for us in of]
        out.add_row(name, str(barriers), *cells, *("" if us is None else f"{us / medians[name, 'pass']:.2f}" for us in of[1:]))
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--launches", type=int, default=20)
    args = parser.parse_args()
    kernels = compile_all(CASES)
    plan = [(case, form) for case in CASES for form in FORMS if form != "pass, split" or case.split is not None]
    rows = [measure(case, form, kernels, args.launches) for case, form in track(plan, "measuring")]
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "kernels": {c.name: c.summary for c in CASES}, "rows": rows}, file, indent=1)
    Console(width=160).print(table(rows))
    wrong = [f"{row['kernel']} ({row['form']}), off by {row['largest error']:.3g}" for row in rows if not row["right"]]
    if wrong:
        sys.exit("wrong answers: " + "; ".join(wrong))


if __name__ == "__main__":
    main()
