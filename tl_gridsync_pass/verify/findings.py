"""Turns what the analyses found out about one device function into diagnostics."""

from __future__ import annotations

from dataclasses import replace

from ..tvm_compat import source_line, tir
from . import ir_facts, residency
from .diagnostics import (
    BLOCK_DIVERGENT,
    GRID_DIVERGENT,
    GRID_TOO_LARGE,
    NON_COHERENT_LOAD,
    NOT_PROVABLY_UNIFORM,
    REPEATED_BARRIER,
    Diagnostic,
    Location,
    Note,
    Severity,
)
from .expression_text import expression_text
from .launch import blocks_in_grid, launch_axes, threads_per_block
from .proof import Prover
from .source import enclosing
from .state import Cause
from .uniformity import Barrier, Uniformity
from .variation import Level

_TAKEN = {"break": "leave the loop early", "continue": "skip the rest of the loop body", "return": "return early"}


def diagnose(name: str, func: tir.PrimFunc) -> list[Diagnostic]:
    """Every finding about one device function, errors first.

    Parameters
    ----------
    name : str
        The function's name, for the messages.
    func : tir.PrimFunc
        A function with its threads bound, at any point of the lowering after that.
    """
    if not ir_facts.contains_grid_barrier(func):
        return []
    with Prover(launch_axes(func)) as prover:
        return _diagnose(name, func, Uniformity(func, prover))


def _diagnose(name: str, func: tir.PrimFunc, analysis: Uniformity) -> list[Diagnostic]:
    barriers = sorted(analysis.barriers.values(), key=lambda b: b.number)
    if not barriers:
        # Only inside expressions, which the lowering refuses.
        return []
    found = []
    for barrier in barriers:
        if barrier.causes:
            subject = f"grid barrier {barrier.number} of {len(barriers)}" if len(barriers) > 1 else "the grid barrier"
            found.append(_divergence(name, barrier, subject))
        elif barrier.repeated:
            found.append(_repeated(name, barrier))
    found += [
        _divergence(name, b, "a block barrier, which pairs up with those inside the grid barrier,")
        for b in analysis.block_barriers.values()
    ]
    found += _grid_size(name, func, analysis, barriers[0])
    found += _non_coherent_loads(name, func, analysis)
    order = list(Severity)
    return sorted(found, key=lambda d: order.index(d.severity))


def _divergence(name: str, barrier: Barrier, which: str) -> Diagnostic:
    causes = [_located(cause, barrier) for cause in barrier.causes]
    worst = max(cause.variation.level for cause in causes)
    main = next(cause for cause in causes if cause.variation.level == worst)
    everyone, on = "all threads of the grid", "data"
    rule, severity = NOT_PROVABLY_UNIFORM, Severity.WARNING
    if worst == Level.INDEX:
        severity = Severity.ERROR
        if main.variation.thread == Level.INDEX:
            rule, everyone, on = BLOCK_DIVERGENT, "all threads of a block", "the thread index"
        else:
            rule, everyone, on = GRID_DIVERGENT, "all blocks of the grid", "the block index"
    claim = "may not be" if severity == Severity.WARNING else "is not"
    message = f"{which} in kernel {name!r} {claim} reached equally often by {everyone}: {_clause(main)} depends on {on}"
    notes = [_explained(main), *main.variation.why]
    notes += [Note(f"it also depends on {_clause(cause)}", cause.location) for cause in causes if cause is not main]
    return Diagnostic(rule, severity, name, message, barrier.location, barrier.number, main.text, tuple(notes), _restructure(main))


def _clause(cause: Cause) -> str:
    if cause.kind == "if":
        region = "the warp-specialised region under " if cause.warp_specialized else "the condition "
        return f"{region}`{cause.text}`"
    if cause.kind == "for":
        return f"the trip count `{cause.text}` of the loop around it"
    if cause.kind == "while":
        return f"the loop condition `{cause.text}`"
    return f"the early exit under `{cause.text}`"


def _explained(cause: Cause) -> Note:
    if cause.kind in _TAKEN:
        text = f"threads for which `{cause.text}` holds {_TAKEN[cause.kind]} here, before the barrier"
    elif cause.kind == "for":
        text = f"the loop runs `{cause.text}` times"
    elif cause.kind == "while":
        text = f"the loop runs while `{cause.text}`"
    else:
        text = f"the barrier stands under `{cause.text}`"
    return Note(f"{text}; {cause.example}" if cause.example else text, cause.location)


def _restructure(cause: Cause) -> str:
    if cause.variation.level == Level.UNKNOWN:
        return (
            "let every thread read the deciding value from one place that is written before the previous T.sync_grid() and not after it, "
            "or pass it as a kernel argument; verify='warn' or 'off' silences this where you know it to be uniform"
        )
    if cause.warp_specialized:
        return "put T.sync_grid() behind the warp-specialised region, where all warps of the block come together again"
    if cause.kind == "if":
        return "move T.sync_grid() out of the `if`, and keep only the work that some threads do inside"
    if cause.kind in ("for", "while"):
        return (
            "let every block run the same number of rounds, for example T.ceildiv(tiles, blocks) of them, "
            "guard the work of the last round with an `if`, and keep T.sync_grid() outside of that `if`"
        )
    return "replace the early exit by an `if` around the work, and keep T.sync_grid() outside of that `if`"


def _located(cause: Cause, barrier: Barrier) -> Cause:
    """The cause with its line: its own, or that of the statement around the barrier in the source."""
    if cause.location is not None or barrier.location is None or cause.kind not in ("if", "for", "while"):
        return cause
    same = [c for c in barrier.causes if c.kind == cause.kind]
    return replace(cause, location=enclosing(cause.kind, barrier.location, same.index(cause), len(same)))


def _repeated(name: str, barrier: Barrier) -> Diagnostic:
    return Diagnostic(
        REPEATED_BARRIER,
        Severity.HINT,
        name,
        f"grid barrier {barrier.number} in kernel {name!r} follows another one with nothing between them that touches memory",
        barrier.location,
        barrier.number,
        help="drop one of the two",
    )


def _grid_size(name: str, func: tir.PrimFunc, analysis: Uniformity, first: Barrier) -> list[Diagnostic]:
    blocks, threads = blocks_in_grid(analysis.axes), threads_per_block(analysis.axes)
    target = func.attrs.get("target") if func.attrs else None
    arch = str(target.attrs.get("arch", "")) if target is not None else ""
    if blocks is None or threads is None:
        return []
    limit = residency.bound(arch, threads, int(func.attrs.get("dyn_shared_memory_buf", 0)))
    if limit is None or blocks <= limit.blocks:
        return []
    return [
        Diagnostic(
            GRID_TOO_LARGE,
            Severity.WARNING,
            name,
            f"kernel {name!r} launches {blocks} blocks of {threads} threads with a grid barrier, but no GPU of {arch} "
            f"can hold more than {limit.blocks} of them at once",
            first.location,
            notes=(Note(f"the largest, {limit.gpu}: {limit.arithmetic}; registers may lower it further"),),
            help="launch as many blocks as the GPU holds and let each run several tiles, in a loop of T.ceildiv(tiles, blocks) rounds",
        )
    ]


def _non_coherent_loads(name: str, func: tir.PrimFunc, analysis: Uniformity) -> list[Diagnostic]:
    found: dict[int, Diagnostic] = {}

    def visit(node: object) -> None:
        for call in _read_only_loads(node):
            for data in analysis.pointers.loaded_by(call):
                key = hash(data)
                if analysis.pointers.is_written(key):
                    buffer = analysis.pointers.names.get(key, str(data.name))
                    line = source_line(node)
                    found.setdefault(
                        key,
                        Diagnostic(
                            NON_COHERENT_LOAD,
                            Severity.WARNING,
                            name,
                            f"kernel {name!r} reads {buffer!r} through the read-only cache and also writes it; "
                            "that cache is not coherent, so a read after the grid barrier may give the value from before it",
                            None if line is None else Location(*line),
                            condition=expression_text(call),
                            help=f"read {buffer!r} with an ordinary load",
                        ),
                    )

    tir.stmt_functor.post_order_visit(func.body, visit)
    return list(found.values())


def _read_only_loads(stmt: object) -> list[object]:
    """The read-only loads in the expressions of one statement, not in the statements inside it."""
    if not isinstance(stmt, tir.Stmt):
        return []
    calls: list[object] = []

    def visit(node: object) -> None:
        if isinstance(node, tir.Call) and ir_facts.is_read_only_load(node):
            calls.append(node)

    for part in ("value", "condition", "min", "extent"):
        expr = getattr(stmt, part, None)
        if expr is not None and hasattr(expr, "dtype"):
            tir.stmt_functor.post_order_visit(tir.Evaluate(expr), visit)
    return calls
