"""Check that a wheel holds what it should and nothing else: ``python tools/check_wheel.py FILE.whl``."""

from __future__ import annotations

import re
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIBRARY = "tl_gridsync_pass/libtl_gridsync_pass_native.so"
METADATA_KEYS = ("Summary", "Requires-Python", "License-Expression", "Classifier", "Keywords", "Description-Content-Type")


def problems(wheel: Path) -> list[str]:
    """What is wrong with the wheel, one sentence each; empty where nothing is."""
    found = []
    if not re.fullmatch(r"tl_gridsync_pass-[\d.]+-py3-none-manylinux_2_\d+_(x86_64|aarch64)\.whl", wheel.name):
        found.append(f"{wheel.name}: not a py3-none-manylinux wheel")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
        (metadata,) = [name for name in names if name.endswith(".dist-info/METADATA")]
        info = Parser().parsestr(archive.read(metadata).decode())
    installed = {name for name in names if ".dist-info/" not in name}
    package = ROOT / "tl_gridsync_pass"
    source = {p.relative_to(ROOT).as_posix() for p in package.rglob("*") if p.suffix in (".py", ".typed", ".md", ".h")}
    # What Python has to find in the root of site-packages.
    at_root = {p.name for p in (ROOT / "startup").iterdir() if p.suffix in (".py", ".pth")}
    found += [f"missing from the wheel: {name}" for name in sorted((source | at_root | {LIBRARY}) - installed)]
    found += [f"should not be in the wheel: {name}" for name in sorted(installed - source - at_root - {LIBRARY})]
    found += [f"the metadata lack {key}" for key in METADATA_KEYS if not info.get_all(key)]
    return found


if __name__ == "__main__":
    complaints = problems(Path(sys.argv[1]))
    print("\n".join(complaints) or f"{sys.argv[1]}: as it should be")
    sys.exit(bool(complaints))
