"""What is wrong with the variable or the installation stops the program at its import of TileLang, each time."""

from __future__ import annotations

import pytest
from installation import Installation

# Imports TileLang twice, as a program does that catches the first failure and goes on.
TWICE = """
for attempt in (1, 2):
    try:
        import tilelang
    except Exception as error:
        print(f"attempt {attempt}: {type(error).__name__}: {error}")
    else:
        print(f"attempt {attempt}: imported")
"""
PLUGIN_FIRST = "try:\n    import tl_gridsync_pass\nexcept Exception:\n    pass\n" + TWICE


def assert_stops(installed: Installation, variable: str, *fragments: str, caught_in: str = TWICE, **environment: str) -> None:
    """Uncaught, the error ends the program; caught, it comes again."""
    done = installed.run("-c", "import tilelang; print('went on')", variable=variable, check=False, **environment)
    assert done.returncode != 0 and "went on" not in done.stdout
    message = done.stderr.strip().splitlines()[-1]
    assert all(fragment in message for fragment in fragments), message
    printed = installed.run("-c", caught_in, variable=variable, **environment).stdout.splitlines()
    attempts = [line for line in printed if line.startswith("attempt")]
    assert len(attempts) == 2 and all(fragment in line for line in attempts for fragment in fragments), printed


@pytest.mark.parametrize("variable", ["maybe", "state=nowhere"])
def test_value_that_is_not_understood(installed: Installation, variable):
    assert_stops(installed, variable, "GridSyncOptionError", "TL_GRIDSYNC_PASS", variable, "1/true/yes/on", "0/false/no/off", "state=")


@pytest.fixture
def unknown_tilelang(tmp_path) -> str:
    """A folder for PYTHONPATH whose metadata says that TileLang 9.9.9 is installed."""
    metadata = tmp_path / "tilelang-9.9.9.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: tilelang\nVersion: 9.9.9\n")
    return str(tmp_path)


def test_unknown_tilelang(installed: Installation, unknown_tilelang):
    assert_stops(installed, "1", "SeamError", "TileLang 9.9.9", PYTHONPATH=unknown_tilelang)


def test_unknown_tilelang_is_left_alone_where_the_pass_is_off(installed: Installation, unknown_tilelang):
    assert "attempt 1: imported" in installed.run("-c", TWICE, variable="off", PYTHONPATH=unknown_tilelang).stdout


@pytest.fixture
def without_native_library(installed: Installation):
    library = next(installed.site_packages.glob("tl_gridsync_pass/*.so"))
    library.rename(library.with_suffix(".away"))
    yield installed
    library.with_suffix(".away").rename(library)


def test_missing_native_library(without_native_library):
    assert_stops(without_native_library, "1", "SeamError", "native library", "is missing", caught_in=PLUGIN_FIRST)


@pytest.mark.parametrize(
    ("command", "variable", "known", "expected"),
    [
        ("-m", None, True, "native library"),
        ("script", "1", True, "native library"),
        ("-m", "1", False, "TileLang 9.9.9"),
        ("script", "maybe", True, "'maybe' is not understood"),
    ],
)
def test_doctor_runs_where_the_plugin_cannot_attach(without_native_library, unknown_tilelang, command, variable, known, expected):
    installed = without_native_library
    start = ["-m", "tl_gridsync_pass"] if command == "-m" else [installed.folder / "bin" / "tl-gridsync"]
    done = installed.run(*start, "doctor", variable=variable, check=False, **({} if known else {"PYTHONPATH": unknown_tilelang}))
    text = " ".join(done.stdout.split())
    assert done.returncode == 1 and "exposed" in text and expected in text, done.stdout + done.stderr


def test_importing_the_package_raises_for_everybody_else(without_native_library):
    done = without_native_library.run("-c", "import tl_gridsync_pass", check=False)
    assert done.returncode != 0 and "SeamError" in done.stderr and "native library" in done.stderr


@pytest.mark.parametrize("names", [("tl_gridsync_pass", "tilelang"), ("tilelang", "tl_gridsync_pass"), ("tilelang", "tilelang")])
def test_imports_from_two_threads(installed: Installation, names):
    """TileLang and the plugin import each other then; neither may hang or be left without the other."""
    program = f"""
import importlib, os, sys, threading
sys.setswitchinterval(1e-6)
threads = [threading.Thread(target=importlib.import_module, args=(name,), daemon=True) for name in {names}]
for thread in threads: thread.start()
for thread in threads: thread.join(90)
if any(thread.is_alive() for thread in threads):
    print("hangs", flush=True)
    os._exit(1)
import tl_gridsync_pass
print("attached:", bool(tl_gridsync_pass.attached()))
"""
    done = installed.run("-c", program, variable="1", check=False)
    assert "attached: True" in done.stdout and done.returncode == 0, done.stdout + done.stderr
    assert "Error" not in done.stderr


def test_the_module_keeps_its_own_loader(installed: Installation):
    """Tools that ask a module for its source or its files go by the loader."""
    program = """
import importlib.machinery, importlib.util, inspect
assert importlib.util.find_spec("tilelang").origin == importlib.util.find_spec("tilelang").loader.path
import tilelang
assert type(tilelang.__loader__) is type(tilelang.__spec__.loader) is importlib.machinery.SourceFileLoader
assert "def _compute_version" in inspect.getsource(tilelang)
print("fine")
"""
    assert "fine" in installed.run("-c", program, variable="1").stdout


def test_tilelang_without_a_compiler_can_be_imported(installed: Installation):
    """`python -m tilelang.autodd` imports a TileLang with nothing to attach to."""
    without = installed.run("-m", "tilelang.autodd", "--help", check=False)
    if without.returncode != 0:
        pytest.skip(f"this TileLang's tilelang.autodd does not start without the plugin either: {without.stderr.splitlines()[-1]}")
    assert "usage" in installed.run("-m", "tilelang.autodd", "--help", variable="1").stdout
