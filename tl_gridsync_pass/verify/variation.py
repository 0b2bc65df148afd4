"""How a value varies over the threads of a grid: the lattice of the uniformity analysis."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

from .diagnostics import Note

# How many steps of "x comes from y" a diagnostic explains.
_MAX_STEPS = 4


class Level(IntEnum):
    """How much is known about whether a value is the same along one axis."""

    UNIFORM = 0
    """Proved to be the same."""
    UNKNOWN = 1
    """It depends on data, so it may differ from run to run."""
    INDEX = 2
    """It depends on the index of the thread or block, and could not be proved to be the same all the same."""


@dataclass(frozen=True)
class Variation:
    """How a value varies over the threads of one block, and from block to block.

    Attributes
    ----------
    thread, block : Level
        The two axes. The join of two variations is the larger level on each.
    why : tuple[Note, ...]
        Where the variation comes from, nearest first. Not part of the comparison.
    """

    thread: Level = Level.UNIFORM
    block: Level = Level.UNIFORM
    why: tuple[Note, ...] = field(default=(), compare=False)

    @property
    def level(self) -> Level:
        return max(self.thread, self.block)

    @property
    def uniform(self) -> bool:
        return self.level == Level.UNIFORM

    def join(self, other: Variation) -> Variation:
        if other.uniform:
            return self
        if self.uniform:
            return other
        why = other.why if other.level > self.level else self.why
        return Variation(max(self.thread, other.thread), max(self.block, other.block), why)

    def at_most(self, thread: Level = Level.INDEX, block: Level = Level.INDEX) -> Variation:
        return Variation(min(self.thread, thread), min(self.block, block), self.why)

    def at_least(self, thread: Level = Level.UNIFORM, block: Level = Level.UNIFORM) -> Variation:
        return Variation(max(self.thread, thread), max(self.block, block), self.why)

    def because(self, note: Note) -> Variation:
        return self if self.uniform else Variation(self.thread, self.block, (note, *self.why)[:_MAX_STEPS])


UNIFORM = Variation()


def join_all(variations) -> Variation:
    result = UNIFORM
    for variation in variations:
        result = result.join(variation)
    return result
