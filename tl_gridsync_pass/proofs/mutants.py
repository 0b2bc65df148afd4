"""Faults planted in the barrier, and the check that catches each.

A mutant is made by an edit of a shipped PTX text or by a change of the harness around it; an edit whose
anchor is not found exactly once fails, so that no mutant silently becomes the original. Each is given to the
exploration of all interleavings first and, where that finds nothing, to the memory model.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from ..protocol import (
    ADDEND,
    FIRST_GENERATION,
    FIRST_WORD,
    LAUNCH,
    LAUNCH_RANKED,
    LAUNCH_STRIPED,
    MODULE,
    NEXT_GENERATION,
    NEXT_GENERATION_STRIPED,
    STRIPE_ADDEND,
    STRIPE_SIZE,
    WORD,
    WORKSPACE,
    Protocol,
    Ptx,
)
from .harness import Harness, Index
from .ordering import first_hazard
from .safety import STRIPED_SHAPES, launches_in_turn, one_launch, rounds_for

# The grids that mutants are tried on: smallest first, with every axis of blocks and of threads in use.
SHAPES: tuple[tuple[Index, Index], ...] = (
    ((2, 1, 1), (1, 1, 1)),
    ((2, 1, 1), (2, 1, 1)),
    ((2, 1, 1), (1, 2, 1)),
    ((2, 1, 1), (1, 1, 2)),
    ((1, 2, 1), (1, 1, 1)),
    ((1, 1, 2), (1, 1, 1)),
    ((3, 1, 1), (1, 1, 1)),
    ((3, 1, 1), (1, 2, 1)),
)


@dataclass(frozen=True)
class Mutant:
    """One planted fault: its name and the barrier that has it."""

    name: str
    harness: Harness


@dataclass(frozen=True)
class Caught:
    """Who catches a mutant (None: nobody) and what was found."""

    by: str | None
    what: str = ""


def edited(ptx: Ptx, old: str, new: str) -> Ptx:
    """``ptx`` with one piece of its text replaced.

    Raises
    ------
    ValueError
        Where the piece does not stand in the text exactly once.
    """
    if ptx.text.count(old) != 1:
        raise ValueError(f"{old!r} stands {ptx.text.count(old)} times in a protocol text, so the mutant cannot be planted")
    return replace(ptx, text=ptx.text.replace(old, new))


def moved_after(ptx: Ptx, line: str, anchor: str) -> Ptx:
    """``ptx`` with one line of its text put after another."""
    without = edited(ptx, line, "")
    return edited(without, anchor, f"{anchor}\n    {line}")


def mutants() -> Iterator[Mutant]:
    """Every planted fault, by protocol."""
    for protocol in (LAUNCH, LAUNCH_RANKED, MODULE):
        yield from _around(protocol)
    for protocol in (LAUNCH, LAUNCH_RANKED):
        yield from _launch(protocol)
    yield from _striped()
    yield from _module()
    yield from _bounded()


def _around(protocol: Protocol) -> Iterator[Mutant]:
    """Faults of the code around the statements."""
    harness = Harness(protocol)

    def changed(name: str, **fields: Any) -> Mutant:
        return Mutant(f"{protocol.name}: {name}", replace(harness, **fields))

    yield changed("leader forgets y", leader=lambda tid, _: tid[0] == 0 and tid[2] == 0)
    yield changed("leader forgets z", leader=lambda tid, _: tid[0] == 0 and tid[1] == 0)
    yield changed("leader tests with or instead of and", leader=lambda tid, _: 0 in tid)
    yield changed("no leader at all", leader=lambda tid, _: False)
    yield changed("no bar.sync before", block_barrier_before=False)
    yield changed("no bar.sync after", block_barrier_after=False)
    yield changed("barrier skipped for one block", participates=lambda ctaid: ctaid == (0, 0, 0))
    yield changed("block count leaves out y", blocks=lambda extents: extents[0] * extents[2])
    yield changed("block count leaves out z", blocks=lambda extents: extents[0] * extents[1])
    yield changed("one block too many expected", blocks=lambda extents: extents[0] * extents[1] * extents[2] + 1)
    yield changed("one block too few expected", blocks=lambda extents: extents[0] * extents[1] * extents[2] - 1)
    yield changed("wait left out", protocol=replace(protocol, wait=Ptx("", protocol.wait.inputs)))
    yield changed(
        "arrive left out",
        protocol=replace(protocol, arrive=replace(protocol.arrive, text="mov.u32 $0, 0;" if protocol.arrive.output else "")),
    )
    yield changed("no acquire after the polls", protocol=replace(protocol, wait=edited(protocol.wait, "ld.acquire.gpu", "ld.relaxed.gpu")))
    yield changed("acquire at block scope", protocol=replace(protocol, wait=edited(protocol.wait, "ld.acquire.gpu", "ld.acquire.cta")))
    yield changed("polls at block scope", protocol=replace(protocol, wait=edited(protocol.wait, "ld.relaxed.gpu", "ld.relaxed.cta")))
    yield changed("waits while the generation differs", protocol=replace(protocol, wait=edited(protocol.wait, "@%same bra", "@!%same bra")))


def _launch(protocol: Protocol) -> Iterator[Mutant]:
    harness = Harness(protocol)

    def changed(name: str, **statements: Any) -> Mutant:
        return Mutant(f"{protocol.name}: {name}", replace(harness, protocol=replace(protocol, **statements)))

    def setup(name: str, old: Ptx, new: Ptx) -> Mutant:
        return Mutant(f"{protocol.name}: {name}", replace(harness, protocol=_exchanged(protocol, old, new)))

    yield setup("block (0,0,0) adds 1", ADDEND, edited(ADDEND, "selp.b32 $0, %x, 1, %first", "selp.b32 $0, 1, 1, %first"))
    yield setup(
        "every block adds what block (0,0,0) adds", ADDEND, edited(ADDEND, "selp.b32 $0, %x, 1, %first", "selp.b32 $0, %x, %x, %first")
    )
    yield setup("block (0,0,0) adds one too little", ADDEND, edited(ADDEND, "0x80000001", "0x80000000"))
    yield setup("every block with x = 0 is the first", ADDEND, edited(ADDEND, "or.b32 %x, %x, %y;\n    or.b32 %x, %x, %z;", ""))
    yield setup("the first block is told by x and z alone", ADDEND, edited(ADDEND, "    or.b32 %x, %x, %y;\n", ""))
    yield setup("word at offset 0 of the workspace", WORD, edited(WORD, "%lane, %lane, 4", "%lane, %lane, 0"))
    yield setup("word at offset 8 of the workspace", WORD, edited(WORD, "%lane, %lane, 4", "%lane, %lane, 8"))
    yield setup("halves of the workspace's address exchanged", WORKSPACE, edited(WORKSPACE, "{%lo, %hi}", "{%hi, %lo}"))
    yield setup("first generation read at offset 0", FIRST_WORD, edited(FIRST_WORD, "$0, $1, 4", "$0, $1, 0"))
    yield setup(
        "first generation taken for zero", FIRST_GENERATION, edited(FIRST_GENERATION, "@%reads ld.relaxed.gpu.global.u32 $0, [$1];", "")
    )
    yield setup(
        "every thread but the leader reads the first generation", FIRST_GENERATION, edited(FIRST_GENERATION, "@%reads ld", "@!%reads ld")
    )
    yield changed("generation not advanced", turn=edited(NEXT_GENERATION, "0x80000000", "0"))
    yield changed("generation advanced by the wrong bit", turn=edited(NEXT_GENERATION, "0x80000000", "0x40000000"))
    yield changed(
        "the count is polled, not the generation", wait=edited(protocol.wait, "setp.ge.s32 %same, %now, 0", "setp.eq.u32 %same, %now, 0")
    )
    yield changed("arrives without release", arrive=edited(protocol.arrive, "fence.release.gpu;", ""))
    yield changed("release fence at block scope", arrive=edited(protocol.arrive, "fence.release.gpu", "fence.release.cta"))
    yield changed(
        "an acquire fence in place of the release fence", arrive=edited(protocol.arrive, "fence.release.gpu", "fence.acquire.gpu")
    )
    yield changed("arrival at block scope", arrive=edited(protocol.arrive, ".relaxed.gpu.global.add", ".relaxed.cta.global.add"))
    kind = "red" if protocol is LAUNCH else "atom"
    line = next(one.strip() for one in protocol.arrive.text.splitlines() if one.strip().startswith(f"{kind}."))
    yield changed("release fence after the arrival", arrive=moved_after(protocol.arrive, "fence.release.gpu;", line))
    yield changed(
        "arrival exchanges instead of adding",
        arrive=edited(
            protocol.arrive,
            ".global.add.u32" if kind == "atom" else line,
            ".global.exch.b32" if kind == "atom" else "st.relaxed.gpu.global.u32 [$0], $1;",
        ),
    )


def _exchanged(protocol: Protocol, old: Ptx, new: Ptx) -> Protocol:
    """The protocol with one of its computing statements exchanged for another, wherever it stands."""
    entry, setup = (tuple(new if s == old else s for s in statements) for statements in (protocol.entry, protocol.setup))
    if (entry, setup) == (protocol.entry, protocol.setup):
        raise ValueError(f"{protocol.name} has no such statement, so the mutant cannot be planted")
    return replace(protocol, entry=entry, setup=setup)


def _striped() -> Iterator[Mutant]:
    p = LAUNCH_STRIPED

    def of(name: str, protocol: Protocol) -> Mutant:
        return Mutant(f"{p.name}: {name}", Harness(protocol))

    yield of("no stripe has a first block", _exchanged(p, STRIPE_ADDEND, edited(STRIPE_ADDEND, "%first, $1, 4", "%first, $1, 0")))
    yield of("stripes counted one block short", _exchanged(p, STRIPE_SIZE, edited(STRIPE_SIZE, "sub.u32 %size, 3,", "sub.u32 %size, 2,")))
    yield of("one stripe is not waited for", replace(p, wait=edited(p.wait, "    min.u32 %c, %c, %d;\n", "")))
    yield of("any stripe opens the barrier", replace(p, wait=edited(p.wait, "min.u32 %a, %a, %c", "max.u32 %a, %a, %c")))
    yield of("generation not advanced", replace(p, turn=edited(NEXT_GENERATION_STRIPED, "0x40000000", "0")))
    one_bit = _exchanged(p, STRIPE_ADDEND, edited(STRIPE_ADDEND, "0x40000001", "0x80000001"))
    turn = edited(NEXT_GENERATION_STRIPED, "0x40000000", "0x80000000")
    yield of("generation of one bit", replace(one_bit, wait=edited(p.wait, "0x40000000", "0x80000000"), turn=turn))
    yield of("no acquire after the polls", replace(p, wait=edited(p.wait, "fence.acquire.gpu;", "")))
    yield of("arrives without release", replace(p, arrive=edited(p.arrive, "fence.release.gpu;", "")))


def _module() -> Iterator[Mutant]:
    harness = Harness(MODULE)
    arrive = MODULE.arrive
    reset = "@%last st.relaxed.gpu.global.u32 [$1], 0;"
    advance = "@%last st.release.gpu.global.u32 [$2], %next;"
    capture = "ld.relaxed.gpu.global.u32 $0, [$2];"
    arrival = "atom.acq_rel.gpu.global.add.u32 %arrived, [$1], 1;"

    def changed(name: str, **statements: Any) -> Mutant:
        return Mutant(f"module: {name}", replace(harness, protocol=replace(MODULE, **statements)))

    yield changed("generation not advanced", arrive=edited(arrive, advance, ""))
    yield changed("generation advanced by every block", arrive=edited(arrive, advance, advance.removeprefix("@%last ")))
    yield changed("generation captured after the arrival", arrive=moved_after(arrive, capture, arrival))
    yield changed("counter not reset", arrive=edited(arrive, reset, ""))
    yield changed("counter reset after the release", arrive=moved_after(arrive, reset, advance))
    yield changed("counter reset by every block", arrive=edited(arrive, reset, reset.removeprefix("@%last ")))
    yield changed("counter reset to 1", arrive=edited(arrive, "[$1], 0;", "[$1], 1;"))
    yield changed("last arrival told one too late", arrive=edited(arrive, "    add.u32 %arrived, %arrived, 1;\n", ""))
    yield changed("arrival without release", arrive=edited(arrive, "atom.acq_rel", "atom.acquire"))
    yield changed("arrival without acquire", arrive=edited(arrive, "atom.acq_rel", "atom.release"))
    yield changed("arrival at block scope", arrive=edited(arrive, "atom.acq_rel.gpu", "atom.acq_rel.cta"))
    yield changed("generation stored without release", arrive=edited(arrive, "st.release", "st.relaxed"))
    yield changed("generation stored at block scope", arrive=edited(arrive, "st.release.gpu", "st.release.cta"))
    yield changed("counter and generation exchanged", arrive=replace(arrive, inputs=("generation_word", "counter", "blocks")))


def _bounded() -> Iterator[Mutant]:
    """Faults of the watchdog's wait."""
    for p in (LAUNCH, LAUNCH_STRIPED, MODULE):
        acquire = "fence.acquire.gpu" if p is LAUNCH_STRIPED else "ld.acquire.gpu.global.u32 $0, [$1]"
        opens = {LAUNCH: "setp.lt.s32 %p, %flipped, 0", LAUNCH_STRIPED: "setp.ge.u32 %p, $0", MODULE: "setp.ne.u32 %p, $0, $2"}[p]
        never = opens.replace(".lt.s32", ".ge.s32").replace(".ge.u32", ".lt.u32").replace(".ne.u32", ".eq.u32")
        for name, text in (
            ("no acquire after the polls", edited(p.bounded_wait, f"{acquire};", "")),
            ("opens while the generation is the old one", edited(p.bounded_wait, opens, never)),
            ("gives up at the first poll", edited(p.bounded_wait, "    @%p bra POLL;\n", "")),
        ):
            yield Mutant(f"{p.name}, watchdog: {name}", Harness(replace(p, bounded_wait=text), bounded=True))


def catch(mutant: Mutant) -> Caught:
    """Give a mutant to every CPU check until one catches it."""
    for check in _CHECKS:
        caught = check(mutant.harness)
        if caught.by is not None:
            return caught
    return Caught(None)


def _interleavings(harness: Harness) -> Caught:
    for blocks, threads in STRIPED_SHAPES[:1] if harness.is_striped else SHAPES:
        # The watchdog's turns of the clock leave room for one barrier of the striped protocol.
        rounds = 1 if harness.is_striped and harness.bounded else rounds_for(harness.protocol, blocks)
        question = one_launch(harness, blocks, threads, rounds)
        result = question.exploration().run()
        if result.violation is not None:
            return Caught("interleavings", f"{result.violation.kind} on {question.name} after {len(result.trace)} steps")
    return Caught(None)


def _next_launch(harness: Harness) -> Caught:
    if harness.is_striped:
        return Caught(None)
    for question, result in launches_in_turn(harness, (2, 1, 1), (1, 1, 1), rounds=1):
        if result.violation is not None:
            return Caught("interleavings", f"{result.violation.kind} in {question.name}")
    return Caught(None)


def _memory_model(harness: Harness) -> Caught:
    answer = first_hazard(harness)
    return Caught(None) if answer is None else Caught("memory model", f"{answer.hazard} admitted")


def _two_blocks_in_a_stripe(harness: Harness) -> Caught:
    if not harness.is_striped or harness.bounded:
        return Caught(None)
    question = one_launch(harness, (5, 1, 1), (1, 1, 1), rounds=1)
    result = question.exploration().run()
    return Caught(None) if result.violation is None else Caught("interleavings", f"{result.violation.kind} on {question.name}")


_CHECKS: tuple[Callable[[Harness], Caught], ...] = (_interleavings, _next_launch, _memory_model, _two_blocks_in_a_stripe)


@lru_cache(maxsize=1)
def table() -> tuple[tuple[str, Caught], ...]:
    """Every mutant with who catches it."""
    return tuple((mutant.name, catch(mutant)) for mutant in mutants())
