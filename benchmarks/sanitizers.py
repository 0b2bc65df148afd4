"""The GPU suite under compute-sanitizer: ``python benchmarks/sanitizers.py --out sanitizers.json [-- pytest arguments]``.

Runs memcheck, racecheck and synccheck at once, each over the suite without the tests of LEFT_OUT, and writes which tests passed
under which tool and what each process's summary says; where a tool's time runs out, what it has until then. First each tool is
given a kernel with a fault of its kind (sanitizer_controls.cu), which it has to find. Needs compute-sanitizer and nvcc on PATH.
Run it from the root of the repository. Exit status 1 where a tool found something, did not find its control, or was not done,
or a test failed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine

HERE = Path(__file__).parent
TOOLS = ("memcheck", "racecheck", "synccheck")
# Their kernels are wrong on purpose, or are stopped, or their assertion is about time, which the tools change.
LEFT_OUT = {
    "forgets_an_axis": "the barrier is wrong on purpose",
    "stock_handoff_is_wrong": "the barrier is wrong on purpose",
    "shared_state_is_wrong": "the barrier is wrong on purpose",
    "refused_kernel_hangs": "the kernel hangs or traps on purpose",
    "not_cooperative": "the kernel traps on purpose",
    "watchdog_fires": "the kernel traps on purpose",
    "watchdog_stops": "the kernel traps on purpose",
    "ctrl_c": "the process is ended on purpose",
    "overlaps_the_wait": "compares times",
    "mps_limit": "the tools do not run beside MPS",
    "in_fresh_processes": "runs other tests of the suite again, in a process that the tools hang",
    "clean_kernel_ends": "starts a process, which the tools hang",
    "green_context": "starts a process, which the tools hang",
}
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")
# How much longer than usual a test may wait for the GPU.
PATIENCE = "6"


def under(tool: str, logs: Path) -> list[str]:
    """The command line of ``tool``, up to the program; it leaves a file in ``logs`` for each process that uses the GPU."""
    # A port for each process, and other ones for each tool.
    ports = ["--port", str(54201 + 1000 * TOOLS.index(tool)), "--max-connections", "900"]
    # Calls of the driver that answer with an error are no faults of a kernel: libraries ask it what it has.
    quiet = ["--report-api-errors", "no"] if tool == "memcheck" else []
    return ["compute-sanitizer", "--tool", tool, "--target-processes", "all", *ports, "--log-file", str(logs / "%p.txt"), *quiet]


def summaries(logs: Path) -> list[tuple[str, list[int]]]:
    """The text of each log with the counts that its summaries give; none for a process that was killed."""
    texts = [file.read_text() for file in sorted(logs.iterdir())]
    return [(text, [int(count) for count in SUMMARY.findall(text)]) for text in texts]


def control(tool: str, program: Path) -> int:
    """What ``tool`` finds in the kernel that has a fault of its kind."""
    with tempfile.TemporaryDirectory() as folder:
        logs = Path(folder)
        subprocess.run([*under(tool, logs), str(program), tool], capture_output=True, timeout=120, check=False)
        return sum(sum(counts) for _, counts in summaries(logs))


def run(tool: str, arguments: list[str], limit_s: float) -> dict[str, Any]:
    """The suite under ``tool``."""
    with tempfile.TemporaryDirectory() as folder:
        lines, logs, printed = Path(folder) / "lines", Path(folder) / "logs", Path(folder) / "printed"
        logs.mkdir()
        lines.touch()
        command = [*under(tool, logs), sys.executable, "-m", "pytest", "-q", "-p", "outcome_lines", "-m", "gpu"]
        # What takes longest first, so that it does not start when all else has ended.
        folders = ["tests/gpu/test_streams.py", "tests/gpu"]
        command += ["-k", " and ".join(f"not {name}" for name in LEFT_OUT), *folders, *arguments]
        path = os.pathsep.join([str(HERE), *filter(None, [os.environ.get("PYTHONPATH")])])
        environment = {**os.environ, "PYTHONPATH": path, "OUTCOME_LINES": str(lines), "TL_GRIDSYNC_TEST_PATIENCE": PATIENCE}
        with printed.open("wb") as file:
            # A session of its own, so that all of it ends where its time runs out.
            process = subprocess.Popen(command, cwd=HERE.parent, env=environment, stdout=file, stderr=file, start_new_session=True)
            try:
                process.wait(limit_s)
                ended = "done"
            except subprocess.TimeoutExpired:
                ended = f"not done in {limit_s:.0f} s"
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
        found = summaries(logs)
        tests = [json.loads(line) for line in lines.read_text().splitlines()]
        last = printed.read_text(errors="replace")[-2000:]
    return {
        "tool": tool,
        "ended": ended,
        "processes": len(found),
        "without a summary": sum(not counts for _, counts in found),
        "found": sum(sum(counts) for _, counts in found),
        "reports": [text[:3000] for text, counts in found if any(counts) or not counts][:5],
        "passed": sorted(test["test"] for test in tests if test["outcome"] == "passed"),
        "not passed": [test for test in tests if test["outcome"] != "passed"],
        "seconds": {test["test"]: test["seconds"] for test in tests},
        "printed": last,
    }


def clean(result: dict[str, Any]) -> bool:
    """Whether the tool ran to its end, found its control and nothing else, and no test failed under it."""
    failed = any(test["outcome"] == "failed" for test in result["not passed"])
    sees = result["control"] > 0 and result["processes"] > result["without a summary"]
    return sees and result["ended"] == "done" and result["found"] == 0 and bool(result["passed"]) and not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that each tool may take (default: 3600)")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(TOOLS)) as pool:
        program = Path(folder) / "controls"
        subprocess.run(["nvcc", "-o", str(program), str(HERE / "sanitizer_controls.cu")], check=True, timeout=300)
        controls = list(pool.map(lambda tool: control(tool, program), TOOLS))
        results = list(pool.map(lambda tool: run(tool, arguments.pytest, arguments.limit), TOOLS))
    for result, in_control in zip(results, controls, strict=True):
        result["control"] = in_control
        print(
            f"{result['tool']}: {result['ended']}; {result['found']} found, {in_control} in its control; "
            f"{len(result['passed'])} tests passed; not passed: {[(test['test'], test['outcome']) for test in result['not passed']]}"
        )
    arguments.out.write_text(json.dumps({"machine": machine.describe(), "left out": LEFT_OUT, "tools": results}, indent=1) + "\n")
    return 0 if all(map(clean, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
