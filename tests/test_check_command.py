"""``check FILE``: text, JSON, SARIF, exit status."""

from __future__ import annotations

import json
from pathlib import Path

import divergent_file
import pytest
import tvm_ffi
from click.testing import CliRunner

from tl_gridsync_pass.cli.check import command

# Up to 0.1.9 TileLang's statements have no place in a file.
needs_lines = pytest.mark.skipif(
    tvm_ffi.get_global_func("tl.ir.GetStmtSpan", allow_missing=True) is None, reason="TileLang keeps no source lines"
)
FILE = str(Path(divergent_file.__file__).resolve())


def check(*arguments: str):
    return CliRunner().invoke(command, [FILE, *arguments])


def line_of(text: str) -> int:
    return next(number for number, line in enumerate(Path(FILE).read_text().splitlines(), 1) if text in line)


@needs_lines
def test_text_names_the_findings_and_what_was_not_checked():
    result = check()
    assert result.exit_code == 1
    assert "error[grid-divergent]" in result.stdout
    assert f"--> {FILE}:{line_of('T.sync_grid()')}" in result.stdout
    assert "2 kernels checked: 1 error, 0 warnings, 0 hints" in result.stdout
    assert "not checked: needs_a_size: needs arguments: size; give them as --kernel 'needs_a_size(...)'" in result.stderr


def test_a_kernel_is_named_with_its_arguments():
    result = check("--kernel", "needs_a_size(32 * 2, threads=32)")
    assert result.exit_code == 0
    assert "warning[not-provably-uniform]" in result.stdout
    assert "1 kernel checked: 0 errors, 1 warning, 0 hints" in result.stdout


def test_strict_fails_for_a_warning():
    assert check("--kernel", "needs_a_size(64)", "--strict").exit_code == 1
    assert check("--kernel", "fine()", "--strict").exit_code == 0


def test_strict_fails_for_a_kernel_that_was_not_checked():
    result = check("--kernel", "fine()", "--kernel", "needs_a_size()", "--strict")
    assert result.exit_code == 1
    assert "not checked: needs_a_size(): cannot be built: TypeError" in result.stderr


@needs_lines
def test_json_holds_every_kernel():
    result = check("--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert {k["name"]: len(k["findings"]) for k in report["kernels"]} == {"hangs": 1, "fine": 0}
    (finding,) = report["kernels"][0]["findings"]
    assert (finding["rule"], finding["severity"], finding["condition"]) == ("grid-divergent", "error", "bx < n")
    assert (finding["file"], finding["line"]) == (FILE, line_of("T.sync_grid()"))
    assert [k["name"] for k in report["not_checked"]] == ["needs_a_size"]


@needs_lines
def test_sarif_places_the_finding(monkeypatch):
    monkeypatch.chdir(Path(FILE).parents[1])
    result = check("--sarif")
    assert result.exit_code == 1
    log = json.loads(result.stdout)
    assert log["version"] == "2.1.0"
    (run,) = log["runs"]
    (finding,) = run["results"]
    assert run["tool"]["driver"]["rules"][finding["ruleIndex"]]["id"] == finding["ruleId"] == "grid-divergent"
    assert finding["level"] == "error"
    place = finding["locations"][0]["physicalLocation"]
    assert place["artifactLocation"]["uri"] == "tests/divergent_file.py"
    assert place["region"]["startLine"] == line_of("T.sync_grid()")
    assert finding["locations"][0]["logicalLocations"][0]["name"] == "hangs_kernel"
    assert finding["relatedLocations"][0]["physicalLocation"]["region"]["startLine"] == line_of("if block < n")


def test_json_and_sarif_exclude_each_other():
    assert check("--json", "--sarif").exit_code == 2


def test_a_file_without_kernels_is_an_error(tmp_path):
    empty = tmp_path / "empty_file.py"
    empty.write_text("x = 1\n")
    result = CliRunner().invoke(command, [str(empty)])
    assert result.exit_code == 2
    assert "it has no TileLang kernel at its top level" in result.stderr


@pytest.mark.parametrize(("text", "message"), [("raise OSError('no GPU')", "OSError: no GPU"), ("def", "SyntaxError")])
def test_a_file_that_cannot_be_imported_is_an_error(tmp_path, text, message):
    broken = tmp_path / "broken_file.py"
    broken.write_text(text)
    result = CliRunner().invoke(command, [str(broken)])
    assert result.exit_code == 1
    assert message in result.stderr


def test_a_kernel_argument_that_is_no_call_is_an_error():
    result = check("--kernel", "fine")
    assert result.exit_code == 1
    assert "is not a call" in result.stderr
