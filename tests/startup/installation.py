"""Virtual environments that use the packages of this one, and a way to run programs in them.

An environment shares the packages of the one that runs the tests through a ``.pth`` file. That file sorts after
``tl_gridsync_pass.pth``, so that the plugin's dependencies come onto the path only after its own line has run, as the
system's packages do in a virtual environment that includes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

PROGRAMS = Path(__file__).with_name("programs")
VARIABLE = "TL_GRIDSYNC_PASS"
TIMEOUT_S = 240


@dataclass(frozen=True)
class Installation:
    """A virtual environment."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @property
    def site_packages(self) -> Path:
        return next(self.folder.glob("lib/python*/site-packages"))

    def pip(self, *arguments: str | Path) -> None:
        command = [sys.executable, "-m", "pip", "--python", str(self.python), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
        assert done.returncode == 0, done.stdout + done.stderr

    def run(
        self, *arguments: str | Path, variable: str | None = None, check: bool = True, cwd: Path = PROGRAMS, **environment: str
    ) -> subprocess.CompletedProcess[str]:
        """``python`` with ``arguments``, and TL_GRIDSYNC_PASS set to ``variable`` or not set."""
        env = {name: value for name, value in os.environ.items() if name not in (VARIABLE, "PYTHONPATH")} | environment
        if variable is not None:
            env[VARIABLE] = variable
        command = [str(self.python), *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, cwd=cwd, env=env)
        assert not check or done.returncode == 0, done.stdout + done.stderr
        return done

    def barriers(self, *arguments: str | Path, variable: str | None = None, cwd: Path = PROGRAMS, **environment: str) -> list[str]:
        """The barriers that a program printed, see programs/program.py."""
        lines = self.run(*arguments, variable=variable, cwd=cwd, **environment).stdout.splitlines()
        return [line.partition("barrier: ")[2] for line in lines if "barrier: " in line]


def make_installation(folder: Path) -> Installation:
    """A fresh virtual environment without the plugin that sees the packages of this one."""
    venv.create(folder, with_pip=False)
    made = Installation(folder)
    share_packages(made.site_packages)
    return made


def share_packages(site_packages: Path) -> None:
    """Let Python find the packages of this environment from ``site_packages``, but not its ``.pth`` files and not the plugin.

    By links, since the plugin may stand among those packages.
    """
    lines = []
    for number, folder in enumerate(Path(entry) for entry in sys.path if Path(entry).name in ("site-packages", "dist-packages")):
        links = site_packages.parent / f"shared{number}"
        links.mkdir()
        for package in folder.iterdir():
            if "tl_gridsync_pass" not in package.name:
                (links / package.name).symlink_to(package)
        # CuTe DSL has its modules in a folder that it adds by a .pth file, as code or relative to that file.
        added = [
            line if line.startswith("import ") else links / line
            for file in folder.glob("*cutlass*.pth")
            for line in file.read_text().splitlines()
        ]
        lines += map(str, [links, *added])
    (site_packages / "zz_shared.pth").write_text("\n".join(lines) + "\n")
