"""The releases that the CPU tests run against, and the table of what came out.

``nox`` runs the rows (see noxfile.py) and leaves one JUnit file for each in build/matrix/; ``python tools/matrix.py``
reads them, writes docs/matrix.json and puts the table between the marks in README.md. Each row keeps the commit that it
ran on and the day, since a row says something about that commit only.
"""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).resolve().parent.parent
REPORTS = ROOT / "build" / "matrix"
DATA = ROOT / "docs" / "matrix.json"
README = ROOT / "README.md"
MARKS = ("<!-- matrix: written by `nox -s table` -->", "<!-- end of matrix -->")

# TileLang, tvm-ffi and CuTe DSL of the newest rows.
NEWEST = ("0.1.15", "0.1.12", "4.8.1")


@dataclass(frozen=True)
class Row:
    """One environment: the versions of Python, TileLang, apache-tvm-ffi and nvidia-cutlass-dsl."""

    python: str
    tilelang: str
    tvm_ffi: str
    cutedsl: str
    edge: bool = False

    def __str__(self) -> str:
        return f"tilelang-{self.tilelang}-ffi-{self.tvm_ffi}-cutedsl-{self.cutedsl}-py{self.python}"

    @property
    def report(self) -> Path:
        return REPORTS / f"{self}.xml"

    @property
    def commit(self) -> Path:
        """Where the commit is noted that the row ran on."""
        return REPORTS / f"{self}.commit"

    @property
    def tags(self) -> list[str]:
        """The tags of nox that choose the row."""
        newest = self.tilelang == NEWEST[0]
        return [*(["edges"] if self.edge else []), *(["older"] if self.edge and not newest else [])]

    @property
    def runs_proofs(self) -> bool:
        """Whether the row runs tests/proofs: they read this package's PTX and no TileLang, so once for each Python is enough."""
        return (self.tilelang, self.tvm_ffi, self.cutedsl) == NEWEST


# Two rows for each TileLang: the oldest tvm-ffi and CuTe DSL with which TileLang itself imports and compiles its own
# barrier, and the newest. TileLang's metadata and its check of CuTe DSL allow more than works. Tried with TileLang alone:
#   0.1.9        tvm-ffi 0.1.12 and later   importing tilelang ends in "attribute '__dict__' of 'type' objects is not writable"
#   0.1.9        CuTe DSL 4.5 and later     no Constexpr in cutlass.cute.typing
#   0.1.10, .11  tvm-ffi 0.1.12 and later   importing tilelang ends in "TypeAttr `__ffi_repr__` is already registered"
#   0.1.12       tvm-ffi 0.1.10             no Enum in tvm_ffi.dataclasses
#   0.1.10-.13   CuTe DSL 4.6 and later     no _math_op in cutlass.cute.math, no cutlass.base_dsl._mlir_helpers
# The rows marked edge are the oldest, one between and the newest.
MATRIX = (
    Row("3.11", "0.1.9", "0.1.2", "4.3.1", edge=True),
    Row("3.11", "0.1.9", "0.1.11", "4.4.2"),
    Row("3.11", "0.1.10", "0.1.10", "4.3.1"),
    Row("3.11", "0.1.10", "0.1.11", "4.5.3"),
    Row("3.11", "0.1.11", "0.1.10", "4.3.1"),
    Row("3.11", "0.1.11", "0.1.11", "4.5.3"),
    Row("3.11", "0.1.12", "0.1.11", "4.3.1"),
    Row("3.11", "0.1.12", "0.1.11", "4.5.3"),
    Row("3.11", "0.1.13", "0.1.11", "4.3.1"),
    Row("3.11", "0.1.13", "0.1.12", "4.5.3", edge=True),
    Row("3.11", "0.1.14", "0.1.11", "4.7.0"),
    Row("3.11", "0.1.14", "0.1.12", "4.8.1"),
    Row("3.11", "0.1.15", "0.1.11", "4.7.0"),
    Row("3.11", "0.1.15", "0.1.12", "4.8.1", edge=True),
    Row("3.10", "0.1.9", "0.1.2", "4.3.1"),
    Row("3.13", "0.1.9", "0.1.2", "4.3.1"),
    Row("3.10", "0.1.15", "0.1.12", "4.8.1"),
    Row("3.12", "0.1.15", "0.1.12", "4.8.1"),
    Row("3.13", "0.1.15", "0.1.12", "4.8.1"),
)


@dataclass(frozen=True)
class Result:
    """What one row's tests came to; the counts are None where the row never got as far as running them."""

    row: Row
    passed: int | None
    failed: int | None
    skipped: int | None
    seconds: float | None
    failures: tuple[str, ...] = ()
    commit: str | None = None
    date: str | None = None


def result_of(row: Row) -> Result:
    """Read the row's JUnit file."""
    if not row.report.exists():
        return Result(row, None, None, None, None)
    commit = row.commit.read_text().strip()
    suite = ElementTree.parse(row.report).getroot().find("testsuite")
    assert suite is not None
    tests, skipped = int(suite.attrib["tests"]), int(suite.attrib["skipped"])
    failures = tuple(
        f"{case.attrib['classname']}::{case.attrib['name']}"
        for case in suite.iter("testcase")
        if case.find("failure") is not None or case.find("error") is not None
    )
    passed, day = tests - skipped - len(failures), suite.attrib["timestamp"][:10]
    return Result(row, passed, len(failures), skipped, float(suite.attrib["time"]), failures, commit, day)


def note_commit(row: Row) -> None:
    """Note the commit that the row is about to run on; changes that are not committed are marked."""
    commit = subprocess.run(["git", "describe", "--always", "--dirty", "--abbrev=10"], cwd=ROOT, capture_output=True, text=True, check=True)
    row.commit.write_text(commit.stdout)


def table(results: list[Result]) -> str:
    """The results as a table in Markdown."""
    lines = ["| TileLang | tvm-ffi | CuTe DSL | Python | CPU tests | commit |", "| --- | --- | --- | --- | --- | --- |"]
    for result in results:
        row = result.row
        if result.passed is None:
            outcome = "not run"
        else:
            outcome = f"{result.passed} passed" + (f", **{result.failed} failed**" if result.failed else "")
        lines.append(f"| {row.tilelang} | {row.tvm_ffi} | {row.cutedsl} | {row.python} | {outcome} | {result.commit or ''} |")
    return "\n".join(lines)


def write(results: list[Result]) -> None:
    """Write docs/matrix.json and the README's table."""
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    text = README.read_text()
    begin, end = (text.find(mark) for mark in MARKS)
    if begin < 0 or end < begin:
        sys.exit(f"README.md lacks the marks {MARKS[0]} and {MARKS[1]}")
    README.write_text(text[:begin] + MARKS[0] + "\n" + table(results) + "\n" + text[end:])


if __name__ == "__main__":
    outcomes = [result_of(row) for row in MATRIX]
    write(outcomes)
    print(table(outcomes))
