"""Counterexamples as text: the steps of a trace, and the sum that goes wrong with it."""

from __future__ import annotations

import re

from .explore import Exploration, Result, State
from .harness import Harness
from .safety import Question, one_launch, words_of
from .stock import COUNTER_AND_GENERATION, harness


def render(question: Question, result: Result) -> str:
    """The trace of ``result`` line by line, one step each, with the words called by their operands' names."""
    exploration = question.exploration()
    lines = [f"{question.name}:"]
    for number, step in enumerate(result.trace, 1):
        text = "reaches the barrier" if step.text.startswith("enter ") else step.text
        detail = f"   {_named(step.detail, question)}" if step.detail else ""
        lines.append(f"{number:4}  {exploration.name(step.block, step.thread)}: {_with_operand(text, question)}{detail}")
    if result.violation is None:
        lines.append("   no violation")
    else:
        found = re.sub("'([^']*)'", lambda quoted: f"'{_with_operand(quoted[1], question)}'", result.violation.text)
        lines.append(f"   => {result.violation.kind}: {_named(found, question)}")
    return "\n".join(lines)


def sum_story(stock: Harness | None = None) -> str:
    """How two blocks that write 1 and 2, pass the stock barrier and add up what both wrote get [1, 3].

    Nothing is measured: the interleaving is the shortest one that the exploration finds, carried on to the
    end of the kernel with the lowest block first.

    Raises
    ------
    ValueError
        Where the barrier given has no counterexample.
    """
    question = one_launch(stock or harness(COUNTER_AND_GENERATION), (2, 1, 1), (1, 2, 1), rounds=1)
    result = question.exploration().run()
    if result.violation is None:
        raise ValueError(f"{question.grids[0].harness.protocol.name} has no counterexample on {question.name}")
    exploration = question.exploration(allow_early_release=True)
    story = _Story(exploration, question)
    for step in result.trace:
        story.step(step.block, step.thread)
    while not exploration.ended(story.state):
        story.next_step()
    return "\n".join([*story.lines, f"  sums = {story.sums}, and {[sum(range(1, len(story.sums) + 1))] * len(story.sums)} is right"])


class _Story:
    """A run of the summing kernel: thread (0, 0, 0) of every block writes before the barrier and adds up after it."""

    def __init__(self, exploration: Exploration, question: Question) -> None:
        self.exploration = exploration
        self.question = question
        self.state: State = exploration.initial()
        self.values = [0] * len(exploration.blocks)
        self.sums = [0] * len(exploration.blocks)
        self.lines = [f"{question.name}, {question.grids[0].harness.protocol.name}; values = {self.values}"]

    def step(self, block: int, thread: int) -> None:
        """Let one thread take its step, and say what it does."""
        before = self.state
        text = self.exploration.text_of(before, block, thread)
        _, _, follows, detail = next(s for s in self.exploration.steps(before) if s[:2] == (block, thread))
        assert not isinstance(follows, Exception)
        self.state = follows
        who = self.exploration.name(block, thread)
        if text.startswith("enter "):
            if self.exploration.threads[block][thread] == (0, 0, 0):
                self.values[block] = block + 1
                self._say(who, f"writes values[{block}] = {block + 1} and reaches the barrier")
            else:
                self._say(who, "reaches the barrier")
        else:
            self._say(who, f"{_with_operand(text, self.question)}   {_named(detail, self.question)}")
        for t, left in enumerate(self.exploration.left(before, block)):
            if self.exploration.left(self.state, block)[t] > left and self.exploration.threads[block][t] == (0, 0, 0):
                self.sums[block] = sum(self.values)
                self._say(
                    self.exploration.name(block, t), f"is through the barrier and reads values = {self.values}: sum {self.sums[block]}"
                )

    def next_step(self) -> None:
        """The first step that changes anything, lowest block first."""
        block, thread = next((b, t) for b, t, follows, _ in self.exploration.steps(self.state) if follows != self.state)
        self.step(block, thread)

    def _say(self, who: str, what: str) -> None:
        self.lines.append(f"{len(self.lines):4}  {who}: {what}")


def _named(detail: str, question: Question) -> str:
    several = len({grid.workspace for grid in question.grids}) > 1
    for grid in question.grids:
        for address, name in words_of(grid).items():
            detail = detail.replace(f"word {address:#x}", f"{grid.name} {name}" if several else name)
    return detail


def _with_operand(text: str, question: Question) -> str:
    """The instruction with the names of its registers in place of their operand numbers."""
    harness = question.grids[0].harness
    for statement in (harness.protocol.arrive, harness.protocol.wait, *harness.protocol.entry):
        if text in " ".join(statement.text.split()):
            for i, name in enumerate(([statement.output] if statement.output else []) + list(statement.inputs)):
                text = text.replace(f"${i}", name)
            return text
    return text
