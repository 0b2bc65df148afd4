"""The questions that :mod:`.explore` answers about a protocol, and the grids they are asked on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from .explore import Exploration, Result
from .harness import Grid, Harness, Index, Texts

# Blocks x threads: two to four blocks, one to four threads, on one to three axes each.
SHAPES: tuple[tuple[Index, Index], ...] = (
    ((2, 1, 1), (1, 1, 1)),
    ((2, 1, 1), (2, 1, 1)),
    ((2, 1, 1), (1, 2, 1)),
    ((1, 2, 1), (1, 1, 2)),
    ((2, 1, 1), (2, 2, 1)),
    ((1, 1, 2), (1, 2, 2)),
    ((3, 1, 1), (2, 1, 2)),
    ((1, 3, 1), (3, 1, 1)),
    ((4, 1, 1), (1, 1, 1)),
    ((2, 2, 1), (1, 2, 1)),
    ((2, 1, 2), (1, 3, 1)),
    ((2, 2, 1), (2, 2, 1)),
)
ROUNDS = 3
# Where the model puts the words of a launch: far enough apart that a wrong offset hits nothing.
FIRST_ADDRESS = 0x1000
_LAUNCH_STRIDE = 0x1000
_OPERAND_STRIDE = 0x100


@dataclass(frozen=True)
class Question:
    """One exploration: the launches that run at once and what the barrier's words hold before."""

    name: str
    grids: tuple[Grid, ...]
    memory: tuple[tuple[int, int], ...]

    def exploration(self, allow_early_release: bool = False) -> Exploration:
        return Exploration(list(self.grids), dict(self.memory), allow_early_release=allow_early_release)


def addresses_of(protocol: Texts, launch: int = 0) -> tuple[int, ...]:
    """Model addresses for the protocol's operands, those of each launch apart."""
    return tuple(FIRST_ADDRESS + launch * _LAUNCH_STRIDE + i * _OPERAND_STRIDE for i in range(len(protocol.operands)))


def words_of(protocol: Texts, launch: int = 0, words: Mapping[str, int] | None = None) -> tuple[int, ...]:
    """The addresses of all 32-bit words behind the operands; ``words`` gives how many an operand has, 1 if left out."""
    counts = words or {}
    return tuple(a + 4 * i for name, a in zip(protocol.operands, addresses_of(protocol, launch)) for i in range(counts.get(name, 1)))


def one_launch(harness: Harness, blocks: Index, threads: Index, rounds: int = ROUNDS, initial: Sequence[int] | None = None) -> Question:
    """One launch, from zeroed words or from ``initial`` ones."""
    operands = addresses_of(harness.protocol)
    words = words_of(harness.protocol)
    grid = Grid(harness, blocks, threads, operands, rounds)
    return Question(f"{_extents(blocks)} blocks x {_extents(threads)} threads", (grid,), tuple(zip(words, initial or [0] * len(words))))


def two_launches(harness: Harness, blocks: Index, threads: Index, shared: bool, rounds: int = ROUNDS) -> Question:
    """Two launches of one kernel at once: on the same words (module state), or each on its own (launch state)."""
    grids, words = [], []
    for launch in range(2):
        own = 0 if shared else launch
        grids.append(Grid(harness, blocks, threads, addresses_of(harness.protocol, own), rounds, name=f"launch {launch}"))
        words += words_of(harness.protocol, own)
    what = "the same words" if shared else "words of their own"
    name = f"2 launches on {what}, {_extents(blocks)} blocks x {_extents(threads)} threads"
    return Question(name, tuple(grids), tuple((a, 0) for a in sorted(set(words))))


def launches_in_turn(harness: Harness, blocks: Index, threads: Index, count: int = 2, rounds: int = ROUNDS, initial: Sequence[int] | None = None) -> Iterator[tuple[Question, Result]]:
    """Launches one after the other on the same words, each from whatever the one before may have left."""
    starts = {tuple(initial or [0] * len(words_of(harness.protocol)))}
    for number in range(count):
        ends: set[tuple[int, ...]] = set()
        for start in sorted(starts):
            question = one_launch(harness, blocks, threads, rounds, start)
            question = replace(question, name=f"launch {number + 1} in turn from {', '.join(map(hex, start))}, {question.name}")
            result = question.exploration().run()
            yield question, result
            if not result.holds:
                return
            ends |= result.final_memories
        starts = ends


def _extents(extents: Index) -> str:
    return f"({', '.join(map(str, extents))})"
