"""Waiting for the GPU with a limit: a barrier that hangs must fail its test, not the whole run."""

from __future__ import annotations

import os

import pytest
import torch

from tl_gridsync_pass.bench.timing import ended_within

WAIT_S = 30.0
# How many times longer every wait may be, for tools that slow the GPU down.
PATIENCE = float(os.environ.get("TL_GRIDSYNC_TEST_PATIENCE", "1"))

_hung_by: str | None = None


def synchronize(seconds: float = WAIT_S) -> None:
    """Wait for all work on the current device; fail the test where it is not done in ``seconds`` times ``PATIENCE``.

    A kernel that hangs cannot be stopped from inside its process. So every later wait of this process
    fails at once, and conftest.py ends the process without waiting for the GPU.
    """
    global _hung_by
    if _hung_by is not None:
        pytest.fail(f"the GPU still runs a kernel that hung in an earlier test ({_hung_by})")
    seconds *= PATIENCE
    if not ended_within(torch.cuda.synchronize, seconds):
        _hung_by = "see the first failure"
        pytest.fail(f"the GPU was not done after {seconds:.0f} s: the barrier hangs")


def gpu_is_hung() -> bool:
    """Whether a wait of this process ran out."""
    return _hung_by is not None
