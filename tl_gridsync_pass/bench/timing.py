"""Timing launches, with a limit on the wait: a barrier that hangs ends the benchmark."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Any

import torch


def time_launches(kernel: Any, blocks: int, width: int, barriers: int, stores: int, launches: int) -> list[float]:
    """Nanoseconds a barrier in each of ``launches`` launches of :func:`~.barrier_loop.barrier_loop`, after one to warm up."""
    data = torch.zeros((blocks, width), dtype=torch.int32, device="cuda")
    stream = torch.cuda.current_stream()
    samples = []
    for launch in range(launches + 1):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        # Keeps the device busy while the host queues the launch, which would be in the time otherwise.
        torch.cuda._sleep(500_000)
        start.record(stream)
        kernel(data, barriers, stores)
        end.record(stream)
        finish(end)
        if launch:
            samples.append(start.elapsed_time(end) * 1e6 / barriers)
    assert int(data[:, 0].min()) == barriers, "the kernel did not finish its loop"
    return samples


def finish(event: torch.cuda.Event, seconds: float = 60.0) -> None:
    """Wait for ``event``, but not for ever: a barrier that hangs ends the benchmark."""
    if not ended_within(event.synchronize, seconds):
        print(f"no answer from the GPU in {seconds:.0f} s: a barrier hangs", flush=True)
        os._exit(1)


def ended_within(wait: Callable[[], object], seconds: float) -> bool:
    """Whether ``wait()`` returned in that time; what it raised is raised here. One that did not goes on in its own thread."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            wait()
        except BaseException as error:
            errors.append(error)

    waiter = threading.Thread(target=run, daemon=True)
    waiter.start()
    waiter.join(seconds)
    if waiter.is_alive():
        return False
    if errors:
        raise errors[0]
    return True
