"""What `doctor` says: the state of TileLang, the plugin and the environment, and whether a user is exposed.

Everything is gathered without the plugin having to be attached, because a plugin that could not attach is
one of the things to report.
"""

from __future__ import annotations

import os
import platform
import shutil
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import tl_gridsync_pass

from . import environment
from .errors import GridSyncOptionError
from .options import GridSyncOptions
from .seams.cache_scan import CacheContents, cache_folder, scan
from .seams.stock_helper import Fault, read_faults

PACKAGES = ("tl_gridsync_pass", "tilelang", "apache-tvm-ffi", "nvidia-cutlass-dsl", "torch")
STARTUP_MODULE = "_tl_gridsync_pass_startup"
STARTUP_FILE = "tl_gridsync_pass.pth"


@dataclass(frozen=True)
class Gpu:
    """One GPU as the driver names it."""

    name: str
    compute_capability: str


@dataclass(frozen=True)
class Environment:
    """What ``TL_GRIDSYNC_PASS`` holds, what it asks for, and whether programs get to see it.

    Attributes
    ----------
    value : str | None
        The variable's text, None where it is not set.
    asks_for : GridSyncOptions | None
        The options it asks for; None where it asks for nothing or cannot be understood.
    error : str | None
        Why it cannot be understood.
    startup_file : Path | None
        The ``.pth`` file that makes it work in programs that never import the plugin; None where Python
        does not process one.
    """

    value: str | None
    asks_for: GridSyncOptions | None
    error: str | None
    startup_file: Path | None


@dataclass(frozen=True)
class Verdict:
    """``status`` is "in force", "not needed" or "exposed"; ``reasons`` says why and what to do."""

    status: str
    reasons: tuple[str, ...]

    @property
    def exposed(self) -> bool:
        return self.status == "exposed"


@dataclass(frozen=True)
class Diagnosis:
    """All that `doctor` reports. ``versions`` has None for what is not installed."""

    versions: dict[str, str | None]
    driver: str | None
    gpus: tuple[Gpu, ...]
    tilelang_folder: Path | None
    faults: tuple[Fault, ...]
    attach_error: str | None
    attached: tuple[str, ...]
    environment: Environment
    cache: CacheContents
    verdict: Verdict


def diagnose() -> Diagnosis:
    """Gather everything; reads files and asks the driver, changes nothing."""
    folder = _tilelang_folder()
    error = tl_gridsync_pass.attach_error
    attach_error = None if error is None else f"{type(error).__name__}: {error}"
    faults = read_faults(folder, _printed_target()) if folder else ()
    asked = _environment()
    driver, gpus = _driver_and_gpus()
    return Diagnosis(
        versions={"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        driver=driver,
        gpus=gpus,
        tilelang_folder=folder,
        faults=faults,
        attach_error=attach_error,
        attached=() if error else tuple(tl_gridsync_pass.attached()),
        environment=asked,
        cache=scan(cache_folder()),
        verdict=judge(folder is not None, faults, attach_error, asked),
    )


def judge(has_tilelang: bool, faults: tuple[Fault, ...], attach_error: str | None, asked: Environment) -> Verdict:
    """Whether a program started in this environment, which does not mention the plugin, gets the broken barrier.

    A fault that the source does not tell about counts as there.
    """
    if not has_tilelang:
        return Verdict("not needed", ("TileLang is not installed, so there is no barrier to mend.",))
    wrong = [fault.name for fault in faults if fault.in_barrier and fault.affected is not False]
    if not wrong:
        return Verdict("not needed", ("This TileLang's own barrier has none of the known faults, or there is none for CuTeDSL kernels.",))
    if attach_error is not None:
        return Verdict("exposed", (f"The plugin cannot attach to this TileLang. {attach_error}",))
    if asked.error is not None:
        return Verdict("exposed", (f"Programs stop when they import TileLang. {asked.error}",))
    if asked.asks_for is None:
        variable = environment.VARIABLE
        return Verdict(
            "exposed",
            (
                f"Nothing in the environment asks for the pass, so kernels get it only from programs that ask themselves. "
                f"Set {variable}=1, or use passes=[GridSyncPass()] or tl_gridsync_pass.enable() in the program.",
            ),
        )
    if asked.startup_file is None:
        return Verdict(
            "exposed",
            (
                f"{environment.VARIABLE} is set, but Python did not process {STARTUP_FILE}, so only programs that import tl_gridsync_pass "
                "heed it. Install the package with pip into this Python's own site-packages, and do not run Python with -S.",
            ),
        )
    if asked.asks_for.state == "module" and {"streams", "graphs"} & set(wrong):
        return Verdict(
            "exposed",
            ("state=module keeps the counter in global variables, so launches that overlap still go wrong. Use state=launch.",),
        )
    return Verdict("in force", (f"Every CuTeDSL kernel that programs compile here gets the pass: {asked.asks_for}.",))


def _tilelang_folder() -> Path | None:
    spec = find_spec("tilelang")
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _printed_target() -> str | None:
    try:
        from .seams.target import printed_cuda_target

        return printed_cuda_target()
    except Exception:
        # A TileLang that cannot be imported, for whatever reason; the attach error tells it.
        return None


def _environment() -> Environment:
    value = os.environ.get(environment.VARIABLE)
    asks_for, error = None, None
    try:
        asks_for = environment.requested()
    except GridSyncOptionError as refusal:
        error = str(refusal)
    return Environment(value, asks_for, error, _startup_file(bool(value)))


def _startup_file(variable_set: bool) -> Path | None:
    """The ``.pth`` file, if Python processes it: with the variable set, it has then loaded the startup module."""
    if variable_set:
        module = sys.modules.get(STARTUP_MODULE)
        found = Path(module.__file__).with_name(STARTUP_FILE) if module is not None and module.__file__ else None
        return found if found is not None and found.is_file() else None
    if sys.flags.no_site:
        return None
    folders = [sysconfig.get_path("platlib"), *site.getsitepackages(), *([site.getusersitepackages()] if site.ENABLE_USER_SITE else [])]
    return next((Path(folder) / STARTUP_FILE for folder in folders if (Path(folder) / STARTUP_FILE).is_file()), None)


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _driver_and_gpus() -> tuple[str | None, tuple[Gpu, ...]]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return None, ()
    query = [tool, "--query-gpu=driver_version,name,compute_cap", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None, ()
    if done.returncode != 0:
        return None, ()
    rows = [[field.strip() for field in line.split(",")] for line in done.stdout.splitlines() if line.strip()]
    return (rows[0][0] if rows else None), tuple(Gpu(row[1], row[2]) for row in rows if len(row) == 3)
