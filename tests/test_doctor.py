"""doctor: the faults that it reads from TileLang's source, its verdict, and its two outputs."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import tilelang
from click.testing import CliRunner

import tl_gridsync_pass as gs
from tl_gridsync_pass import diagnosis, environment
from tl_gridsync_pass.cli.main import main
from tl_gridsync_pass.seams import cache_scan, stock_helper

TILELANG = Path(tilelang.__file__).parent
HELPER = (TILELANG / stock_helper.HELPER).read_text()
ON = diagnosis.Environment("1", gs.GridSyncOptions(), None, Path("tl_gridsync_pass.pth"))


def affected(faults) -> dict[str, bool | None]:
    return {fault.name: fault.affected for fault in faults}


RELEASE = tilelang.__version__.partition("+")[0]


def helper(leader: str, poll: str, module_state: bool = True) -> str:
    """A helper in the shape of TileLang's, with the parts that decide."""
    declare = 'llvm.GlobalOp(T.i32(), "ctr", addr_space=1)' if module_state else "workspace()"
    return f'''
"""Uses %tid.x, %tid.y and %tid.z, says this docstring."""
def barrier():
    {declare}
    llvm.inline_asm(None, [a, b], """
    {leader} // not %tid.y, not %tid.z
    ld.acquire.gpu.global.s32 %g, [$1];
    atom.add.release.gpu.s32 %r, [$0], 1;
    st.release.gpu.global.s32 [$0], 0;
    ld.acquire.gpu.global.s32 %r, [{poll}];
    """, "l,l")
'''


def test_installed_tilelang():
    """The faults that were reproduced on a GPU with this release's barrier."""
    found = affected(stock_helper.read_faults(TILELANG, '{"kind":"cuda"}'))
    assert found == {
        "leader": True,
        # The helper of these three has no generation.
        "reuse": RELEASE in ("0.1.9", "0.1.10", "0.1.11"),
        "streams": True,
        "graphs": True,
        "current-stream": True,
        "residency-error": True,
        # The second launcher came with 0.1.14.
        "cutlass-launcher": RELEASE in ("0.1.14", "0.1.15"),
    }


def test_faults_are_read_from_the_code():
    x_only = helper("mov.u32 %t, %tid.x;", "$1")
    assert affected(stock_helper.barrier_faults(x_only)) == {"leader": True, "reuse": False, "streams": True, "graphs": True}
    whole = "mov.u32 %t, %tid.x; mov.u32 %u, %tid.y; mov.u32 %v, %tid.z;"
    mended = helper(whole, "$1", module_state=False)
    assert affected(stock_helper.barrier_faults(mended)) == {"leader": False, "reuse": False, "streams": False, "graphs": False}
    without_generation = helper(whole, "$0")
    assert affected(stock_helper.barrier_faults(without_generation))["reuse"] is True
    elsewhere = affected(stock_helper.barrier_faults("def sync_grid(): pass"))
    assert elsewhere == {"leader": None, "reuse": None, "streams": False, "graphs": False}


def test_installed_helper_with_each_fault_mended():
    """What decides is the code that causes the fault, and nothing else in the file."""
    leader = HELPER.replace("mov.u32 %r_tid, %tid.x;", "mov.u32 %r_tid, %tid.x; mov.u32 %a, %tid.y; mov.u32 %b, %tid.z;")
    assert leader != HELPER and affected(stock_helper.barrier_faults(leader))["leader"] is False
    state = re.sub(r"llvm\.GlobalOp\(", "declare(", HELPER)
    assert state != HELPER and affected(stock_helper.barrier_faults(state))["streams"] is False


def test_launch_faults_are_read_from_the_code(tmp_path):
    for path, text in (
        (stock_helper.HELPER, helper("mov.u32 %t, %tid.x;", "$1")),
        (
            stock_helper.WRAPPER,
            'os.environ["TILELANG_CUTEDSL_HOST_LAUNCHER"]\n    f(a).launch(\n      grid=[1],\n      cooperative=True,\n    )\n'
            "cuOccupancyMaxActiveBlocksPerMultiprocessor\nKernel launch failed with CUDA error {result}\n",
        ),
        (stock_helper.ADAPTER, 'if str(self.target).startswith("cuda"): stream = current_stream()'),
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)
    found = affected(stock_helper.read_faults(tmp_path, "cuda -arch=sm_90a"))
    assert (found["cutlass-launcher"], found["current-stream"], found["residency-error"]) == (False, False, False)
    assert affected(stock_helper.read_faults(tmp_path, None))["current-stream"] is None
    (tmp_path / stock_helper.WRAPPER).write_text("")
    assert affected(stock_helper.read_faults(tmp_path, None))["cutlass-launcher"] is False


def test_tilelang_without_a_grid_barrier(tmp_path):
    assert stock_helper.read_faults(tmp_path, None) == ()


@pytest.mark.parametrize(
    ("leader", "attach_error", "asked", "status", "reason"),
    [
        (True, None, ON, "in force", "state='launch'"),
        (False, None, ON, "not needed", "none of the known faults"),
        (None, None, diagnosis.Environment(None, None, None, None), "exposed", "TL_GRIDSYNC_PASS=1"),
        (True, "SeamError: no", ON, "exposed", "SeamError: no"),
        (True, None, diagnosis.Environment("x", None, "bad value", None), "exposed", "bad value"),
        (True, None, diagnosis.Environment("1", gs.GridSyncOptions(), None, None), "exposed", "tl_gridsync_pass.pth"),
    ],
)
def test_verdict(leader, attach_error, asked, status, reason):
    fault = stock_helper.Fault("leader", "", leader, "", True)
    launch = stock_helper.Fault("current-stream", "", True, "", False)
    verdict = diagnosis.judge(True, (fault, launch), attach_error, asked)
    assert verdict.status == status and verdict.exposed == (status == "exposed")
    assert reason in " ".join(verdict.reasons)


def test_verdict_on_module_state():
    asked = diagnosis.Environment("state=module", gs.GridSyncOptions(state="module"), None, Path("tl_gridsync_pass.pth"))
    for name, status in (("leader", "in force"), ("streams", "exposed")):
        assert diagnosis.judge(True, (stock_helper.Fault(name, "", True, "", True),), None, asked).status == status


def test_cache_scan(tmp_path):
    for key, name, source in (
        ("a", "device_kernel.py", "  tl.sync_grid()\n"),
        ("b", "device_kernel.cu", "  tl.sync_grid()\n"),
        ("c", "device_kernel.py", '  tl_gridsync.arrive_and_wait("launch")\n'),
        ("d", "device_kernel.py", "  pass\n"),
        ("d", "kernel.py", "  tl.sync_grid()\n"),
    ):
        folder = tmp_path / "0.1.15" / "linux-x86_64" / "kernels" / key
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(source)
    contents = cache_scan.scan(tmp_path)
    assert contents.kernels == 4
    assert [[path.name for path in paths] for paths in (contents.stock, contents.ours)] == [["a", "b"], ["c"]]
    assert cache_scan.scan(tmp_path / "absent").kernels == 0


def test_cache_folder_is_tilelangs(monkeypatch):
    assert str(cache_scan.cache_folder()) == tilelang.env.TILELANG_CACHE_DIR
    monkeypatch.delenv(cache_scan.FOLDER_VARIABLE)
    assert str(cache_scan.cache_folder()) == tilelang.env.TILELANG_CACHE_DIR


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    """A program in nvidia-smi's place that prints what one with two GPUs does."""
    tool = tmp_path / "nvidia-smi"
    tool.write_text("#!/bin/sh\necho '580.159.04, NVIDIA H200, 9.0'\necho '580.159.04, NVIDIA A100, 8.0'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def test_json(nvidia_smi):
    done = CliRunner().invoke(main, ["doctor", "--json"])
    report = json.loads(done.stdout)
    assert done.exit_code == 1 and report["verdict"]["status"] == "exposed"
    assert report["versions"]["tilelang"] == tilelang.__version__.partition("+")[0]
    assert report["versions"]["driver"] == "580.159.04"
    assert report["gpus"] == [{"name": "NVIDIA H200", "compute_capability": "9.0"}, {"name": "NVIDIA A100", "compute_capability": "8.0"}]
    assert report["plugin"] == {"attach_error": None, "attached": gs.attached()}
    assert [fault["name"] for fault in report["tilelang"]["faults"] if fault["affected"] and fault["name"] != "reuse"][:2] == [
        "leader",
        "streams",
    ]
    assert report["environment"]["asks_for"] is None and report["environment"]["value"] is None
    assert report["cache"]["folder"] == tilelang.env.TILELANG_CACHE_DIR


def test_text(monkeypatch):
    monkeypatch.setenv(environment.VARIABLE, "maybe")
    done = CliRunner().invoke(main, ["doctor"])
    text = " ".join(done.stdout.split())
    assert done.exit_code == 1
    for fragment in ("leader yes leader chosen by %tid.x", "tilelang.compile", "not understood", "Kernel cache", "exposed"):
        assert fragment in text


@pytest.mark.parametrize("files", [("kernel.py",), ("device_kernel.cu", "kernel.py")], ids=["0.1.9", "later"])
def test_cached_kernels_are_found_as_each_release_keeps_them(tmp_path, files):
    for name, call in (("a", "tl.sync_grid()"), ("b", "tl_gridsync.arrive_and_wait()"), ("c", "nothing")):
        (tmp_path / name).mkdir()
        for file in files:
            (tmp_path / name / file).write_text(call)
    contents = cache_scan.scan(tmp_path)
    assert (contents.kernels, contents.stock, contents.ours) == (3, (tmp_path / "a",), (tmp_path / "b",))
