"""The demo: what it prints with and without a GPU, and when it says that something is wrong."""

from __future__ import annotations

import re
import subprocess

import pytest
from rich.console import Console

from tl_gridsync_pass import demo


@pytest.fixture
def console():
    return Console(record=True, width=100, quiet=False, file=open("/dev/null", "w"))


@pytest.fixture
def without_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(demo, "LAYOUTS", ((32, 2),))


@pytest.fixture
def with_gpu(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")


def test_without_a_gpu_it_compiles_real_cubins_and_says_so(without_gpu, console):
    assert demo.main(console) == 0
    printed = console.export_text()
    assert "No GPU here" in printed and "Ran on" not in printed
    assert "if (threadIdx.x == 0) and (threadIdx.y == 0):" in printed
    row = next(line for line in printed.splitlines() if "(32, 2)" in line and "tid" in line)
    assert [cell.strip() for cell in row.strip("│ ").split("│")] == ["(32, 2)", "tid.x", "tid.x, tid.y"]
    assert re.search(r"2 MEMBAR\.(SC|ALL)\.GPU", printed) and "noticed, traps" in printed
    assert "sums = [1, 3], and [3, 3] is right" in printed
    assert "is through the barrier and reads values = [1, 0]: sum 1" in printed


def test_without_a_gpu_a_pass_that_forgets_an_axis_is_reported(without_gpu, console, monkeypatch):
    monkeypatch.setattr(demo, "GridSyncPass", lambda: None)
    monkeypatch.setattr(demo, "_around_barrier", lambda source: ())
    monkeypatch.setattr(demo, "_compile", lambda threads, passes, compile_kernel=demo._compile: compile_kernel(threads, []))
    assert demo.main(console) == 1


@pytest.mark.parametrize(("lowered", "status"), [([[3, 3]] * 8, 0), ([[3, 3]] * 7 + [[1, 3]], 1), ([[3, 3]] * 7, 1), ("hangs", 1)])
def test_with_a_gpu_it_shows_both_answers(with_gpu, console, monkeypatch, lowered, status):
    monkeypatch.setattr(demo, "_run_in_process", lambda threads, stock: [[1, 3]] * 8 if stock else lowered)
    assert demo.main(console) == status
    printed = console.export_text()
    assert "Ran on a GPU" in printed and "No GPU" not in printed
    assert printed.count("[1, 3] ×8") == len(demo.LAYOUTS)
    assert printed.count("[3, 3] ×8") == (len(demo.LAYOUTS) if status == 0 else 0)


def test_a_hang_on_the_gpu_is_ended(monkeypatch):
    def run(command, timeout, **_):
        raise subprocess.TimeoutExpired(command, timeout)

    monkeypatch.setattr(subprocess, "run", run)
    assert demo._run_in_process((32, 2), stock=True) == f"hangs (ended after {demo.LAYOUT_LIMIT_S} s)"


def test_a_failed_launch_is_shown_with_its_message():
    """For real: there is no GPU to run on, or no such block shape."""
    assert demo._run_in_process((4096, 1), stock=False).startswith("failed: ")
