"""The two-block handoff, stock beside the pass: ``python -m tl_gridsync_pass.demo``.

With a GPU the kernels run and the tables show what the blocks read; without one they are compiled to
real cubins for sm_90a and the tables show what the GPU would run.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import tilelang
import torch
from rich.console import Console
from rich.table import Table

from . import sass
from .errors import GridSyncError
from .handoff import CUTEDSL_TARGET, LAYOUTS, handoff
from .lowering import GridSyncPass
from .proofs.trace import sum_story
from .seams import offline

CALLS = 8
BLOCKS = 2
RIGHT = [3, 3]

# What one layout may take on the GPU, compiling included; a barrier that hangs is ended then.
LAYOUT_LIMIT_S = 60
# Processes that run at once.
AT_ONCE = 4

Threads = int | tuple[int, ...]


@dataclass(frozen=True)
class Handoffs:
    """What the two blocks read in ``CALLS`` launches with one block shape.

    Attributes
    ----------
    threads : int or tuple[int, ...]
        The block shape.
    stock, lowered : list[list[int]] or str
        The sums of each call, or what went wrong instead.
    """

    threads: Threads
    stock: list[list[int]] | str
    lowered: list[list[int]] | str


@dataclass(frozen=True)
class DeviceCode:
    """What one block shape compiles to: the lines of the source around the barrier, and the barrier's SASS."""

    threads: Threads
    source: tuple[str, ...]
    stock: sass.GridBarrier
    lowered: sass.GridBarrier


def run_on_gpu() -> list[Handoffs]:
    """Launch the handoff with every block shape, stock and with the pass, each in a process of its own.

    A process that is not done in ``LAYOUT_LIMIT_S`` seconds is killed and counts as a hang. Some run at once,
    since nearly all of their time is import and compilation.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        runs = {(threads, stock): pool.submit(_run_in_process, threads, stock) for threads in LAYOUTS for stock in (True, False)}
        return [Handoffs(threads, runs[threads, True].result(), runs[threads, False].result()) for threads in LAYOUTS]


def compile_offline() -> list[DeviceCode]:
    """Compile the handoff with every block shape to a cubin for sm_90a, stock and with the pass; needs no GPU."""
    codes = []
    with offline.linkable_driver():
        for threads in LAYOUTS:
            stock, lowered = _compile(threads, []), _compile(threads, [GridSyncPass()])
            codes.append(DeviceCode(threads, _around_barrier(lowered.get_kernel_source()), _barrier_of(stock), _barrier_of(lowered)))
    return codes


def main(console: Console | None = None) -> int:
    """Run the demo and print it; 0 where the pass did what it promises for every block shape, else 1."""
    console = console or Console()
    logging.getLogger("tilelang").setLevel(logging.WARNING)
    if torch.cuda.is_available():
        results = run_on_gpu()
        print_handoffs(results, console)
        return 0 if all(result.lowered == [RIGHT] * CALLS for result in results) else 1
    codes = compile_offline()
    print_device_code(codes, console)
    return 0 if all(code.lowered.leader_axes == _several(code.threads) for code in codes) else 1


def print_handoffs(results: list[Handoffs], console: Console) -> None:
    """The table of :func:`run_on_gpu`."""
    console.print(f"[bold]Ran on {torch.cuda.get_device_name()}.[/]")
    console.print("Blocks 0 and 1 write 1 and 2, meet in T.sync_grid(), and both read the sum.")
    console.print(f"Block 1 comes late. Right is {RIGHT}; {CALLS} calls each, inputs and outputs cleared before each.\n", highlight=False)
    table = Table("threads", "stock", "GridSyncPass()")
    for result in results:
        table.add_row(str(result.threads), _calls(result.stock), _calls(result.lowered))
    console.print(table)


def print_device_code(codes: list[DeviceCode], console: Console) -> None:
    """The tables of :func:`compile_offline`."""
    console.print("[bold]No GPU here: compiled to real cubins for sm_90a, ran nothing.[/]\n")
    last = codes[-1]
    console.print(f"The barrier in the source of the kernel with {last.threads} threads:", highlight=False)
    for line in last.source:
        console.print(f"    {line}", highlight=False, markup=False)
    console.print("\nWhat the cubins run at the barrier (SASS). The leader test reads:")
    leaders = Table("threads", "stock", "GridSyncPass()")
    for code in codes:
        leaders.add_row(str(code.threads), _axes(code.stock), _axes(code.lowered))
    console.print(leaders)
    console.print("The rest, with any of these block shapes:")
    rest = Table("", "stock", "GridSyncPass()", show_lines=True)
    for name, fact in _FACTS.items():
        stock, lowered = dict.fromkeys(fact(code.stock) for code in codes), dict.fromkeys(fact(code.lowered) for code in codes)
        rest.add_row(name, "\nor\n".join(stock), "\nor\n".join(lowered))
    console.print(rest)
    wrong = [str(code.threads) for code in codes if code.stock.leader_axes != _several(code.threads)]
    console.print(
        f"With {', '.join(wrong)} threads the stock leader test leaves out an axis: several threads of a block report its arrival, "
        "and the barrier opens before the other block is there.",
        highlight=False,
    )
    console.print("\nHow that gives [1, 3], step by step. Not run: the shortest of all interleavings that goes wrong.", markup=False)
    console.print(sum_story(), highlight=False, markup=False, soft_wrap=True)


def _axes(barrier: sass.GridBarrier) -> str:
    return ", ".join(f"tid.{axis}" for axis in barrier.leader_axes) or "nothing"


def _counted(names: tuple[str, ...]) -> str:
    return "\n".join(f"{names.count(name)} {name}" for name in dict.fromkeys(names)) or "none"


_FACTS = {
    "atomic": lambda b: _counted(b.arrival),
    "counts in": lambda b: {"workspace": "the launch's workspace", "module": "a module variable"}.get(b.counter, b.counter),
    "fences, leader": lambda b: _counted(b.leader_fences),
    "fences, every thread": lambda b: _counted(b.block_fences),
    "launch not cooperative": lambda b: "noticed, traps" if b.checks_workspace and b.traps else "not noticed",
}


def _several(threads: Threads) -> tuple[str, ...]:
    """The axes of a block shape that have more than one thread: those that a leader test has to read."""
    extents = (threads,) if isinstance(threads, int) else threads
    return tuple(axis for axis, extent in zip("xyz", extents, strict=False) if extent > 1)


def _compile(threads: Threads, passes: list[GridSyncPass]) -> Any:
    return tilelang.compile(handoff(threads, BLOCKS), target=CUTEDSL_TARGET, execution_backend="cutedsl", passes=passes)


def _barrier_of(kernel: Any) -> sass.GridBarrier:
    barriers = [barrier for compiled in sass.kernels_in(offline.cubin_of(kernel)) for barrier in compiled.barriers]
    if len(barriers) != 1:
        raise GridSyncError(f"tl_gridsync: read {len(barriers)} grid barriers in the cubin of the handoff kernel, which has 1")
    return barriers[0]


def _around_barrier(source: str) -> tuple[str, ...]:
    lines = source.splitlines()
    at = next(i for i, line in enumerate(lines) if "arrive_and_wait" in line)
    return tuple(line.removeprefix("  ") for line in lines[at - 2 : at + 2])


def _calls(sums: list[list[int]] | str) -> str:
    if isinstance(sums, str):
        return f"[red]{sums}[/]"
    return ", ".join(
        f"[{'green' if result == RIGHT else 'red'}]\\{result}[/] ×{sums.count(result)}"
        for result in (list(unique) for unique in dict.fromkeys(map(tuple, sums)))
    )


def _run_in_process(threads: Threads, stock: bool) -> list[list[int]] | str:
    command = [sys.executable, "-m", __spec__.name, "--run", json.dumps(threads), *(["--stock"] if stock else [])]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LAYOUT_LIMIT_S)
    except subprocess.TimeoutExpired:
        return f"hangs (ended after {LAYOUT_LIMIT_S} s)"
    if done.returncode != 0:
        return f"failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
    return json.loads(done.stdout.splitlines()[-1])


def _run_one(threads: Threads, stock: bool) -> None:
    kernel = _compile(threads, [] if stock else [GridSyncPass()])
    results = []
    for _ in range(CALLS):
        values, sums, scratch = (torch.zeros(BLOCKS, dtype=torch.int32, device="cuda") for _ in range(3))
        torch.cuda.synchronize()
        kernel(values, sums, scratch)
        torch.cuda.synchronize()
        results.append(sums.tolist())
    print(json.dumps(results))


def _parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tl_gridsync_pass.demo", description="The two-block handoff, stock beside the pass.")
    parser.add_argument("--run", metavar="THREADS", type=json.loads, help="launch one block shape (JSON); the demo calls itself so")
    parser.add_argument("--stock", action="store_true", help="with --run: leave the pass out")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    asked = _parse(sys.argv[1:])
    if asked.run is None:
        sys.exit(main())
    _run_one(asked.run if isinstance(asked.run, int) else tuple(asked.run), asked.stock)
