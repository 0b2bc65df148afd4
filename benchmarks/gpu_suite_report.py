"""Runs the GPU suite and writes its report: one JSON file of data and one page for docs/.

    python benchmarks/gpu_suite_report.py --data benchmarks/results/h200-gpu-suite.json --page docs/gpu-suite.md [-- pytest arguments]

Run it from the root of the repository, on a machine with the GPU that the report is to be about.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import machine

ROOT = Path(__file__).parents[1]


def run_suite(arguments: list[str]) -> list[dict[str, Any]]:
    """Every test of ``pytest -m gpu`` with its outcome and its time in seconds."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", "-m", "gpu", "tests/gpu", f"--junitxml={results}", *arguments]
        subprocess.run(command, cwd=ROOT, check=False)
        return tests_in(results)


def tests_in(results: Path) -> list[dict[str, Any]]:
    """Every test of pytest's JUnit file, with its outcome and its time in seconds."""
    tests = []
    for case in ET.parse(results).getroot().iter("testcase"):
        unlike = next((element for kind in ("failure", "error", "skipped") if (element := case.find(kind)) is not None), None)
        tests.append(
            {
                "file": case.attrib["classname"].rpartition(".")[2],
                "test": case.attrib["name"],
                "outcome": "passed" if unlike is None else unlike.tag,
                "why": "" if unlike is None else unlike.attrib.get("message", "")[:300],
                "seconds": float(case.attrib["time"]),
            }
        )
    return tests


def page(report: dict[str, Any]) -> str:
    """The report for people."""
    about = report["machine"]
    driver = about["nvidia-smi"].get("driver_version", "?")
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items() if version)
    counts = Counter(test["outcome"] for test in report["tests"])
    lines = [
        "# The GPU suite",
        "",
        f"Run on {about['date'][:10]} on an {about['gpu']}, driver {driver}, with {versions}.",
        f"Emission revision {about['emission revision']}.",
        "",
        f"{counts['passed']} passed, {counts['failure'] + counts['error']} failed, {counts['skipped']} skipped. "
        "Made by `python benchmarks/gpu_suite_report.py`; the data, test by test, is in `benchmarks/results/`.",
        "",
        "| tests | passed | failed | skipped | seconds |",
        "| --- | --- | --- | --- | --- |",
    ]
    for file in dict.fromkeys(test["file"] for test in report["tests"]):
        of = [test for test in report["tests"] if test["file"] == file]
        n = Counter(test["outcome"] for test in of)
        seconds = sum(test["seconds"] for test in of)
        lines.append(f"| `{file}` | {n['passed']} | {n['failure'] + n['error']} | {n['skipped']} | {seconds:.0f} |")
    unlike = [test for test in report["tests"] if test["outcome"] != "passed"]
    if unlike:
        lines += ["", "Not passed:", ""]
        lines += [
            f"- `{test['file']}::{test['test']}`: {test['outcome']}: {test['why'].splitlines()[0] if test['why'] else ''}"
            for test in unlike
        ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--page", type=Path, required=True)
    parser.add_argument("pytest", nargs="*", help="arguments for pytest, after --")
    args = parser.parse_args()
    report = {"machine": machine.describe(), "tests": run_suite(args.pytest)}
    args.data.write_text(json.dumps(report, indent=1) + "\n")
    args.page.write_text(page(report))
    sys.exit(any(test["outcome"] in ("failure", "error") for test in report["tests"]))


if __name__ == "__main__":
    main()
