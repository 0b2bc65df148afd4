"""Run kernels that other people wrote, unmodified, with the stock barrier and with the pass, against their own references.

    python tools/real_kernels.py KERNELS.json OUT.json [--timeout SECONDS] [--repeat N]

KERNELS.json is a list of objects: ``name``, ``source`` (repository and commit, for the report), ``cwd`` (a checkout)
and ``command`` (a list; ``{python}`` stands for this interpreter), for example::

    {"name": "cooperative launch", "source": "tile-ai/tilelang v0.1.15", "cwd": "/src/tilelang",
     "command": ["{python}", "-m", "pytest", "-q", "testing/python/language/test_tilelang_language_cooperative.py"]}

Each command is to exit with 0 where the kernel agrees with its own reference. It is run on the CuTeDSL target, once with
TL_GRIDSYNC_PASS unset and once with it set to 1, each time with an empty kernel cache and a bound on its time. OUT.json
gets for each run whether it agreed, its time in seconds, and the end of what it printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

SETTINGS = {"stock": {}, "with the pass": {"TL_GRIDSYNC_PASS": "1"}}
PRINTED = 3000


def run(kernel: dict[str, Any], setting: dict[str, str], timeout: float) -> dict[str, Any]:
    """One run of one kernel's command in a process of its own; a run that exceeds ``timeout`` seconds is killed."""
    command = [word.format(python=sys.executable) for word in kernel["command"]]
    with tempfile.TemporaryDirectory() as cache:
        environment = {name: value for name, value in os.environ.items() if name != "TL_GRIDSYNC_PASS"}
        # Its name up to TileLang 0.1.9, and after.
        targets = dict.fromkeys(("TILELANG_TARGET", "TILELANG_DEFAULT_TARGET"), "cutedsl")
        environment |= {**targets, "TILELANG_CACHE_DIR": cache, **setting}
        start = time.monotonic()
        try:
            ended = subprocess.run(
                command,
                cwd=kernel["cwd"],
                env=environment,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                timeout=timeout,
            )
        except subprocess.TimeoutExpired as expired:
            output = expired.stdout or b""
            text = output.decode(errors="replace") if isinstance(output, bytes) else output
            return {"outcome": "timed out", "seconds": timeout, "printed": text[-PRINTED:]}
    outcome = "right" if ended.returncode == 0 else "failed"
    return {"outcome": outcome, "status": ended.returncode, "seconds": time.monotonic() - start, "printed": ended.stdout[-PRINTED:]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kernels", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds a run may take (default: 600)")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each kernel in each setting (default: 1)")
    arguments = parser.parse_args()
    report = []
    for kernel in json.loads(arguments.kernels.read_text()):
        runs = {name: [run(kernel, setting, arguments.timeout) for _ in range(arguments.repeat)] for name, setting in SETTINGS.items()}
        report.append({"name": kernel["name"], "source": kernel["source"], "runs": runs})
        arguments.out.write_text(json.dumps(report, indent=1) + "\n")
        print(kernel["name"], {name: [one["outcome"] for one in several] for name, several in runs.items()}, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
