"""The grid, block and shared memory that a compiled CuTeDSL kernel is launched with.

Read from the Python module that TileLang generates, which says it in the same words for a fresh kernel
and for one from the cache: ``name(args).launch(grid=[...], block=[...], smem=...)``.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import SeamError


@dataclass(frozen=True)
class LaunchShape:
    """One kernel launch. Extents are blocks and threads, shared memory is dynamic and in bytes."""

    kernel: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int

    @property
    def blocks(self) -> int:
        return self.grid[0] * self.grid[1] * self.grid[2]

    @property
    def threads(self) -> int:
        return self.block[0] * self.block[1] * self.block[2]


def launch_shapes(module_source: str, arguments: Mapping[str, Any]) -> list[LaunchShape]:
    """The launches of a generated module, in their order.

    Parameters
    ----------
    module_source : str
        The generated module.
    arguments : mapping
        The scalars and dynamic sizes of the call by name.

    Raises
    ------
    SeamError
        Where the source has no launch in the form expected, or a size that is not among ``arguments``.
    """
    shapes = []
    for node in ast.walk(ast.parse(module_source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "launch":
            keywords = {keyword.arg: keyword.value for keyword in node.keywords}
            kernel = node.func.value.func.id if isinstance(node.func.value, ast.Call) and isinstance(node.func.value.func, ast.Name) else ""
            if kernel and {"grid", "block", "smem"} <= keywords.keys():
                shapes.append(
                    LaunchShape(
                        kernel,
                        _extents(keywords["grid"], arguments, kernel),
                        _extents(keywords["block"], arguments, kernel),
                        _number(keywords["smem"], arguments, kernel),
                    )
                )
    if not shapes:
        raise SeamError("tl_gridsync: TileLang's generated module holds no kernel launch in the form that this release knows")
    return shapes


def _extents(node: ast.expr, arguments: Mapping[str, Any], kernel: str) -> tuple[int, int, int]:
    assert isinstance(node, ast.List) and len(node.elts) == 3
    x, y, z = (_number(element, arguments, kernel) for element in node.elts)
    return x, y, z


def _number(node: ast.expr, arguments: Mapping[str, Any], kernel: str) -> int:
    # TileLang's own arithmetic over the argument names; min and max are the functions that it uses.
    try:
        return int(eval(compile(ast.Expression(node), "<launch>", "eval"), {"__builtins__": {}, "min": min, "max": max}, dict(arguments)))
    except NameError as error:
        raise SeamError(
            f"tl_gridsync: the launch of kernel {kernel!r} depends on {error.name!r}, which is not among its arguments"
        ) from error
