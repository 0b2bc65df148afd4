"""The grid and block of a device function: their index variables and extents."""

from __future__ import annotations

from dataclasses import dataclass

from ..tvm_compat import tir

THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


@dataclass(frozen=True)
class Axis:
    """One launch axis, for example threadIdx.x, with its variable and its extent (an expression)."""

    tag: str
    var: tir.Var
    extent: object

    @property
    def is_thread(self) -> bool:
        return self.tag in THREAD_AXES

    @property
    def constant(self) -> int | None:
        """The extent where it is a compile-time constant."""
        return int(self.extent) if isinstance(self.extent, tir.IntImm) else None


def launch_axes(func: tir.PrimFunc) -> list[Axis]:
    """The axes that ``func`` binds, in program order; one that is bound more than once is listed as often."""
    axes = []

    def visit(node: object) -> None:
        if isinstance(node, tir.AttrStmt) and node.attr_key == "thread_extent":
            axes.append(Axis(str(node.node.thread_tag), node.node.var, node.value))
        elif isinstance(node, tir.For) and node.thread_binding is not None:
            axes.append(Axis(str(node.thread_binding.thread_tag), node.loop_var, node.extent))

    tir.stmt_functor.post_order_visit(func.body, visit)
    return [axis for axis in axes if axis.is_thread or axis.tag in BLOCK_AXES]


def threads_per_block(axes: list[Axis]) -> int | None:
    """The product of the thread extents; None where one is not a constant."""
    return _product(axes, THREAD_AXES)


def blocks_in_grid(axes: list[Axis]) -> int | None:
    """The product of the grid's extents; None where one is not a constant."""
    return _product(axes, BLOCK_AXES)


def _product(axes: list[Axis], tags: tuple[str, ...]) -> int | None:
    total = 1
    for axis in {axis.tag: axis for axis in axes if axis.tag in tags}.values():
        if axis.constant is None:
            return None
        total *= axis.constant
    return total
