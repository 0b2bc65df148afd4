"""inspect: verdicts on barriers, and the command on a Python file and on cubins."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import kernels
import pytest
from click.testing import CliRunner

import tl_gridsync_pass as gs
from tl_gridsync_pass import environment, inspection, sass
from tl_gridsync_pass.cli.main import main
from tl_gridsync_pass.seams import offline

FILE = Path(__file__).with_name("kernel_file.py")


def barrier(axes: str, counter: str) -> sass.GridBarrier:
    return sass.GridBarrier(
        address=0,
        leader_axes=tuple(axes),
        arrival=("ATOM",),
        counter=counter,
        polls=1,
        leader_fences=(),
        block_fences=(),
        checks_workspace=counter == "workspace",
        traps=False,
        block_barriers=2,
        listing=(),
    )


@pytest.mark.parametrize(
    ("axes", "counter", "block", "affected", "reason"),
    [
        ("x", "workspace", (32, 1, 1), False, ""),
        ("x", "workspace", (32, 2, 1), True, "2 threads of each block"),
        ("xy", "workspace", (8, 2, 3), True, "3 threads of each block"),
        ("xyz", "workspace", (8, 2, 3), False, ""),
        ("", "workspace", (1, 1, 1), False, ""),
        ("", "workspace", (32, 1, 1), True, "32 threads of each block"),
        ("x", "workspace", None, None, "does not say"),
        ("xyz", "workspace", None, False, ""),
        ("xyz", "module", (8, 2, 3), True, "global variable of the module"),
        ("xyz", "other", (8, 2, 3), None, "cannot be told"),
        ("x", "other", (32, 2, 1), True, "2 threads of each block"),
    ],
)
def test_verdict(axes, counter, block, affected, reason):
    verdict = inspection.judge(barrier(axes, counter), block)
    assert verdict.affected is affected
    assert reason in " ".join(verdict.reasons) and bool(verdict.reasons) == bool(reason)


def run(*arguments: str | Path):
    done = CliRunner().invoke(main, ["inspect", *map(str, arguments)])
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return done


def test_file_as_it_is():
    """Every kernel of the file, compiled as the file asks, which is with TileLang's own barrier."""
    done = run(FILE, "--json")
    failure, reason = kernels.TWO_STOCK_BARRIERS
    if failure in done.stderr:
        pytest.skip(reason)
    report = json.loads(done.stdout)
    found = {kernel["kernel"]: kernel for kernel in report["kernels"]}
    assert done.exit_code == 1
    assert {name: (kernel["verdict"], kernel["block"]) for name, kernel in found.items()} == {
        "two_barriers": ("affected", [32, 2, 1]),
        "no_barrier": ("not affected", [32, 1, 1]),
        "with_defaults": ("affected", [32, 1, 1]),
    }
    assert report["skipped"] == {"needs_a_width": "needs arguments: width"}
    first, second = found["two_barriers"]["barriers"]
    assert first["leader_axes"] == second["leader_axes"] == ["x"]
    assert first["counter"] == "module" and first["address"] < second["address"]
    assert any("2 threads of each block" in reason for reason in first["reasons"])
    assert found["no_barrier"]["barriers"] == []
    # Its blocks are one-dimensional, so only launches that overlap are affected.
    assert len(found["with_defaults"]["barriers"][0]["reasons"]) == 1


def test_kernel_with_the_pass(monkeypatch):
    monkeypatch.setenv(environment.VARIABLE, "1")
    done = run(f"{FILE}:two_barriers", "--json")
    (kernel,) = json.loads(done.stdout)["kernels"]
    assert done.exit_code == 0 and kernel["verdict"] == "not affected"
    assert [b["leader_axes"] for b in kernel["barriers"]] == [["x", "y"], ["x", "y"]]
    assert {b["counter"] for b in kernel["barriers"]} == {"workspace"}


def test_cubin(tmp_path):
    for passes, status, word in (([], 1, "affected"), ([gs.GridSyncPass()], 0, "not affected")):
        cubin = shutil.copy(offline.cubin_of(kernels.compile_handoff((32, 2), passes)), tmp_path / "kernel.cubin")
        done = run(cubin)
        text = " ".join(done.stdout.split())
        assert done.exit_code == status
        for fragment in ("leader test", "tid.x == 0", "fences, leader", "MEMBAR", f"verdict {word}", "block (32, 2, 1)"):
            assert fragment in text
        assert ("tid.y == 0" in text) == bool(passes)


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (f"{FILE}:absent", "has no kernel 'absent' at module level. Kernels there: two_barriers"),
        (f"{FILE}:needs_a_width", "needs arguments: width"),
        ("absent.py", "there is no file absent.py"),
        ("broken.py", "cannot be imported: ZeroDivisionError"),
        ("wrong.cubin", "cannot read"),
    ],
)
def test_bad_target(tmp_path, monkeypatch, target, message):
    monkeypatch.chdir(tmp_path)
    Path("broken.py").write_text("1 / 0\n")
    Path("wrong.cubin").write_text("not a cubin")
    done = run(target)
    assert done.exit_code == 1 and done.stdout == ""
    assert message in " ".join(done.stderr.split())


def test_kernel_that_does_not_compile():
    done = run(f"{FILE}:no_barrier", "--arch", "sm_1")
    assert done.exit_code == 1 and "kernel 'no_barrier' does not compile for sm_1" in " ".join(done.stderr.split())


def test_kernel_that_cannot_be_built_is_no_clean_bill(tmp_path):
    file = tmp_path / "unbuildable_file.py"
    file.write_text("import tilelang\n\n@tilelang.jit\ndef broken(width=8):\n    return width // 0\n")
    done = run(file, "--json")
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and report["kernels"] == []
    assert report["skipped"]["broken"].startswith("cannot be built: ZeroDivisionError")
