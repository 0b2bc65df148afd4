"""The harness that a generated kernel really has, read from its source.

The exploration then runs on the guard, the block barriers and the block count as they were emitted.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from types import SimpleNamespace

from ..lowering import DEVICE_MODULE
from ..protocol import MODULE, Protocol, for_grid
from .harness import Harness, Index, all_blocks

_CALL = "arrive_and_wait"
_BLOCK_BARRIER = "sync_threads"


class EmissionError(ValueError):
    """Generated source whose barrier does not look like anything that the pass emits."""


def harnesses_of(source: str) -> list[Harness]:
    """One harness for every grid barrier in the source of a generated kernel, in order.

    Raises
    ------
    EmissionError
        Where a barrier stands under a guard or with arguments that are not understood.
    """
    return [
        _harness(statements, i)
        for statements in _blocks(ast.parse(source))
        for i, s in enumerate(statements)
        if _barrier_call(s) is not None
    ]


def _blocks(tree: ast.AST) -> Iterator[list[ast.stmt]]:
    """Every list of statements, outermost first; the body of a barrier's own guard is left out."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and _barrier_call(node) is not None:
            continue
        for name in ("body", "orelse", "finalbody"):
            statements = getattr(node, name, None)
            if isinstance(statements, list) and statements and isinstance(statements[0], ast.stmt):
                yield statements


def _barrier_call(statement: ast.stmt) -> ast.Call | None:
    """The barrier call that a statement is, or guards as its only statement."""
    if isinstance(statement, ast.If) and len(statement.body) == 1 and not statement.orelse:
        return _barrier_call(statement.body[0])
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        function = statement.value.func
        if (
            isinstance(function, ast.Attribute)
            and function.attr == _CALL
            and isinstance(function.value, ast.Name)
            and function.value.id == DEVICE_MODULE
        ):
            return statement.value
    return None


def _harness(statements: list[ast.stmt], i: int) -> Harness:
    call = _barrier_call(statements[i])
    assert call is not None
    try:
        state, blocks = (ast.literal_eval(argument) for argument in call.args[:2])
    except ValueError as error:
        raise EmissionError(f"arguments that are not understood: {ast.unparse(call)}") from error
    guards = []
    guarded: ast.stmt = statements[i]
    while isinstance(guarded, ast.If):
        guards.append(compile(ast.Expression(guarded.test), "guard", "eval"))
        guarded = guarded.body[0]

    def leads(tid: Index, ntid: Index) -> bool:
        thread = SimpleNamespace(x=tid[0], y=tid[1], z=tid[2])
        try:
            return all(eval(guard, {"__builtins__": {}}, {"threadIdx": thread}) for guard in guards)
        except NameError as error:
            raise EmissionError(f"a guard that depends on more than the thread: {ast.unparse(statements[i])}") from error

    return Harness(
        _protocol(state, blocks),
        leader=leads,
        block_barrier_before=i > 0 and _is_block_barrier(statements[i - 1]),
        block_barrier_after=i + 1 < len(statements) and _is_block_barrier(statements[i + 1]),
        blocks=(lambda _: blocks) if blocks else all_blocks,
    )


def _protocol(state: str, blocks: int) -> Protocol:
    if state == "module":
        return MODULE
    if state != "launch":
        raise EmissionError(f"an unknown state: {state!r}")
    return for_grid(blocks)


def _is_block_barrier(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Call)
        and isinstance(statement.value.func, ast.Attribute)
        and statement.value.func.attr == _BLOCK_BARRIER
    )
