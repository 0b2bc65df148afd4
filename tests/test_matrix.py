"""The table of the versions that were tested: what a row's report comes to."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tools"))
import matrix

REPORT = """<testsuites><testsuite tests="4" skipped="1" time="61.5" timestamp="2026-11-30T10:00:00">
<testcase classname="tests.test_a" name="one"/><testcase classname="tests.test_a" name="two"><failure message="no"/></testcase>
<testcase classname="tests.test_a" name="three"><skipped/></testcase><testcase classname="tests.test_b" name="four"/>
</testsuite></testsuites>"""


@pytest.fixture
def row(tmp_path, monkeypatch):
    monkeypatch.setattr(matrix, "REPORTS", tmp_path)
    return matrix.MATRIX[0]


def test_a_row_with_a_report(row):
    row.report.write_text(REPORT)
    row.commit.write_text("abc1234567\n")
    result = matrix.result_of(row)
    assert (result.passed, result.failed, result.skipped, result.seconds) == (2, 1, 1, 61.5)
    assert (result.failures, result.commit, result.date) == (("tests.test_a::two",), "abc1234567", "2026-11-30")
    assert "| 2 passed, **1 failed** | abc1234567 |" in matrix.table([result])


def test_a_row_that_did_not_run_says_so(row):
    assert "| not run |" in matrix.table([matrix.result_of(row)])


def test_the_older_edges_and_the_rows_that_run_the_proofs():
    older = [row.tilelang for row in matrix.MATRIX if "older" in row.tags]
    assert older[0] == "0.1.9" and len(older) == 2 and matrix.NEWEST[0] not in older
    assert {row.python for row in matrix.MATRIX if row.runs_proofs} == {"3.10", "3.11", "3.12", "3.13"}
