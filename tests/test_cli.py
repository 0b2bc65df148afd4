"""The command line as a whole: its subcommands, `demo`, and what it says where the plugin is not attached."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import tl_gridsync_pass as gs
from tl_gridsync_pass import demo
from tl_gridsync_pass.cli import invocation
from tl_gridsync_pass.cli.main import SUBCOMMANDS, main

FILE = Path(__file__).with_name("kernel_file.py")


def run(*arguments: str):
    done = CliRunner().invoke(main, arguments)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_help_lists_every_subcommand_and_each_has_json():
    listed = run("--help").stdout
    for name in SUBCOMMANDS:
        assert f"\n  {name} " in listed
        assert "--json" in run(name, "--help").stdout


def test_unknown_subcommand():
    done = run("cure")
    assert done.exit_code == 2 and "No such command 'cure'" in done.stderr


@pytest.mark.parametrize("command", [["demo"], ["inspect", str(FILE)]])
def test_what_needs_the_plugin_says_why_it_is_not_attached(monkeypatch, command):
    monkeypatch.setattr(gs, "attach_error", gs.SeamError("tl_gridsync: not this TileLang"))
    done = run(*command)
    assert done.exit_code == 1 and done.stdout == ""
    assert "not this TileLang" in done.stderr and "doctor" in done.stderr


@pytest.mark.parametrize(
    ("argv", "orig_argv", "expected"),
    [
        (["/venv/bin/tl-gridsync", "doctor"], ["python", "/venv/bin/tl-gridsync", "doctor"], True),
        (["-m", "doctor"], ["python", "-m", "tl_gridsync_pass", "doctor"], True),
        (["-m"], ["python", "-m", "tl_gridsync_pass.demo"], False),
        (["-m", "tests"], ["python", "-m", "pytest", "tests"], False),
        (["train.py", "tl_gridsync_pass"], ["python", "train.py", "tl_gridsync_pass"], False),
        (["-c"], ["python", "-c", "import tl_gridsync_pass"], False),
        ([""], ["python"], False),
    ],
)
def test_only_the_command_line_survives_a_failed_attachment(monkeypatch, argv, orig_argv, expected):
    monkeypatch.setattr("sys.argv", argv)
    monkeypatch.setattr("sys.orig_argv", orig_argv)
    assert invocation.is_command_line() is expected


@pytest.mark.parametrize("as_it_is", [True, False])
def test_demo_without_a_gpu(monkeypatch, as_it_is):
    """With both sides stock, which a pass that does nothing would give, the demo has to say that it is not right."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setattr(demo, "LAYOUTS", ((32, 2),))
    if not as_it_is:
        monkeypatch.setattr(demo, "_around_barrier", lambda source: ())
        monkeypatch.setattr(demo, "_compile", lambda threads, passes, compile_kernel=demo._compile: compile_kernel(threads, []))
    done = run("demo", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["right"]) == ((0, True) if as_it_is else (1, False))
    (layout,) = report["layouts"]
    assert report["ran_on"] is None and layout["threads"] == [32, 2]
    assert layout["stock"]["leader_axes"] == ["x"]
    assert layout["lowered"]["leader_axes"] == (["x", "y"] if as_it_is else ["x"])


@pytest.mark.parametrize(("lowered", "status"), [([[3, 3]] * 8, 0), ([[1, 3]] * 8, 1), ("hangs", 1)])
def test_demo_with_a_gpu(monkeypatch, lowered, status):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_name", lambda: "a GPU")
    monkeypatch.setattr(demo, "_run_in_process", lambda threads, stock: [[1, 3]] * 8 if stock else lowered)
    done = run("demo", "--json")
    report = json.loads(done.stdout)
    assert (done.exit_code, report["right"], report["ran_on"]) == (status, status == 0, "a GPU")
    assert [layout["threads"] for layout in report["layouts"]] == [32, [32, 2], [32, 1, 2], [16, 2, 2]]
    assert {str(layout["lowered"]) for layout in report["layouts"]} == {str(lowered)}
    text = run("demo")
    assert text.exit_code == status and "Ran on a GPU" in text.stdout
