"""The GPU suite under compute-sanitizer: ``python benchmarks/sanitizers.py --out sanitizers.json [-- pytest arguments]``.

Runs memcheck, racecheck and synccheck at once, each over the suite without the tests of LEFT_OUT, and writes which tests passed
under which tool and what each process's summary says. Run it from the root of the repository. Exit status 1 where a tool found
something, or a test failed.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import machine
from gpu_suite_report import tests_in

ROOT = Path(__file__).parents[1]
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
}
SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+) (?:errors?|hazards?)")


def run(tool: str, arguments: list[str], limit_s: float) -> dict[str, Any]:
    """The suite under ``tool``."""
    with tempfile.TemporaryDirectory() as folder:
        results, logs = Path(folder) / "results.xml", Path(folder) / "logs"
        logs.mkdir()
        # Calls of the driver that answer with an error are no faults of a kernel: libraries ask it what it has.
        command = ["compute-sanitizer", "--tool", tool, "--target-processes", "all", "--log-file", str(logs / "%p.txt")]
        command += ["--report-api-errors", "no"] if tool == "memcheck" else []
        command += [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-k", " and ".join(f"not {name}" for name in LEFT_OUT)]
        command += [f"--junitxml={results}", "tests/gpu", *arguments]
        try:
            ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
            printed = ended.stdout[-2000:]
        except subprocess.TimeoutExpired:
            return {"tool": tool, "ended": f"not done in {limit_s:.0f} s"}
        texts = [file.read_text() for file in sorted(logs.iterdir())]
        found = [int(number) for text in texts for number in SUMMARY.findall(text)]
        tests = tests_in(results) if results.exists() else []
    outcomes = {f"{test['file']}::{test['test']}": test["outcome"] for test in tests}
    return {
        "tool": tool,
        "processes": len(found),
        "found": sum(found),
        "reports": [text[:3000] for text in texts if any(map(int, SUMMARY.findall(text)))][:5],
        "passed": sorted(name for name, outcome in outcomes.items() if outcome == "passed"),
        "not passed": {name: outcome for name, outcome in outcomes.items() if outcome != "passed"},
        "printed": printed,
    }


def clean(result: dict[str, Any]) -> bool:
    """Whether the tool ran, found nothing, and no test failed under it."""
    failed = {"failure", "error"} & set(result.get("not passed", {}).values())
    return result.get("found") == 0 and result["processes"] > 0 and bool(result["passed"]) and not failed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--limit", type=float, default=3600.0, help="seconds that each tool may take (default: 3600)")
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    arguments = parser.parse_args()
    with ThreadPoolExecutor(len(TOOLS)) as pool:
        results = list(pool.map(lambda tool: run(tool, arguments.pytest, arguments.limit), TOOLS))
    report = {"machine": machine.describe(), "left out": LEFT_OUT, "tools": results}
    arguments.out.write_text(json.dumps(report, indent=1) + "\n")
    for result in results:
        passed, not_passed = len(result.get("passed", [])), result.get("not passed", {})
        print(result["tool"], result.get("ended", f"{result.get('found')} found; {passed} tests passed, not passed: {not_passed}"))
    return 0 if all(map(clean, results)) else 1


if __name__ == "__main__":
    sys.exit(main())
