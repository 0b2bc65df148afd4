"""What the plugin adds to ``tilelang.compile``; needs no GPU.

    python benchmarks/compile_cost.py --out results.json [--rounds 9]

Compiles each kernel with the plugin and without, in turn and without the kernel cache, and writes every raw
sample in seconds: the time of the whole compilation, and the time spent in the plugin during it. The plugin
works only where it is attached to TileLang, so its time is that of its functions there, less that of the
functions of TileLang which they call on. That holds the pass, the verification, the options, the cache key
and the changes to generated source; the pass and the verification are also listed by themselves.

A compilation ends with a kernel that can be launched. It holds TileLang's lowering and code generation and
nvcc's build of the launcher, which is a process of its own; so the time is CPU time of the process and its
children, which others on the machine disturb less than wall-clock time, and both are written. It does not hold
the kernel's cubin, which TileLang makes at the first launch: that would only make the share smaller.
"""

from __future__ import annotations

import argparse
import functools
import json
import logging
import os
import resource
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

os.environ["TILELANG_DISABLE_CACHE"] = "1"

import machine
import tilelang
from kernels import CASES
from rich.console import Console
from rich.progress import track
from rich.table import Table

import tl_gridsync_pass as gs
from tl_gridsync_pass import lowering
from tl_gridsync_pass.handoff import CUTEDSL_TARGET, handoff
from tl_gridsync_pass.seams import attachments, codegen, entry_points, kernel_cache, launch, launcher_source, offline, source_hook

SEAMS = (codegen, entry_points, kernel_cache, launch, launcher_source)
PARTS = {"rejoin": "pass", "verify_barriers": "verification", "lower_grid_sync": "pass"}
PLUGIN = "plugin"


class Clock:
    """CPU seconds of this thread by whose function runs: one of the plugin's, or one of TileLang's that it calls on."""

    def __init__(self) -> None:
        self.seconds = dict.fromkeys((PLUGIN, *PARTS.values()), 0.0)
        self._of = [""]
        self._since = time.thread_time()

    def timed(self, function: Callable[..., Any], owner: str) -> Callable[..., Any]:
        """``function``, counted as ``owner``'s; "" is TileLang."""

        @functools.wraps(function)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._switch(lambda: self._of.append(owner))
            try:
                return function(*args, **kwargs)
            finally:
                self._switch(self._of.pop)

        return timed

    def _switch(self, change: Callable[[], Any]) -> None:
        now = time.thread_time()
        if self._of[-1]:
            self.seconds[self._of[-1]] += now - self._since
        change()
        self._since = time.thread_time()


@contextmanager
def attached() -> Iterator[Clock]:
    """The plugin attached to TileLang, and a clock on every function by which it is."""
    clock = Clock()

    def wrap_attribute(owner: Any, name: str, wrapper: Callable[..., Any]) -> attachments.Attachment:
        def counted(wrapped: Callable[..., Any], *call: Any) -> Any:
            return wrapper(clock.timed(wrapped, ""), *call)

        return attachments.wrap_attribute(owner, name, clock.timed(counted, PLUGIN))

    def override_global_func(name: str, make: Callable[..., Any]) -> attachments.Attachment:
        return attachments.override_global_func(name, lambda original: clock.timed(make(clock.timed(original, "")), PLUGIN))

    replaced: list[tuple[Any, str, Any]] = []

    def replace(owner: Any, name: str, value: Any) -> None:
        replaced.append((owner, name, getattr(owner, name)))
        setattr(owner, name, value)

    for seam in SEAMS:
        for function in (wrap_attribute, override_global_func):
            if hasattr(seam, function.__name__):
                replace(seam, function.__name__, function)
    for name, part in PARTS.items():
        replace(lowering, name, clock.timed(getattr(lowering, name), part))
    # Called back by TileLang's printer, so on its time unless it is counted here.
    replace(source_hook, "with_device_module", clock.timed(source_hook.with_device_module, PLUGIN))
    gs.install()
    try:
        yield clock
    finally:
        gs.uninstall()
        for owner, name, value in reversed(replaced):
            setattr(owner, name, value)


def kernels() -> dict[str, tuple[Callable[[], Any], dict[str, Any]]]:
    """What makes each kernel, and the pass configs that it is compiled with, by name."""
    found = {"handoff": (handoff, {})}
    for case in CASES:
        found[case.name] = (case.one_launch, dict(case.pass_configs))
        if case.split is not None:
            found[f"{case.name}, split barriers"] = (case.split, dict(case.pass_configs))
    return found


def compile_stock(make: Callable[[], Any], pass_configs: dict[str, Any]) -> dict[str, float]:
    return _timed_compile(make(), pass_configs=pass_configs)


def compile_with_plugin(make: Callable[[], Any], pass_configs: dict[str, Any]) -> dict[str, float]:
    with attached() as clock:
        whole = _timed_compile(make(), pass_configs=pass_configs, passes=[gs.GridSyncPass()])
    plugin = sum(clock.seconds.values())
    return {**whole, **clock.seconds, PLUGIN: plugin}


def _timed_compile(func: Any, **how: Any) -> dict[str, float]:
    start, before = time.perf_counter(), _cpu_seconds()
    tilelang.compile(func, target=CUTEDSL_TARGET, execution_backend="cutedsl", **how)
    own, children = (after - b for after, b in zip(_cpu_seconds(), before, strict=True))
    return {"wall": time.perf_counter() - start, "compile": own + children, "without nvcc": own}


def _cpu_seconds() -> tuple[float, float]:
    """Of this process, and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return tuple(usage.ru_utime + usage.ru_stime for usage in used)  # type: ignore[return-value]


def share(rows: list[dict[str, Any]], of: str = "compile") -> float:
    """The median over the compilations with the plugin of its time over the whole."""
    return statistics.median(row[PLUGIN] / row[of] for row in rows if row["form"] == PLUGIN)


def table(rows: list[dict[str, Any]]) -> Table:
    """Medians in milliseconds, and what was added as a share of the compilation."""
    out = Table(title="ms of CPU time, median of the rounds after the first")
    columns = ("kernel", "compile, stock", "compile, plugin", "pass", "verification", "plugin in all")
    for column in (*columns, "share", "share without nvcc", "share, first round"):
        out.add_column(column, justify="right")
    for name in dict.fromkeys(row["kernel"] for row in rows):
        of = [row for row in rows if row["kernel"] == name]
        first, later = ([row for row in of if (row["round"] == 0) == is_first] for is_first in (True, False))

        def median(form: str, part: str, later: list[dict[str, Any]] = later) -> str:
            return f"{1e3 * statistics.median(row[part] for row in later if row['form'] == form):.1f}"

        parts = [median(PLUGIN, part) for part in ("compile", "pass", "verification", PLUGIN)]
        out.add_row(
            name, median("stock", "compile"), *parts, *(f"{s:.2%}" for s in (share(later), share(later, "without nvcc"), share(first)))
        )
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True)
    parser.add_argument("--rounds", type=int, default=9, help="compilations of each kernel in each form, after a first one")
    args = parser.parse_args()
    logging.getLogger("tilelang").setLevel(logging.WARNING)
    gs.uninstall()
    rows: list[dict[str, Any]] = []
    with offline.linkable_driver():
        for number in track(range(args.rounds + 1), "compiling"):
            for name, how in kernels().items():
                # The first compilation of a process loads CuTe DSL and TileLang's templates, so it is one without the plugin.
                for form, compile_once in (("stock", compile_stock), (PLUGIN, compile_with_plugin)):
                    rows.append({"kernel": name, "form": form, "round": number, **compile_once(*how)})
    with open(args.out, "w") as file:
        json.dump({"machine": machine.describe(), "rows": rows}, file, indent=1)
    Console(width=180).print(table(rows))


if __name__ == "__main__":
    main()
