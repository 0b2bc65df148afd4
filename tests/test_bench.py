"""``python -m tl_gridsync_pass bench``: what it says without a GPU, and what it would time on one."""

from __future__ import annotations

import json
import threading
from types import SimpleNamespace

import pytest
import tilelang
import torch
from click.testing import CliRunner
from kernels import CUTEDSL

from tl_gridsync_pass.bench import barriers, timing
from tl_gridsync_pass.bench.barrier_loop import barrier_loop
from tl_gridsync_pass.cli import bench
from tl_gridsync_pass.cli.main import main


def test_without_a_gpu_it_says_so_and_fails(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    run = CliRunner().invoke(main, ["bench"])
    assert run.exit_code == 1
    assert "bench needs an NVIDIA GPU" in run.output and "demo" in run.output


def test_no_shape_has_more_blocks_than_can_be_resident():
    h200 = SimpleNamespace(multi_processor_count=132, max_threads_per_multi_processor=2048)
    small = SimpleNamespace(multi_processor_count=20, max_threads_per_multi_processor=1024)
    assert bench.shapes_for(h200) == [(2, 64), (132, 128), (132, 1024), (528, 256), (2112, 128)]
    assert bench.shapes_for(small) == [(2, 64), (20, 128), (20, 1024), (80, 256), (160, 128)]


@pytest.mark.parametrize("arguments", [["bench"], ["bench", "--json"]], ids=["table", "json"])
def test_it_times_every_barrier_on_every_shape(monkeypatch, arguments):
    timed = []

    def time_launches(kernel, blocks, width, count, stores, launches):
        timed.append((kernel, blocks, width, count))
        return [100.0 * (1 + len(timed) % 3)] * launches

    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "a GPU")
    properties = SimpleNamespace(multi_processor_count=4, max_threads_per_multi_processor=1024)
    monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _: properties)
    named = tuple(barriers.Barrier(b.name, lambda _, name=b.name: name) for b in barriers.BARRIERS)
    monkeypatch.setattr(barriers, "BARRIERS", named)
    monkeypatch.setattr(timing, "time_launches", time_launches)
    run = CliRunner().invoke(main, arguments)
    assert run.exit_code == 0, run.output
    shapes = [(2, 64), (4, 128), (4, 1024), (16, 256), (32, 128)]
    assert timed == [(b.name, blocks, threads, 1000) for blocks, threads in shapes for b in named]
    if "--json" in arguments:
        result = json.loads(run.stdout)
        assert len(result["rows"]) == 15 and result["rows"][0]["ns"] == [200.0] * 3
    else:
        assert "132 x" not in run.stdout and "32 x 128" in run.stdout and "0.67" in run.stdout


def test_the_loop_has_one_barrier_in_its_body():
    source = tilelang.lower(barrier_loop(4, 64), target=CUTEDSL, passes=[]).kernel_source
    assert source.count("sync_grid()") == 1


def test_a_wait_has_a_limit_and_hands_on_what_it_raises():
    assert timing.ended_within(lambda: None, 10.0)
    never = threading.Event()
    assert not timing.ended_within(never.wait, 0.05)
    never.set()
    with pytest.raises(ZeroDivisionError):
        timing.ended_within(lambda: 1 / 0, 10.0)
