"""Runs every check and prints what it found: ``python -m tl_gridsync_pass.proofs.report``.

The output is Markdown; ``docs/proofs.md`` is made with it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from ..protocol import LAUNCH, LAUNCH_RANKED, LAUNCH_STRIPED, MODULE, PROTOCOLS
from . import litmus, mutants, ordering, safety, stock, trace
from .harness import Harness


def lines() -> Iterator[str]:
    """The report, line by line, as it comes."""
    started = time.perf_counter()
    yield "# What the checks found"
    yield ""
    yield "Made by `python -m tl_gridsync_pass.proofs.report`."
    for part in (_interleavings, _refuted, _litmus, _ordering, _weakenings, _mutants):
        yield ""
        yield from part()
    yield ""
    yield f"All of it took {time.perf_counter() - started:.0f} s."


def _interleavings() -> Iterator[str]:
    yield "## Every interleaving"
    yield ""
    yield f"{safety.ROUNDS} barriers a launch, {safety.rounds_for(LAUNCH_STRIPED)} of the striped protocol with four stripes."
    yield ""
    yield "| protocol | launches | states | steps | seconds | found |"
    yield "| --- | --- | --- | --- | --- | --- |"
    two_stripes = safety.with_two_stripes()
    for protocol in PROTOCOLS.values():
        for blocks, threads in safety.shapes_for(protocol):
            yield _row(protocol.name, safety.one_launch(Harness(protocol), blocks, threads, safety.rounds_for(protocol, blocks)))
    for blocks, threads in safety.TWO_STRIPES_SHAPES:
        yield _row(two_stripes.name, safety.one_launch(Harness(two_stripes), blocks, threads))
    for count, taken in ((2, 0), (2, 1), (2, 2)):
        yield _row(two_stripes.name, safety.launches_in_one_slot(count, slots=2, taken=taken))
    for protocol in (LAUNCH, LAUNCH_RANKED, MODULE, two_stripes):
        for blocks, threads in (((2, 1, 1), (1, 2, 1)), ((3, 1, 1), (1, 1, 1))):
            yield _row(f"{protocol.name}, watchdog", safety.one_launch(Harness(protocol, bounded=True), blocks, threads))
    yield _row(f"{LAUNCH_STRIPED.name}, watchdog", safety.one_launch(Harness(LAUNCH_STRIPED, bounded=True), (4, 1, 1), (1, 1, 1), rounds=1))
    for name in ("launch", "launch, ranked"):
        yield _row(name, safety.two_launches(Harness(PROTOCOLS[name]), (2, 1, 1), (2, 1, 1), shared=False))
    for protocol in (LAUNCH, LAUNCH_RANKED, MODULE, two_stripes):
        for question, result in safety.launches_in_turn(Harness(protocol), (3, 1, 1), (1, 1, 1)):
            yield _row(protocol.name, question, result)


def _row(name: str, question: safety.Question, result=None) -> str:
    result = result or question.exploration().run()
    found = "holds" if result.violation is None else result.violation.kind
    return f"| {name} | {question.name} | {result.states} | {result.steps} | {result.seconds:.2f} | {found} |"


def _refuted() -> Iterator[str]:
    yield "## What is refuted"
    for title, question in refuted():
        result = question.exploration().run()
        yield ""
        yield f"{title} ({result.states} states, {result.seconds:.2f} s):"
        yield ""
        yield from _figure(trace.render(question, result))
    yield ""
    yield "The first of them in the kernel that adds up what all blocks wrote:"
    yield ""
    yield from _figure(trace.sum_story())


def _figure(text: str) -> Iterator[str]:
    """A block that the tests of the documentation do not run."""
    yield "<!-- test: figure -->"
    yield "```text"
    yield from text.splitlines()
    yield "```"


def refuted() -> list[tuple[str, safety.Question]]:
    """The barriers that must fail, each with what shows it."""
    current, old = stock.harness(stock.COUNTER_AND_GENERATION), stock.harness(stock.COUNTER_ALONE)
    return [
        ("TileLang 0.1.12 to 0.1.15, a block with two leaders", safety.one_launch(current, (2, 1, 1), (1, 2, 1), rounds=1)),
        ("TileLang 0.1.9 to 0.1.11, no generation", safety.one_launch(old, (2, 1, 1), (1, 1, 1), rounds=2)),
        ("TileLang 0.1.12 to 0.1.15, two launches at once", safety.two_launches(current, (2, 1, 1), (1, 1, 1), shared=True, rounds=1)),
        ('state="module", two launches at once', safety.two_launches(Harness(MODULE), (2, 1, 1), (1, 1, 1), shared=True, rounds=1)),
        (
            "The launch protocol, were two launches to share a word",
            safety.two_launches(Harness(LAUNCH), (2, 1, 1), (1, 1, 1), shared=True, rounds=1),
        ),
    ]


def _litmus() -> Iterator[str]:
    yield "## Litmus tests of the memory model"
    yield ""
    yield "| test | outcome | verdict here | source of the verdict |"
    yield "| --- | --- | --- | --- |"
    for test in litmus.TESTS:
        outcome = ", ".join(f"{name} = {value}" for name, value in test.outcome.items())
        got = test.decide()
        verdict = ("allowed" if got else "forbidden") + ("" if got == test.allowed else " (DIFFERS)")
        yield f"| {test.name} | {outcome} | {verdict} | {test.source} |"


def _ordering() -> Iterator[str]:
    yield "## What the barrier orders"
    yield ""
    yield "| protocol | grid | barrier | hazard | possible | combinations of paths | seconds |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for protocol in PROTOCOLS.values():
        for blocks, threads, rounds in ordering.grids_for(protocol):
            for at in range(rounds):
                for hazard in ordering.HAZARDS:
                    a = ordering.ask(Harness(protocol), hazard, blocks, threads, rounds, at)
                    grid = f"{blocks[0]} blocks x {threads[0]} threads"
                    found = "yes" if a.possible else "no"
                    yield f"| {protocol.name} | {grid} | {at + 1} of {rounds} | {hazard} | {found} | {a.executions} | {a.seconds:.2f} |"
    for protocol in PROTOCOLS.values():
        blocks, threads, rounds = ordering.grids_for(protocol)[0]
        for hazard in ordering.HAZARDS:
            a = ordering.ask(Harness(protocol, bounded=True), hazard, blocks, threads, rounds)
            grid, found = f"{blocks[0]} blocks x {threads[0]} threads", "yes" if a.possible else "no"
            yield f"| {protocol.name}, watchdog | {grid} | 1 of {rounds} | {hazard} | {found} | {a.executions} | {a.seconds:.2f} |"


def _weakenings() -> Iterator[str]:
    yield "## What each ordering is for"
    yield ""
    yield "| protocol | weakening | hazard that it admits |"
    yield "| --- | --- | --- |"
    for protocol in PROTOCOLS.values():
        for weakening in ordering.weakenings(Harness(protocol)):
            answer = ordering.first_hazard(weakening.harness)
            found = answer.hazard if answer else f"none: {ordering.NEEDED_FOR_NO_HAZARD.get(weakening.name, 'NOT EXPECTED')}"
            yield f"| {protocol.name} | `{weakening.name}` | {found} |"


def _mutants() -> Iterator[str]:
    yield "## Planted faults"
    yield ""
    yield "| fault | caught by | what it found |"
    yield "| --- | --- | --- |"
    for name, caught in mutants.table():
        yield f"| {name} | {caught.by or 'NOBODY'} | {caught.what} |"


if __name__ == "__main__":
    for line in lines():
        print(line, flush=True)
