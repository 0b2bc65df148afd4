"""benchmarks/sanitizers.py, with a stand-in for compute-sanitizer, and what the test that racecheck did not end could show it."""

import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
import tilelang
import tilelang.language as T
from kernels import CUTEDSL, handoff

import tl_gridsync_pass as gs
from tl_gridsync_pass import sass
from tl_gridsync_pass.seams import offline

ROOT = Path(__file__).parents[1]
STAND_IN = """#!/bin/sh
for last; do :; done
while [ $# -gt 0 ]; do
  case "$1" in
    --tool) tool=$2;;
    --log-file) log=$(echo "$2" | sed "s/%p/$$/");;
  esac
  shift
done
if [ "$last" = "$tool" ]; then
  echo "========= ERROR SUMMARY: $([ "$tool" = {blind} ] && echo 0 || echo 1) error" > "$log"
  exit
fi
echo "========= {summary}: $([ "$tool" = {faulty} ] && echo 3 || echo 0) {unit}" > "$log"
echo '{{"test": "test_barrier::test_a", "outcome": "{outcome}", "seconds": 1.5}}' >> "$OUTCOME_LINES"
sleep {seconds}
"""


def run(tmp_path: Path, **of: str) -> tuple[int, dict]:
    tool = tmp_path / "compute-sanitizer"
    usual = {"summary": "ERROR SUMMARY", "unit": "errors", "faulty": "none", "blind": "none", "outcome": "passed", "seconds": "0"}
    tool.write_text(STAND_IN.format(**{**usual, **of}))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    out = tmp_path / "out.json"
    ended = subprocess.run(
        [sys.executable, ROOT / "benchmarks" / "sanitizers.py", "--out", out, "--limit", "5"],
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
        {"outcome": "failed"},
        {"outcome": "skipped"},
        {"summary": "no summary"},
        {"blind": "memcheck"},
        {"seconds": "60"},
    ],
    ids=["errors", "hazards", "a test failed", "no test ran", "the tool did not run", "a tool sees nothing", "time ran out"],
)
def test_anything_else_is_not(tmp_path, of):
    status, report = run(tmp_path, **of)
    assert status == 1
    if "faulty" in of:
        assert {t["tool"]: t["found"] for t in report["tools"] if t["found"]} == {of["faulty"]: 3}


def test_what_ended_before_the_time_ran_out_is_kept(tmp_path):
    _, report = run(tmp_path, seconds="60")
    assert {(t["ended"], *t["passed"]) for t in report["tools"]} == {("not done in 5 s", "test_barrier::test_a")}


@pytest.mark.parametrize("workers", [0, 2])
def test_outcomes_are_written_as_the_tests_end(tmp_path, workers):
    if workers:
        pytest.importorskip("xdist")
    (tmp_path / "test_three.py").write_text(
        "import pytest\ndef test_good(): pass\ndef test_bad(): assert 1 == 2\n@pytest.mark.skip(reason='no')\ndef test_none(): pass\n"
    )
    lines = tmp_path / "lines"
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "benchmarks"), "OUTCOME_LINES": str(lines)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "outcome_lines", *(["-n", str(workers)] if workers else []), "test_three.py"]
    subprocess.run(command, cwd=tmp_path, env=environment, check=False, capture_output=True)
    written = [json.loads(line) for line in lines.read_text().splitlines()]
    assert sorted((test["test"], test["outcome"]) for test in written) == [
        ("test_three::test_bad", "failed"),
        ("test_three::test_good", "passed"),
        ("test_three::test_none", "skipped"),
    ]
    assert "1 == 2" in next(test["why"] for test in written if test["outcome"] == "failed")


def shared_memory(made) -> list[str]:
    """Instructions on shared memory in the kernel's cubin, and sections of it."""
    kernel = tilelang.compile(made, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    listing = sass.disassemble(offline.device_code_of(kernel).cubin)
    return re.findall(r"\b(?:LDS|STS|ATOMS|LDSM|STSM|UBLKCP)\b|\.nv\.shared\.\S+", listing)


def test_racecheck_has_nothing_to_see_in_the_kernel_of_many_streams():
    """It looks at shared memory, and did not come to the end of 32 streams of this kernel; it did of 2 and 8 (docs/correctness.md)."""
    assert shared_memory(handoff((32, 2), delay=300)) == []


def test_shared_memory_is_seen_where_there_is_some():
    @T.prim_func
    def reverse(values: T.Tensor((64,), "int32")):
        with T.Kernel(2, threads=64):
            tx = T.get_thread_binding()
            held = T.alloc_shared((64,), "int32")
            held[tx] = values[tx]
            T.sync_grid()
            values[tx] = held[63 - tx]

    assert shared_memory(reverse) != []
