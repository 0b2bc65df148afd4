"""The questions that :mod:`.explore` answers about a protocol, and the grids they are asked on."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from ..protocol import ADDRESSES, CLAIM_STRIPES, LAUNCH_STRIPED, STRIPE_ADDEND, STRIPE_OFFSET, STRIPE_SIZE, STRIPES, Protocol, Ptx
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
# The table of stripes, as laid out in protocol.py: bytes from one stripe to the next, from slot to slot, and from one page
# of slots to the next.
_STRIPE_BYTES, _SLOT_BYTES, _PAGE_BYTES, _SLOTS = 1024, 32, 4096, 128
_SLOTS_A_PAGE = _STRIPE_BYTES // _SLOT_BYTES
# All launches of a module share the table; it lies apart from their workspaces.
_TABLE = 0x9_0000_0000

# A block for every stripe; fewer leave a stripe that never fills. More are too many states: two blocks in a
# stripe are explored with two stripes.
STRIPED_SHAPES: tuple[tuple[Index, Index], ...] = (((4, 1, 1), (1, 1, 1)),)
# With two stripes, see :func:`with_two_stripes`: one or two blocks in each, and blocks of two threads.
TWO_STRIPES_SHAPES: tuple[tuple[Index, Index], ...] = (
    ((2, 1, 1), (1, 1, 1)),
    ((3, 1, 1), (1, 1, 1)),
    ((2, 2, 1), (1, 1, 1)),
    ((2, 1, 1), (1, 2, 1)),
)


def shapes_for(protocol: Protocol) -> tuple[tuple[Index, Index], ...]:
    """The grids that a protocol is explored on."""
    return STRIPED_SHAPES if protocol.name == LAUNCH_STRIPED.name else SHAPES


def rounds_for(protocol: Protocol, blocks: Index = (1, 1, 1)) -> int:
    """How many barriers a launch is explored for: with four words to poll one after the other, fewer."""
    if protocol.name != LAUNCH_STRIPED.name:
        return ROUNDS
    return 1 if prod(blocks) > STRIPES else 2


def with_two_stripes(protocol: Protocol = LAUNCH_STRIPED, slots: int = _SLOTS) -> Protocol:
    """The striped protocol with two stripes in place of four, and a table of ``slots``.

    Made by putting other numbers into the shipped texts, and leaving out two of the four loads.

    Raises
    ------
    ValueError
        Where a text has not got a piece that is exchanged, exactly once.
    """
    load = "    ld.relaxed.gpu.global.u32 %{0}, [{1}+{2}];\n"

    def two(ptx: Ptx, *edits: tuple[str, str]) -> Ptx:
        for old, new in edits:
            if ptx.text.count(old) != 1:
                raise ValueError(f"{old!r} stands {ptx.text.count(old)} times in a text of the striped protocol")
            ptx = replace(ptx, text=ptx.text.replace(old, new))
        return ptx

    def two_words(ptx: Ptx, base: str, first: str, generation: str) -> Ptx:
        return two(
            ptx,
            (load.format("c", base, 2 * _STRIPE_BYTES), ""),
            (load.format("d", base, 3 * _STRIPE_BYTES), ""),
            (f"    xor.b32 %c, %c, {generation};\n", ""),
            (f"    xor.b32 %d, %d, {generation};\n", ""),
            ("    min.u32 %c, %c, %d;\n", ""),
            (f"    min.u32 {first}, {first}, %c;\n", ""),
        )

    changed = {
        STRIPE_OFFSET: two(STRIPE_OFFSET, ("and.b32 %stripe, $1, 3", "and.b32 %stripe, $1, 1")),
        STRIPE_SIZE: two(STRIPE_SIZE, ("%size, 3, %size", "%size, 1, %size"), ("%size, 2;", "%size, 1;")),
        STRIPE_ADDEND: two(STRIPE_ADDEND, ("%first, $1, 4", "%first, $1, 2")),
        CLAIM_STRIPES: two(CLAIM_STRIPES, ("%slot, %slot, 127", f"%slot, %slot, {slots - 1}"), ("%left, 128", f"%left, {slots}")),
    }
    return replace(
        protocol,
        name=f"{protocol.name}, two stripes",
        entry=tuple(changed.get(s, s) for s in protocol.entry),
        wait=two_words(protocol.wait, "$0", "%a", "$1"),
        bounded_wait=two_words(protocol.bounded_wait, "$1", "$0", "$2"),
    )


def with_slot_taken(protocol: Protocol) -> Protocol:
    """The protocol with its slot of the table already found, which keeps the claim out of the state space.

    That all blocks of a launch find the same slot is a question of its own.
    """
    found = Ptx(f"mov.u64 $0, {_TABLE:#x};", output="stripes")
    return replace(protocol, entry=tuple(found if s.output == "stripes" else s for s in protocol.entry))


@dataclass(frozen=True)
class Question:
    """One exploration: the launches that run at once and what the barrier's words hold before."""

    name: str
    grids: tuple[Grid, ...]
    memory: tuple[tuple[int, int], ...]

    def exploration(self, allow_early_release: bool = False) -> Exploration:
        widths = {address: 64 for address, _ in self.memory if owner_of(0) <= address < owner_of(_SLOTS)}
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
    if "table" in grid.addresses:
        slot = (grid.workspace >> 6) % _SLOTS
        return {**stripes_of(slot), owner_of(slot): "owner"}
    if grid.harness.is_striped:
        return stripes_of(0)
    if grid.harness.uses_workspace:
        return {grid.workspace + _BARRIER_WORD: "barrier word"}
    return {address: name.replace("_word", "") for name, address in grid.addresses.items()}


def stripes_of(slot: int) -> dict[int, str]:
    """The words of a slot of the table: address to name."""
    page, place = divmod(slot, _SLOTS_A_PAGE)
    first = _TABLE + _PAGE_BYTES * page + _SLOT_BYTES * place
    return {first + _STRIPE_BYTES * i: f"stripe {i}" for i in range(STRIPES)}


def owner_of(slot: int) -> int:
    """The address of a slot's owner."""
    return _TABLE + _PAGE_BYTES * (_SLOTS // _SLOTS_A_PAGE) + 8 * slot


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
    starts = {tuple(initial or [0] * len(one_launch(harness, blocks, threads, rounds).memory))}
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


def launches_in_one_slot(count: int, slots: int, taken: int, rounds: int = 1, blocks: Index = (2, 1, 1), bounded: bool = False) -> Question:
    """Launches at once with the claim of their slots in it, all of whose workspaces ask for slot 0 of the table.

    ``taken`` of the ``slots`` have an owner that is not among the launches. Two stripes.
    """
    harness = Harness(with_two_stripes(slots=slots), bounded=bounded)
    # Workspaces as far apart as the whole table spreads them.
    stride = 64 * _SLOTS // _LAUNCH_STRIDE
    grids = tuple(grid_of(harness, blocks, (1, 1, 1), rounds, stride * launch, f"launch {launch}") for launch in range(count))
    assert all((grid.workspace >> 6) % slots == (grids[0].workspace >> 6) % slots for grid in grids)
    memory = {address: 0 for slot in range(slots) for address in (*stripes_of(slot), owner_of(slot))}
    memory.update({owner_of(slot): 64 * (slot + 1) for slot in range(taken)})
    memory.update({grid.workspace + _BARRIER_WORD: 0 for grid in grids})
    name = f"{count} launches at once that ask for one slot, {taken} of {slots} slots taken, {_extents(blocks)} blocks"
    return Question(name, grids, tuple(sorted(memory.items())))


def _extents(extents: Index) -> str:
    return f"({', '.join(map(str, extents))})"
