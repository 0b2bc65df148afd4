"""benchmarks/sanitizers.py, with a stand-in for compute-sanitizer."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAND_IN = """#!/bin/sh
while [ $# -gt 0 ]; do
  case "$1" in
    --tool) tool=$2;;
    --log-file) log=$(echo "$2" | sed "s/%p/$$/");;
    --junitxml=*) results=${{1#--junitxml=}};;
  esac
  shift
done
echo "========= {summary}: $([ "$tool" = {faulty} ] && echo 3 || echo 0) {unit}" > "$log"
echo '<testsuites><testsuite><testcase classname="tests.gpu.test_barrier" name="test_a" time="1.5">{outcome}</testcase></testsuite></testsuites>' > "$results"
"""


def run(tmp_path: Path, **of: str) -> tuple[int, dict]:
    tool = tmp_path / "compute-sanitizer"
    tool.write_text(STAND_IN.format(**{"summary": "ERROR SUMMARY", "unit": "errors", "faulty": "none", "outcome": "", **of}))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    out = tmp_path / "out.json"
    ended = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "sanitizers.py", "--out", out],
        env={**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"},
        check=False,
    )
    return ended.returncode, json.loads(out.read_text())


def test_clean_runs_are_clean(tmp_path):
    status, report = run(tmp_path)
    assert status == 0
    assert [(t["tool"], t["found"], t["passed"]) for t in report["tools"]] == [
        (tool, 0, ["test_barrier::test_a"]) for tool in ("memcheck", "racecheck", "synccheck")
    ]


@pytest.mark.parametrize(
    "of",
    [
        {"faulty": "synccheck"},
        {"faulty": "racecheck", "summary": "RACECHECK SUMMARY", "unit": "hazards displayed (3 errors, 0 warnings)"},
        {"outcome": "<failure/>"},
        {"outcome": "<skipped/>"},
        {"summary": "no summary"},
    ],
    ids=["errors", "hazards", "a test failed", "no test ran", "the tool did not run"],
)
def test_anything_else_is_not(tmp_path, of):
    status, report = run(tmp_path, **of)
    assert status == 1
    if "faulty" in of:
        assert {t["tool"]: t["found"] for t in report["tools"] if t["found"]} == {of["faulty"]: 3}
