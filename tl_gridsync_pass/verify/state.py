"""What the uniformity analysis knows at one point of a function."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ..tvm_compat import tvm
from .diagnostics import Location
from .variation import Variation

# The key of what is stored in an object outside of the elements that are tracked one by one.
REST = None


@dataclass(frozen=True)
class Cause:
    """Why a statement may be reached by some threads only: a condition, a loop, or an exit that others took.

    Attributes
    ----------
    kind : str
        ``"if"``, ``"for"``, ``"while"``, ``"break"``, ``"continue"`` or ``"return"``.
    key : int
        The same for the same statement, whenever it is visited.
    variation : Variation
        How the condition, the trip count or the taking of the exit varies.
    text : str
        The condition or the trip count as text.
    example : str or None
        Two threads or blocks that disagree.
    location : Location or None
    warp_specialized : bool
        Whether the condition is TileLang's own, around one side of a warp-specialised region.
    depth : int
        For an exit: how many loops were open around the loop that it leaves or continues; 0 for a return.
    """

    kind: str
    key: int
    variation: Variation
    text: str = ""
    example: str | None = None
    location: Location | None = None
    warp_specialized: bool = False
    depth: int = 0


@dataclass(frozen=True)
class Cell:
    """What is known of one stored element: how it varies, and its value where that is an index expression."""

    variation: Variation
    value: object | None = None


@dataclass
class State:
    """One point of the program; it is joined where control flow meets.

    Attributes
    ----------
    cells : dict[tuple[int, tuple[int, ...] | None], Cell]
        By object and constant index; the index REST stands for every other element.
    stored, loaded : frozenset[int]
        Objects stored to, and loaded from in reliance on there being no race, since the last barrier that
        orders all who share the object: the block's for shared memory, the grid's for global memory.
    exits : dict[int, Cause]
        Exits that some threads but not all may have taken before this point.
    worked : bool
        Whether anything since the last grid barrier could need the next one.
    """

    cells: dict = field(default_factory=dict)
    stored: frozenset[int] = frozenset()
    loaded: frozenset[int] = frozenset()
    exits: dict[int, Cause] = field(default_factory=dict)
    worked: bool = True

    def copy(self) -> State:
        return replace(self, cells=dict(self.cells), exits=dict(self.exits))

    def join(self, other: State) -> State:
        cells = dict(self.cells)
        for key, cell in other.cells.items():
            cells[key] = join_cells(cells[key], cell) if key in cells else Cell(cell.variation)
        for key, cell in self.cells.items():
            if key not in other.cells:
                cells[key] = Cell(cell.variation)
        exits = dict(self.exits)
        for key, cause in other.exits.items():
            known = exits.get(key)
            exits[key] = cause if known is None else replace(cause, variation=known.variation.join(cause.variation))
        return State(cells, self.stored | other.stored, self.loaded | other.loaded, exits, self.worked or other.worked)

    def same_as(self, other: State) -> bool:
        """Whether the two say the same, so that a loop's analysis has settled."""
        return (
            self.worked == other.worked
            and self.stored == other.stored
            and self.loaded == other.loaded
            and {k: c.variation for k, c in self.exits.items()} == {k: c.variation for k, c in other.exits.items()}
            and self.cells.keys() == other.cells.keys()
            and all(c.variation == other.cells[k].variation and _same(c.value, other.cells[k].value) for k, c in self.cells.items())
        )

    def leave(self, kinds: tuple[str, ...], depth: int) -> None:
        """Forget the exits of these kinds that end at the loop of this depth: their takers are back."""
        self.exits = {k: c for k, c in self.exits.items() if c.kind not in kinds or c.depth != depth}


def join_cells(a: Cell, b: Cell) -> Cell:
    return Cell(a.variation.join(b.variation), a.value if _same(a.value, b.value) else None)


def _same(a: object, b: object) -> bool:
    if a is None or b is None:
        return a is b
    return a.same_as(b) or tvm.ir.structural_equal(a, b)
