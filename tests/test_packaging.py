"""The wheel and the sdist build, and the wheel holds the package with its native library."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def distributions(tmp_path_factory) -> Path:
    """A folder with the sdist and the wheel that is built from it."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    for name in ("native", "startup", "tl_gridsync_pass"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(out), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_an_sdist_is_built(distributions):
    (sdist,) = distributions.glob("*.tar.gz")
    assert sdist.name == "tl_gridsync_pass-0.1.0.tar.gz"


def test_the_wheel_fits_every_python_and_holds_everything(distributions):
    (wheel,) = distributions.glob("*.whl")
    assert wheel.name.startswith("tl_gridsync_pass-0.1.0-py3-none-linux_")
    held = set(zipfile.ZipFile(wheel).namelist())
    expected = {str(p.relative_to(ROOT)) for p in (ROOT / "tl_gridsync_pass").rglob("*") if p.suffix in (".py", ".md")}
    assert expected | {"tl_gridsync_pass/libtl_gridsync_pass_native.so"} <= held
    # At the root of site-packages, where Python looks for .pth files.
    assert {"tl_gridsync_pass.pth", "_tl_gridsync_pass_startup.py"} <= held
    assert not [name for name in held if name.startswith(("tests/", "native/"))]


def test_files_with_kernels_evaluate_their_annotations():
    """On Python 3.10 TileLang refuses the annotations of a kernel that are text: ``typing`` wants them to be types there."""
    folders = ("tl_gridsync_pass", "tests", "benchmarks", "stress")
    files = [file for folder in folders for file in (ROOT / folder).rglob("*.py")]
    with_kernels = [file for file in files if re.search(r"^\s*@T\.prim_func", file.read_text(), re.MULTILINE)]
    assert len(with_kernels) > 20
    assert not [str(file) for file in with_kernels if re.search(r"^from __future__ import annotations", file.read_text(), re.MULTILINE)]
