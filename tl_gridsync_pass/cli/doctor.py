"""`doctor`: what is installed, whether TileLang's own barrier is affected, and whether the fix is in force."""

from __future__ import annotations

from typing import Any

import click
from rich.console import Console
from rich.table import Table

from ..diagnosis import Diagnosis, diagnose
from ..environment import VARIABLE
from ..seams.stock_helper import Fault
from .output import console, json_option, print_json

# How many of the cached kernels with TileLang's own barrier are listed as text; --json has all.
_LISTED = 5


@click.command(name="doctor")
@json_option
@click.pass_context
def command(context: click.Context, as_json: bool) -> None:
    """Say whether this installation is affected and whether the fix is in force.

    Exit status 0 when the fix is in force or not needed, 1 when a program that does not mention the
    plugin would get TileLang's own, broken barrier.
    """
    diagnosis = diagnose()
    if as_json:
        print_json(_as_data(diagnosis))
    else:
        _show(console(), diagnosis)
    context.exit(1 if diagnosis.verdict.exposed else 0)


def _as_data(d: Diagnosis) -> dict[str, Any]:
    asked = d.environment
    return {
        "verdict": {"status": d.verdict.status, "reasons": list(d.verdict.reasons)},
        "versions": {**d.versions, "driver": d.driver},
        "gpus": [vars(gpu) for gpu in d.gpus],
        "tilelang": {"folder": _text(d.tilelang_folder), "faults": [vars(fault) for fault in d.faults]},
        "plugin": {"attach_error": d.attach_error, "attached": list(d.attached)},
        "environment": {
            "variable": VARIABLE,
            "value": asked.value,
            "asks_for": vars(asked.asks_for) if asked.asks_for else None,
            "error": asked.error,
            "startup_file": _text(asked.startup_file),
        },
        "cache": {
            "folder": str(d.cache.folder),
            "kernels": d.cache.kernels,
            "stock_barrier": [str(path) for path in d.cache.stock],
            "plugin_barrier": [str(path) for path in d.cache.ours],
        },
    }


def _show(out: Console, d: Diagnosis) -> None:
    versions = _table("Installed")
    for name, number in {**d.versions, "driver": d.driver}.items():
        versions.add_row(name, number or "not found")
    versions.add_row("GPU", ", ".join(f"{gpu.name} (sm_{gpu.compute_capability.replace('.', '')})" for gpu in d.gpus) or "none")
    out.print(versions)

    faults = _table("TileLang's own grid barrier", "fault", "affected", "evidence", "effect")
    for fault in d.faults:
        faults.add_row(fault.name, _affected(fault), fault.evidence, fault.effect)
    out.print(faults if d.faults else "TileLang's own grid barrier: none found for CuTeDSL kernels\n")

    plugin = _table("Plugin")
    plugin.add_row("attached", f"[red]no[/]: {d.attach_error}" if d.attach_error else f"at {len(d.attached)} places")
    for place in d.attached:
        plugin.add_row("", place)
    asked = d.environment
    plugin.add_row(VARIABLE, "not set" if asked.value is None else repr(asked.value))
    plugin.add_row("asks for", f"[red]not understood[/]: {asked.error}" if asked.error else str(asked.asks_for or "nothing"))
    plugin.add_row("startup file", _text(asked.startup_file) or "[red]not processed by this Python[/]")
    out.print(plugin)

    cache = _table("Kernel cache")
    cache.add_row("folder", str(d.cache.folder))
    cache.add_row("kernels", str(d.cache.kernels))
    cache.add_row("with TileLang's own barrier", str(len(d.cache.stock)))
    for path in d.cache.stock[:_LISTED]:
        cache.add_row("", str(path.relative_to(d.cache.folder)))
    if len(d.cache.stock) > _LISTED:
        cache.add_row("", f"and {len(d.cache.stock) - _LISTED} more")
    cache.add_row("with the plugin's barrier", str(len(d.cache.ours)))
    out.print(cache)
    if d.cache.stock:
        out.print("Programs load the kernels with TileLang's own barrier only where the pass is off for them.\n")

    colour = "red" if d.verdict.exposed else "green"
    out.print(f"[bold {colour}]{d.verdict.status}[/]")
    for reason in d.verdict.reasons:
        out.print(reason, markup=False)


def _affected(fault: Fault) -> str:
    return {True: "[red]yes[/]", False: "[green]no[/]", None: "[yellow]cannot tell[/]"}[fault.affected]


def _table(title: str, *columns: str) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", show_header=bool(columns), box=None, padding=(0, 2, 0, 0))
    for column in columns or ("", ""):
        table.add_column(column, overflow="fold")
    return table


def _text(path: object | None) -> str | None:
    return None if path is None else str(path)
