"""Runs a program text in a Python process of its own, which may lose its CUDA context."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

from bounded import PATIENCE

_TESTS = Path(__file__).parents[1]


def fresh_process(program: str, *arguments: str, tmp_path: Path, seconds: float = 150, **env: str) -> subprocess.CompletedProcess[str]:
    """The finished process, with its output as text; it sees the test modules and no kernel cache.

    Raises
    ------
    subprocess.TimeoutExpired
        Where it is not done in ``seconds`` times ``PATIENCE``; it is killed then.
    """
    file = tmp_path / "program.py"
    file.write_text(textwrap.dedent(program))
    path = os.pathsep.join([str(_TESTS), str(_TESTS / "gpu"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, str(file), *arguments],
        capture_output=True,
        text=True,
        timeout=seconds * PATIENCE,
        env={**os.environ, "PYTHONPATH": path, "TILELANG_DISABLE_CACHE": "1", **env},
        check=False,
    )
