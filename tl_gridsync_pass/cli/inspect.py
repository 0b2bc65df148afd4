"""`inspect`: the grid barriers of a file's kernels or of a cubin, as their SASS shows them, with a verdict."""

from __future__ import annotations

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from ..inspection import BarrierVerdict, KernelVerdict, inspect_cubin
from .output import console, json_option, print_json, reported_errors, require_attached

if TYPE_CHECKING:
    from ..seams.kernel_files import SkippedKernel

_COUNTERS = {"workspace": "the launch's own workspace", "module": "global variable of the module", "other": "cannot tell"}


@click.command(name="inspect")
@click.argument("target", metavar="FILE.py[:KERNEL] | FILE.cubin")
@click.option("--arch", default="sm_90a", show_default=True, help="What to compile the kernels of a Python file for.")
@json_option
@click.pass_context
def command(context: click.Context, target: str, arch: str, as_json: bool) -> None:
    """Show the grid barriers of compiled kernels and say whether they are affected.

    The kernels of a Python file are its module-level T.prim_func objects and the @tilelang.jit functions
    that can be called without arguments. They are compiled as a program would compile them here, so with
    the pass where the file or TL_GRIDSYNC_PASS asks for it. No GPU is needed.

    Exit status 0 when no barrier is affected, 1 when one is or may be or a kernel cannot be built, 2 for bad usage.
    """
    # TileLang logs to standard output, and the file may print.
    with reported_errors(), redirect_stdout(sys.stderr):
        inspected, skipped = _inspected(target, arch)
    if as_json:
        print_json(_as_data(inspected, skipped))
    else:
        _show(console(), inspected, skipped)
    doubtful = any(kernel.affected is not False for _, kernel in inspected) or any(not kernel.missing for kernel in skipped)
    context.exit(1 if doubtful else 0)


def _inspected(target: str, arch: str) -> tuple[list[tuple[str, KernelVerdict]], list[SkippedKernel]]:
    """Each kernel with where it comes from, and the kernels that were left out."""
    if Path(target).is_file() and not target.endswith(".py"):
        return [(target, kernel) for kernel in inspect_cubin(Path(target))], []
    require_attached()
    from ..seams.kernel_files import cubin_of, kernels_of

    path, _, name = target.partition(".py:")
    found, skipped = kernels_of(Path(f"{path}.py" if name else target), name or None)
    inspected = [(kernel.name, verdict) for kernel in found for verdict in inspect_cubin(cubin_of(kernel, arch))]
    return inspected, skipped


def _as_data(inspected: list[tuple[str, KernelVerdict]], skipped: list[SkippedKernel]) -> dict[str, Any]:
    return {
        "kernels": [
            {
                "kernel": origin,
                "symbol": kernel.name,
                "block": kernel.block,
                "verdict": _word(kernel.affected),
                "barriers": [{"verdict": _word(v.affected), "reasons": list(v.reasons), **asdict(v.barrier)} for v in kernel.barriers],
            }
            for origin, kernel in inspected
        ],
        "skipped": {kernel.name: kernel.reason for kernel in skipped},
    }


def _show(out: Console, inspected: list[tuple[str, KernelVerdict]], skipped: list[SkippedKernel]) -> None:
    for origin, kernel in inspected:
        block = f", block {kernel.block}" if kernel.block else ""
        out.print(f"[bold]{origin}[/]{block}: {_coloured(kernel.affected)}" if kernel.barriers else f"[bold]{origin}[/]: no grid barrier")
        for verdict in kernel.barriers:
            out.print(_table(verdict))
        out.print()
    for left_out in skipped:
        out.print(f"[bold]{left_out.name}[/]: skipped, {left_out.reason}")
    if not inspected and not skipped:
        out.print("no kernels found")


def _table(verdict: BarrierVerdict) -> Table:
    barrier = verdict.barrier
    table = Table(show_header=False, box=None, padding=(0, 2, 0, 2))
    for heading, text in (
        ("barrier at", f"0x{barrier.address:04x}"),
        ("leader test", " and ".join(f"tid.{axis} == 0" for axis in barrier.leader_axes) or "none"),
        ("arrival", ", ".join(barrier.arrival)),
        ("counter", _COUNTERS[barrier.counter]),
        ("fences, leader", ", ".join(barrier.leader_fences) or "none"),
        ("fences, all threads", ", ".join(barrier.block_fences) or "none"),
        ("verdict", _coloured(verdict.affected)),
        *(("", reason) for reason in verdict.reasons),
    ):
        table.add_row(heading, text)
    return table


def _word(affected: bool | None) -> str:
    return {True: "affected", False: "not affected", None: "cannot tell"}[affected]


def _coloured(affected: bool | None) -> str:
    colour = {True: "red", False: "green", None: "yellow"}[affected]
    return f"[{colour}]{_word(affected)}[/]"
