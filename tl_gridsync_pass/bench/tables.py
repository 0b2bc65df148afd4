"""Measured barriers as a table."""

from __future__ import annotations

import statistics
from typing import Any

from rich.table import Table


def table(rows: list[dict[str, Any]]) -> Table:
    """Medians side by side, with the pass as a share of the others."""
    names = list(dict.fromkeys(row["barrier"] for row in rows))
    medians = {(str(r["threads"]), r["blocks"], r["dirty"], r["barrier"]): statistics.median(r["ns"]) for r in rows}
    out = Table(title="ns a barrier, median")
    for column in ("blocks x threads", "dirty", *names, "pass / cooperative groups", "pass / stock"):
        out.add_column(column, justify="right")
    for threads, blocks, dirty in dict.fromkeys(key[:3] for key in medians):
        of = {name: medians.get((threads, blocks, dirty, name)) for name in names}
        shares = [_share(of["pass"], of[name]) for name in ("cooperative groups", "stock")]
        cells = [f"{of[name]:.0f}" if of[name] else "" for name in names]
        out.add_row(f"{blocks} x {threads}", "yes" if dirty else "no", *cells, *shares)
    return out


def _share(part: float | None, whole: float | None) -> str:
    return f"{part / whole:.2f}" if part and whole else ""
