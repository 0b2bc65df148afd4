"""TL_GRIDSYNC_PASS in programs that never import the plugin, each a process of its own."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest
from installation import PROGRAMS, Installation, make_installation, share_packages

from tl_gridsync_pass.seams.cache_scan import scan

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(("variable", "barrier"), [(None, "stock"), ("0", "stock"), ("1", "launch"), ("state=module", "module")])
def test_script(installed: Installation, variable, barrier):
    assert installed.barriers("program.py", variable=variable) == [barrier]


@pytest.mark.parametrize(
    ("how", "count"),
    [
        (["-m", "program"], 1),
        (["-m", "torch.distributed.run", "--nproc-per-node=2", "program.py"], 2),
        (["program.py", "spawn"], 1),
        (["program.py", "fork"], 1),
        (["program.py", "threads"], 2),
        (["program.py", "par_compile"], 2),
    ],
    ids=["module", "torchrun", "spawn", "fork", "threads", "par_compile"],
)
def test_every_way_to_start(installed: Installation, how, count):
    assert installed.barriers(*how, variable="1") == ["launch"] * count


def test_pytest(installed: Installation, tmp_path):
    # In a folder of its own: the conftest.py of these tests must not have a say.
    for name in ("program.py", "check_barrier.py"):
        shutil.copy(PROGRAMS / name, tmp_path)
    assert installed.barriers("-m", "pytest", "-q", "-s", "check_barrier.py", variable="1", cwd=tmp_path) == ["launch"]


def test_autotuner(installed: Installation, tmp_path):
    cache = tmp_path / "cache"
    # The tuner writes a log into the working directory.
    installed.run(PROGRAMS / "program.py", "autotune", variable="1", cwd=tmp_path, TILELANG_CACHE_DIR=str(cache))
    contents = scan(cache)
    assert (len(contents.ours), len(contents.stock)) == (2, 0)


def test_jupyter(installed: Installation):
    jupyter_client = pytest.importorskip("jupyter_client")
    manager = jupyter_client.KernelManager()
    manager.kernel_spec
    manager._kernel_spec.argv = [str(installed.python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    env = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {"TL_GRIDSYNC_PASS": "1"}
    manager.start_kernel(env=env, cwd=str(PROGRAMS))
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=60)
        printed: list[str] = []
        client.execute_interactive(
            "import program; program.compile_one()",
            timeout=120,
            output_hook=lambda message: printed.append(str(message["content"])),
        )
        assert "barrier: launch" in "".join(printed)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_one_cache_for_all(installed: Installation, tmp_path):
    """The disk cache gives each program the barrier that it asks for, whoever filled it."""
    asked = [(None, "stock"), ("1", "launch"), (None, "stock"), ("1", "launch")]
    for variable, barrier in asked:
        assert installed.barriers("program.py", variable=variable, TILELANG_CACHE_DIR=str(tmp_path)) == [barrier]
    contents = scan(tmp_path)
    # Two of the four were loaded from the cache, so it was in use.
    assert (contents.kernels, len(contents.stock), len(contents.ours)) == (2, 1, 1)


def test_editable_install(tmp_path):
    editable = make_installation(tmp_path / "venv")
    editable.pip("install", "--no-index", "--no-deps", "--no-build-isolation", "-e", REPOSITORY)
    assert editable.barriers("program.py", variable="1") == ["launch"]


@pytest.fixture
def with_system_packages(tmp_path) -> tuple[Installation, Path]:
    """A virtual environment that includes the system's packages, and the site-packages of that system.

    The system is a folder with this Python and links to its standard library, since tests must not install into the real one.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    system = tmp_path / "system"
    site_packages = system / "lib" / version / "site-packages"
    site_packages.mkdir(parents=True)
    for entry in Path(os.__file__).parent.iterdir():
        if entry.name not in ("site-packages", "dist-packages"):
            (site_packages.parent / entry.name).symlink_to(entry)
    (system / "bin").mkdir()
    for name in (version, "python3", "python"):
        (system / "bin" / name).symlink_to(Path(sys.executable).resolve())
    share_packages(site_packages)

    made = make_installation(tmp_path / "venv")
    (made.site_packages / "zz_shared.pth").unlink()
    config = made.folder / "pyvenv.cfg"
    settings = dict(line.split(" = ", 1) for line in config.read_text().splitlines())
    settings |= {"home": str(system / "bin"), "include-system-site-packages": "true"}
    config.write_text("".join(f"{name} = {value}\n" for name, value in settings.items()))
    assert made.run("-c", "import sys; print(sys.path)").stdout.count(str(site_packages)) == 1
    return made, site_packages


def test_plugin_in_the_environment_and_the_rest_in_the_system(with_system_packages, wheel):
    environment, _ = with_system_packages
    environment.pip("install", "--no-index", "--no-deps", wheel)
    assert environment.barriers("program.py", variable="1") == ["launch"]


def test_plugin_in_the_system(with_system_packages, installed: Installation):
    environment, system = with_system_packages
    for entry in installed.site_packages.glob("*tl_gridsync_pass*"):
        (system / entry.name).symlink_to(entry)
    assert environment.barriers("program.py", variable="1") == ["launch"]


def test_uninstalling_leaves_nothing(wheel, tmp_path):
    made = make_installation(tmp_path / "venv")

    def files():
        return {path.relative_to(made.folder) for path in made.folder.rglob("*")}

    before = files()
    made.pip("install", "--no-index", "--no-deps", wheel)
    # Python writes its bytecode beside what it imports.
    made.run("-c", "import tilelang", variable="1")
    assert files() > before
    made.pip("uninstall", "-y", "tl_gridsync_pass")
    assert files() - before <= {Path(name) for name in ("lib64",)}
