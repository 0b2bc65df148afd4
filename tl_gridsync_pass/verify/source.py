"""Finds the `if`, `for` or `while` around a line of the user's source, where TileLang kept no line for it."""

from __future__ import annotations

import ast
import linecache
from functools import lru_cache

from .diagnostics import Location

_NODES = {"if": ast.If, "for": ast.For, "while": ast.While}


def enclosing(kind: str, barrier: Location, position: int, count: int) -> Location | None:
    """The line of one of the statements of a kind around ``barrier``.

    Parameters
    ----------
    kind : str
        ``"if"``, ``"for"`` or ``"while"``.
    barrier : Location
    position, count : int
        Which of the ``count`` statements that the compiler sees there, from the outermost.

    Returns
    -------
    Location or None
        None where the source holds another number of them: a macro or the compiler made some, or left some out.
    """
    tree = _tree(barrier.file)
    if tree is None:
        return None
    around = [node for node in ast.walk(tree) if isinstance(node, _NODES[kind]) and _in_body(node, barrier.line)]
    # ast.walk goes level by level, so these are sorted from the outermost.
    return Location(barrier.file, around[position].lineno) if len(around) == count else None


def _in_body(node: ast.If | ast.For | ast.While, line: int) -> bool:
    return any(part.lineno <= line <= (part.end_lineno or part.lineno) for part in [*node.body, *node.orelse])


@lru_cache(maxsize=64)
def _tree(file: str) -> ast.Module | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except (SyntaxError, ValueError):
        return None
