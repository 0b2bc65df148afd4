"""A plugin for pytest: appends each test's outcome to the file that OUTCOME_LINES names, as one line of JSON, when the test ends.

Unlike a JUnit file, it holds what ended before the run was stopped.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

_worker = False


def pytest_configure(config: pytest.Config) -> None:
    # Under pytest-xdist the workers hand their reports to the process that started them, which calls the hook below too.
    global _worker
    _worker = hasattr(config, "workerinput")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if not _worker and (report.when == "call" or report.outcome != "passed"):
        name = f"{Path(report.nodeid.partition('::')[0]).stem}::{report.nodeid.partition('::')[2]}"
        line = {"test": name, "outcome": report.outcome, "seconds": round(report.duration, 1)}
        if report.outcome != "passed":
            line["why"] = str(report.longrepr)[-400:]
        with Path(os.environ["OUTCOME_LINES"]).open("a") as file:
            file.write(json.dumps(line) + "\n")
