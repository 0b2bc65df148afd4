"""The questions that :mod:`.explore` answers about a protocol, and the grids they are asked on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ..protocol import ADDRESSES, CLAIM_STRIPES, LAUNCH_STRIPED, STRIPES, Protocol
from .explore import Exploration, Result
from .harness import Grid, Harness, Index

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
# Where the model puts the words of a launch: far enough apart that a wrong offset hits nothing. The
# workspace needs both halves of its 64-bit address.
_FIRST_ADDRESS = 0x7_0000_1000
_LAUNCH_STRIDE = 0x1000
_WORD_STRIDE = 0x100
# The barrier's word of the driver's workspace, in bytes from its start (cooperative_groups/details/driver_abi.h).
_BARRIER_WORD = 4
# The table of stripes, as laid out in protocol.py: bytes from one stripe to the next and from slot to slot.
_STRIPE_BYTES, _SLOT_BYTES, _SLOTS = 4096, 32, 128
# All launches of a module share the table; it lies apart from their workspaces.
_TABLE = 0x9_0000_0000

# Grids with a block for every stripe, and with two for one; fewer blocks leave a stripe that never fills.
STRIPED_SHAPES: tuple[tuple[Index, Index], ...] = (((4, 1, 1), (1, 1, 1)), ((2, 2, 1), (1, 1, 1)))


def shapes_for(protocol: Protocol) -> tuple[tuple[Index, Index], ...]:
    """The grids that a protocol is explored on."""
    return STRIPED_SHAPES if protocol.name == LAUNCH_STRIPED.name else SHAPES


def rounds_for(protocol: Protocol) -> int:
    """How many barriers a launch is explored for: with four words to poll one after the other, fewer."""
    return 1 if protocol.name == LAUNCH_STRIPED.name else ROUNDS


def with_slot_taken(protocol: Protocol) -> Protocol:
    """The protocol with its slot of the table already found, which keeps the claim out of the state space.

    That all blocks of a launch find the same slot is a question of its own.
    """
    found = replace(CLAIM_STRIPES, inputs=(), text=f"mov.u64 $0, {_TABLE:#x};")
    return replace(protocol, entry=tuple(found if s == CLAIM_STRIPES else s for s in protocol.entry))


@dataclass(frozen=True)
class Question:
    """One exploration: the launches that run at once and what the barrier's words hold before."""

    name: str
    grids: tuple[Grid, ...]
    memory: tuple[tuple[int, int], ...]

    def exploration(self, allow_early_release: bool = False) -> Exploration:
        widths = {address: 64 for grid in self.grids for address, name in words_of(grid).items() if name == "owner"}
        return Exploration(list(self.grids), dict(self.memory), widths, allow_early_release)


def grid_of(harness: Harness, blocks: Index, threads: Index, rounds: int, launch: int = 0, name: str = "") -> Grid:
    """A launch with a workspace of its own, and words of its own for whatever else the protocol takes."""
    workspace = _FIRST_ADDRESS + launch * _LAUNCH_STRIDE
    addresses = {word: workspace + (i + 1) * _WORD_STRIDE for i, word in enumerate(_other_words(harness.protocol))}
    if "table" in addresses:
        addresses["table"] = _TABLE
    return Grid(harness, blocks, threads, workspace, addresses, rounds, name)


def _other_words(protocol: Protocol) -> list[str]:
    """The addresses that the protocol takes and does not compute from the workspace."""
    computed = {statement.output for statement in (*protocol.entry, *protocol.setup)}
    taken = [name for s in (*protocol.entry, *protocol.setup, protocol.arrive, protocol.wait) for name in s.inputs if name in ADDRESSES]
    return [name for name in dict.fromkeys(taken) if name not in computed]


def words_of(grid: Grid) -> dict[int, str]:
    """The words that the barrier of a launch owns: address to name."""
    if grid.harness.protocol.name == LAUNCH_STRIPED.name and "table" not in grid.addresses:
        return {_TABLE + _STRIPE_BYTES * i: f"stripe {i}" for i in range(STRIPES)}
    if "table" in grid.addresses:
        slot, table = (grid.workspace >> 6) % _SLOTS, grid.addresses["table"]
        words = {table + _STRIPE_BYTES * i + _SLOT_BYTES * slot: f"stripe {i}" for i in range(STRIPES)}
        return {**words, table + _STRIPE_BYTES * STRIPES + 8 * slot: "owner"}
    if grid.harness.uses_workspace:
        return {grid.workspace + _BARRIER_WORD: "barrier word"}
    return {address: name.replace("_word", "") for name, address in grid.addresses.items()}


def one_launch(harness: Harness, blocks: Index, threads: Index, rounds: int = ROUNDS, initial: Sequence[int] | None = None) -> Question:
    """One launch, from zeroed words or from ``initial`` ones."""
    grid = grid_of(replace(harness, protocol=with_slot_taken(harness.protocol)), blocks, threads, rounds)
    words = sorted(words_of(grid))
    memory = tuple(zip(words, initial or [0] * len(words), strict=True))
    return Question(f"{_extents(blocks)} blocks x {_extents(threads)} threads", (grid,), memory)


def two_launches(harness: Harness, blocks: Index, threads: Index, shared: bool, rounds: int = ROUNDS) -> Question:
    """Two launches of one kernel at once: on the same words (module state), or each on its own (launch state)."""
    grids = [grid_of(harness, blocks, threads, rounds, 0 if shared else launch, f"launch {launch}") for launch in range(2)]
    words = {address for grid in grids for address in words_of(grid)}
    what = "the same words" if shared else "words of their own"
    name = f"2 launches on {what}, {_extents(blocks)} blocks x {_extents(threads)} threads"
    return Question(name, tuple(grids), tuple((a, 0) for a in sorted(words)))


def launches_in_turn(
    harness: Harness, blocks: Index, threads: Index, count: int = 2, rounds: int = ROUNDS, initial: Sequence[int] | None = None
) -> Iterator[tuple[Question, Result]]:
    """Launches one after the other on the same words, each from whatever the one before may have left."""
    starts = {tuple(initial or [0] * len(words_of(grid_of(harness, blocks, threads, rounds))))}
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
