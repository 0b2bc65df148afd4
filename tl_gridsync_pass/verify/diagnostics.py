"""What the verification says: its rules, and a diagnostic as a value and as text."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from enum import Enum


class Severity(str, Enum):
    """How bad a finding is."""

    ERROR = "error"
    """The kernel diverges at the barrier for every input that lets it get there, or for some thread or block index."""
    WARNING = "warning"
    """It cannot be proved right; whether it is depends on data or on the GPU."""
    HINT = "hint"
    """Right, but not what one would want to write."""


@dataclass(frozen=True)
class Rule:
    """One kind of finding; ``name`` is what the text shows in brackets and what SARIF calls the rule's id."""

    name: str
    summary: str


BLOCK_DIVERGENT = Rule("block-divergent", "A grid barrier that threads of one block reach a different number of times.")
GRID_DIVERGENT = Rule("grid-divergent", "A grid barrier that the blocks of the grid reach a different number of times.")
NOT_PROVABLY_UNIFORM = Rule("not-provably-uniform", "A grid barrier whose being reached depends on data loaded from memory.")
GRID_TOO_LARGE = Rule("grid-too-large", "A grid barrier in a grid with more blocks than any GPU of the target can hold at once.")
NON_COHERENT_LOAD = Rule("non-coherent-load", "A read-only load of a buffer that the kernel writes on the other side of a grid barrier.")
REPEATED_BARRIER = Rule("repeated-barrier", "Two grid barriers with nothing between them that a second one could order.")

RULES = (BLOCK_DIVERGENT, GRID_DIVERGENT, NOT_PROVABLY_UNIFORM, GRID_TOO_LARGE, NON_COHERENT_LOAD, REPEATED_BARRIER)


@dataclass(frozen=True, order=True)
class Location:
    """A line of the user's source, from 1."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Note:
    """One step of an explanation, with the line it is about where TileLang kept it."""

    text: str
    location: Location | None = None

    def __str__(self) -> str:
        return self.text if self.location is None else f"{self.text} ({self.location})"


@dataclass(frozen=True)
class Diagnostic:
    """One finding.

    Attributes
    ----------
    rule : Rule
    severity : Severity
    kernel : str
        The name of the device function.
    message : str
        What is wrong, in one sentence without a full stop.
    location : Location or None
        The barrier's line; None where TileLang kept no source line.
    barrier : int or None
        Which of the kernel's barriers, from 1 in program order; None for a finding about the whole kernel.
    condition : str or None
        The condition or loop bound at fault, in the names of the source.
    notes : tuple[Note, ...]
        Why.
    help : str
        How to restructure the kernel.
    """

    rule: Rule
    severity: Severity
    kernel: str
    message: str
    location: Location | None = None
    barrier: int | None = None
    condition: str | None = None
    notes: tuple[Note, ...] = ()
    help: str = ""

    def __str__(self) -> str:
        """The diagnostic as several lines of text, with the source lines that it is about where they can be read."""
        drawn = self._drawn()
        gutter = " " * max((len(str(line)) for line in drawn), default=1)
        lines = [f"{self.severity.value}[{self.rule.name}]: {self.message}"]
        if self.location:
            lines.append(f"{gutter}--> {self.location}")
        before = None
        for line in sorted(drawn):
            if before is not None and line > before + 1:
                lines.append("...")
            elif before is None:
                lines.append(f"{gutter} |")
            source, label = _source(self.location.file, line), drawn[line]
            mark = "^" if line == self.location.line else "-"
            indent = len(source) - len(source.lstrip())
            lines.append(f"{line:>{len(gutter)}} | {source}")
            lines.append(f"{gutter} | {' ' * indent}{mark * len(source.strip())} {label}".rstrip())
            before = line
        lines += [f"{gutter} = note: {note}" for note in self.notes if not self._is_drawn(note, drawn)]
        if self.help:
            lines.append(f"{gutter} = help: {self.help}")
        return "\n".join(lines)

    def _drawn(self) -> dict[int, str]:
        """The source lines to show, each with what stands beside it: the barrier's, and those of notes in the same file."""
        if self.location is None or not _source(self.location.file, self.location.line).strip():
            return {}
        drawn = {self.location.line: ""}
        for note in self.notes:
            here = note.location
            if here is not None and here.file == self.location.file and here.line not in drawn and _source(here.file, here.line).strip():
                drawn[here.line] = note.text
        return drawn

    def _is_drawn(self, note: Note, drawn: dict[int, str]) -> bool:
        here = note.location
        return here is not None and self.location is not None and here.file == self.location.file and drawn.get(here.line) == note.text


def _source(file: str, line: int) -> str:
    return linecache.getline(file, line).rstrip()
