"""What TL_GRIDSYNC_PASS means, and what takes precedence over it."""

from __future__ import annotations

import importlib.util
from dataclasses import make_dataclass
from pathlib import Path

import kernels
import pytest
import tilelang

import tl_gridsync_pass as gs
from tl_gridsync_pass import environment, process


@pytest.mark.parametrize("value", ["1", "true", "yes", "on", "TRUE", " On "])
def test_switched_on(value):
    assert environment.parse(value) == gs.GridSyncOptions()


@pytest.mark.parametrize("value", ["0", "false", "no", "off", "OFF", "", "  "])
def test_switched_off(value):
    assert environment.parse(value) is None


@pytest.mark.parametrize("value", ["state=module", " state = module "])
def test_options(value):
    assert environment.parse(value) == gs.GridSyncOptions(state="module")


def test_several_options():
    assert environment.parse("state=module,timeout_ms=500") == gs.GridSyncOptions(state="module", timeout_ms=500)


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("maybe", "'maybe'"),
        ("2", "'2'"),
        ("state", "'state'"),
        ("nope=1", "'nope=1'"),
        ("state=nowhere", "'nowhere' is unknown"),
        ("state=module,state=launch", "state is given twice"),
        ("state=module,", "''"),
        ("1,state=module", "'1'"),
    ],
)
def test_anything_else_is_an_error_that_says_what_is_allowed(value, reason):
    with pytest.raises(gs.GridSyncOptionError) as caught:
        environment.parse(value)
    for fragment in (environment.VARIABLE, repr(value), reason, "1/true/yes/on", "0/false/no/off", "state=<str>", "timeout_ms=<int>"):
        assert fragment in str(caught.value)


def test_every_option_type(monkeypatch):
    """Options are read by the types that their dataclass declares, whichever it has."""
    options = make_dataclass("Options", [("word", "str", "a"), ("number", "int", 0), ("flag", "bool", False)], frozen=True)
    monkeypatch.setattr(environment, "GridSyncOptions", options)
    environment.parse.cache_clear()
    try:
        assert environment.parse("number=500,flag=yes,word=b") == options("b", 500, True)
        assert environment.parse("flag=0") == options()
        for value, reason in (("number=many", "number takes a int"), ("flag=2", "flag takes a bool")):
            with pytest.raises(gs.GridSyncOptionError, match=reason):
                environment.parse(value)
    finally:
        environment.parse.cache_clear()


def test_the_startup_module_knows_the_same_variable_and_words():
    """It repeats them, because it must not import the package."""
    path = Path(__file__).parents[1] / "startup" / "_tl_gridsync_pass_startup.py"
    spec = importlib.util.spec_from_file_location("startup_under_test", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (module.VARIABLE, module.OFF) == (environment.VARIABLE, environment.OFF)
    assert f'"{environment.VARIABLE}"' in path.with_name("tl_gridsync_pass.pth").read_text()


def test_the_process_takes_the_place_of_the_environment(monkeypatch):
    assert process.current() is None
    monkeypatch.setenv(environment.VARIABLE, "state=module")
    assert process.current() == gs.GridSyncOptions(state="module")
    with gs.enabled(state="launch"):
        assert process.current() == gs.GridSyncOptions(state="launch")
    # "Not set" again, and not the options that the environment asked for then.
    monkeypatch.setenv(environment.VARIABLE, "1")
    assert process.current() == gs.GridSyncOptions(state="launch")
    monkeypatch.setenv(environment.VARIABLE, "state=module")
    assert process.current() == gs.GridSyncOptions(state="module")
    gs.disable()
    assert process.current() is None
    with gs.enabled(state="launch"):
        pass
    assert process.current() is None
    process.reset()
    assert process.current() == gs.GridSyncOptions(state="module")


def test_a_value_that_went_bad_later_is_an_error_of_the_compilation(monkeypatch):
    monkeypatch.setenv(environment.VARIABLE, "maybe")
    with pytest.raises(gs.GridSyncOptionError, match="'maybe'"):
        tilelang.compile(kernels.handoff((32, 2)), target=kernels.CUTEDSL, execution_backend="cutedsl")


ON_LAUNCH = {"tl_gridsync.enable": True, "tl_gridsync.state": "launch"}
OFF = {"tl_gridsync.enable": False}


@pytest.mark.parametrize(
    ("passes", "pass_configs", "process_wide", "variable", "expected"),
    [
        (None, None, None, None, "stock"),
        (None, None, None, "state=module", "module"),
        (None, None, "launch", "state=module", "launch"),
        (None, None, "off", "state=module", "stock"),
        (None, ON_LAUNCH, "module", "state=module", "launch"),
        (None, OFF, "module", "state=module", "stock"),
        ("module", ON_LAUNCH, "launch", "1", "module"),
        ("none", ON_LAUNCH, "launch", "1", "stock"),
    ],
)
def test_precedence(monkeypatch, passes, pass_configs, process_wide, variable, expected):
    """passes=, then pass_configs, then enable() and disable(), then the environment."""
    if variable is not None:
        monkeypatch.setenv(environment.VARIABLE, variable)
    if process_wide == "off":
        gs.disable()
    elif process_wide is not None:
        gs.enable(state=process_wide)
    asked = {} if passes is None else {"passes": [] if passes == "none" else [gs.GridSyncPass(state=passes)]}
    kernel = tilelang.compile(
        kernels.handoff((32, 2)), target=kernels.CUTEDSL, execution_backend="cutedsl", pass_configs=pass_configs, **asked
    )
    source = kernel.get_kernel_source()
    assert ("tl.sync_grid()" in source) == (expected == "stock")
    if expected != "stock":
        assert f'tl_gridsync.arrive_and_wait("{expected}"' in source
