"""The barrier under the PTX memory model: what it orders, and what each of its orderings is for.

The events are those of the very texts that the device emits, inside the harness that the pass emits. Three
questions are asked of a barrier, for every ordered pair of threads of different blocks and of the same:

- *read after write*: may a read after the barrier miss a write before it?
- *write after read*: may a read before the barrier see a write after it?
- *write after write*: may a write after the barrier come before a write before it, in coherence order?

Shipped orderings must answer no to all three; a weakening that answers yes to one shows what its ordering is
for.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import product
from typing import Any

import z3

from ..protocol import FIRST_GENERATION, LAUNCH_STRIPED, Protocol, Ptx
from .harness import Grid, Harness, Index, indices
from .memory_model import Model, Place
from .safety import grid_of, with_slot_taken
from .specialize import specialize
from .symbolic import Path, Probe, joined, paths

# Blocks, threads and rounds that the shipped barrier is asked about.
GRIDS: tuple[tuple[Index, Index, int], ...] = (((2, 1, 1), (2, 1, 1), 2), ((3, 1, 1), (1, 1, 1), 1))

STRIPED_GRIDS: tuple[tuple[Index, Index, int], ...] = (
    ((4, 1, 1), (1, 1, 1), 1),
    ((4, 1, 1), (1, 1, 1), 2),
    ((5, 1, 1), (1, 1, 1), 1),
)

# Weakenings that admit no hazard, and why what they weaken stands in the text all the same.
NEEDED_FOR_NO_HAZARD = {
    "arrive: ld.relaxed.gpu.global.u32 $0, [$2]; gpu to cta": (
        "the acquire of the barrier before orders the store that it must see, and the release after it keeps the next store from it; "
        "gpu scope makes it an atomic access, so that the compiler neither drops nor repeats it"
    ),
    "arrive: st.relaxed.gpu.global.u32 [$1], 0; gpu to cta": (
        "the release of the generation orders it before every arrival of the next round; gpu scope keeps it morally strong with them, "
        "which PTX asks for before it promises atomicity"
    ),
}

HAZARDS = ("read after write", "write after read", "write after write")
# Not a hazard: that every thread gets past the barrier with what it should see.
PASSES = "passes"


@dataclass(frozen=True)
class Answer:
    """Whether a hazard is possible, an execution that has it, how many combinations of paths were looked into, and the time."""

    hazard: str
    possible: bool
    witness: tuple[str, ...]
    executions: int
    seconds: float


def ask(
    harness: Harness,
    hazard: str,
    blocks: Index = (2, 1, 1),
    threads: Index = (2, 1, 1),
    rounds: int = 2,
    at: int = 0,
    thin_air: bool = False,
) -> Answer:
    """Whether ``hazard`` is possible at barrier ``at`` of ``rounds``.

    Without ``thin_air`` the model allows more than PTX does, so "no" is the stronger statement; ask with it
    where an execution is to be shown.
    """
    started = time.perf_counter()
    launch = _Launch(harness, blocks, threads, rounds)
    every = launch.paths(lambda t, n: _Probes(hazard, t, n, at))
    places = launch.places()
    count = 0
    for choice in product(*(range(len(candidates)) for candidates in every)):
        if not _can_happen(launch, choice):
            continue
        count += 1
        chosen = [candidates[i] for candidates, i in zip(every, choice, strict=True)]
        events, conditions, starts = joined(chosen)
        model = Model(events, places, thin_air=thin_air, conditions=conditions)
        found = [{probe: starts[t] + i for probe, i in path.probes.items()} for t, path in enumerate(chosen)]
        if model.possible(z3.Or(*_hazards(hazard, model, found))):
            return Answer(hazard, True, tuple(model.witness()), count, time.perf_counter() - started)
    return Answer(hazard, False, (), count, time.perf_counter() - started)


def grids_for(protocol: Protocol) -> tuple[tuple[Index, Index, int], ...]:
    """The grids that a protocol is asked about; the striped one needs a block for each of its four words.

    With the second of two barriers there are reads of words that are two generations ahead; with five blocks a
    stripe has two.
    """
    return STRIPED_GRIDS if protocol.name == LAUNCH_STRIPED.name else GRIDS


@dataclass(frozen=True)
class _Launch:
    """A launch and the paths of its threads, which are the same ones in the same order whatever probes stand on them."""

    harness: Harness
    blocks: Index
    threads: Index
    rounds: int

    def places(self) -> list[Place]:
        """Where each thread runs."""
        return [Place(b) for b, _, _ in self._everyone()]

    def paths(
        self, probes: Callable[[int, int], Callable[[str, int], list[Probe]]] = lambda t, n: lambda mark, number: []
    ) -> list[list[Path]]:
        """The paths of each thread ``t`` of ``n``, with the probes ``probes(t, n)``."""
        everyone = self._everyone()
        return [
            list(paths(specialize(self._grid(), ctaid, tid), t, b, probes(t, len(everyone)))) for t, (b, ctaid, tid) in enumerate(everyone)
        ]

    def _everyone(self) -> list[tuple[int, Index, Index]]:
        return [(b, ctaid, tid) for b, ctaid in enumerate(self._grid().block_indices()) for tid in indices(self.threads)]

    def _grid(self) -> Grid:
        bare = replace(self.harness, paced=False, protocol=with_slot_taken(self.harness.protocol))
        return grid_of(bare, self.blocks, self.threads, self.rounds)


@lru_cache(maxsize=16)
def _skeletons(launch: _Launch) -> list[list[Path]]:
    return [[_words_alone(path) for path in candidates] for candidates in launch.paths(lambda t, n: lambda mark, number: [])]


@lru_cache(maxsize=100_000)
def _can_happen(launch: _Launch, choice: tuple[int, ...]) -> bool:
    """Whether the threads can have taken the paths of these numbers together; asked of few events, so that most choices cost little.

    Events left out only take axioms away, so a no here is a no of the whole, for every hazard.
    """
    events, conditions, _ = joined([candidates[i] for candidates, i in zip(_skeletons(launch), choice, strict=True)])
    return Model(events, launch.places(), thin_air=False, conditions=conditions).possible()


def _words_alone(path: Path) -> Path:
    """A path with nothing left in it but the accesses to the barrier's words and the fences."""
    kept = [i for i, e in enumerate(path.events) if e.kind == "F" or (e.is_memory and isinstance(e.location, int))]
    number: dict[int | None, int] = {old: new for new, old in enumerate(kept)}
    events = [replace(path.events[i], depends=frozenset(), partner=number.get(path.events[i].partner)) for i in kept]
    return Path(events, path.conditions)


class _Probes:
    """What thread ``t`` of ``n`` accesses around barrier ``at`` to show a hazard."""

    def __init__(self, hazard: str, t: int, n: int, at: int) -> None:
        self.hazard, self.t, self.at = hazard, t, at
        self.others = [u for u in range(n) if u != t]

    def __call__(self, mark: str, number: int) -> list[Probe]:
        if number != self.at:
            return []
        before = mark == "enter"
        if self.hazard in ("read after write", PASSES):
            if before:
                return [_probe("W", self.t, 1, "before")]
            return [_probe("R", u, 0, "after") for u in self.others]
        if self.hazard == "write after read":
            if before:
                return [_probe("R", u, 0, "before") for u in self.others]
            return [_probe("W", self.t, 1, "after")]
        if before:
            return [_probe("W", self.t, 1, "before")]
        return [_probe("W", u, 2, "after") for u in self.others]


def _probe(kind: str, word: int, value: int, when: str) -> Probe:
    what = f"writes {value} to" if kind == "W" else "reads"
    return Probe(kind, ("data", word), value, f"{what} data[{word}] {when} the barrier")


def _hazards(hazard: str, model: Model, found: list[dict[Probe, int]]) -> Iterator[Any]:
    threads = range(len(found))
    if hazard == PASSES:
        yield z3.And(
            *(
                model.reads_from(found[u][_probe("W", u, 1, "before")], found[t][_probe("R", u, 0, "after")])
                for t in threads
                for u in threads
                if t != u
            )
        )
        return
    for t, u in ((t, u) for t in threads for u in threads if t != u):
        if hazard == "read after write":
            yield z3.Not(model.reads_from(found[u][_probe("W", u, 1, "before")], found[t][_probe("R", u, 0, "after")]))
        elif hazard == "write after read":
            yield model.reads_from(found[u][_probe("W", u, 1, "after")], found[t][_probe("R", u, 0, "before")])
        else:
            yield z3.Not(model.coherence(found[u][_probe("W", u, 1, "before")], found[t][_probe("W", u, 2, "after")]))


@dataclass(frozen=True)
class Weakening:
    """One ordering taken away: what it was, and the harness without it."""

    name: str
    harness: Harness


_WEAKER = {"acquire": ("relaxed",), "release": ("relaxed",), "acq_rel": ("acquire", "release"), "sc": ("acq_rel",)}


def weakenings(harness: Harness) -> Iterator[Weakening]:
    """Every ordering of a barrier weakened by one step, every scope narrowed to the block, every fence and block barrier dropped."""
    yield Weakening("no bar.sync before", replace(harness, block_barrier_before=False))
    yield Weakening("no bar.sync after", replace(harness, block_barrier_after=False))
    protocol = harness.protocol
    for part in ("arrive", "bounded_wait" if harness.bounded else "wait"):
        for what, ptx in _weaker_texts(getattr(protocol, part)):
            changed: Any = {part: ptx}
            yield Weakening(f"{part}: {what}", replace(harness, protocol=replace(protocol, **changed)))
    for i, statement in enumerate(protocol.entry):
        if statement == FIRST_GENERATION:
            for what, ptx in _weaker_texts(statement):
                entry = (*protocol.entry[:i], ptx, *protocol.entry[i + 1 :])
                yield Weakening(f"first generation: {what}", replace(harness, protocol=replace(protocol, entry=entry)))


def _weaker_texts(ptx: Ptx) -> Iterator[tuple[str, Ptx]]:
    for start, end in _statements(ptx.text):
        statement = ptx.text[start:end]
        for what, weaker in _weaker_statements(statement):
            yield f"{' '.join(statement.split())} {what}", replace(ptx, text=ptx.text[:start] + weaker + ptx.text[end:])


def _statements(text: str) -> list[tuple[int, int]]:
    """Where the memory operations and fences stand in a PTX text, without comments and guards around them."""
    blanked = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: " " * len(m[0]), text, flags=re.S)
    return [m.span() for m in re.finditer(r"\b(?:ld|st|atom|red|fence|membar)\.[^;]*;", blanked)]


def _weaker_statements(statement: str) -> Iterator[tuple[str, str]]:
    opcode = statement.split()[0].rstrip(";")
    qualifiers = opcode.split(".")
    for order, weaker in _WEAKER.items():
        if order in qualifiers:
            for one in weaker:
                if not (qualifiers[0] == "fence" and one == "relaxed"):
                    yield f"{order} to {one}", statement.replace(f".{order}", f".{one}", 1)
    if "gpu" in qualifiers:
        yield "gpu to cta", statement.replace(".gpu", ".cta", 1)
    if qualifiers[0] in ("fence", "membar"):
        yield "dropped", ""


def first_hazard(harness: Harness) -> Answer | None:
    """The first hazard that the barrier admits, over all hazards and barriers; None where there is none."""
    grids = grids_for(harness.protocol)[:1]
    if harness.is_striped:
        # With one thread a block, its block barriers have nothing to order; with one block a stripe, its word has one writer.
        grids = (((4, 1, 1), (2, 1, 1), 1), ((5, 1, 1), (1, 1, 1), 1))
    for blocks, threads, rounds in grids:
        for at in range(rounds):
            for hazard in HAZARDS:
                answer = ask(harness, hazard, blocks, threads, rounds, at, thin_air=True)
                if answer.possible:
                    return answer
    return None
