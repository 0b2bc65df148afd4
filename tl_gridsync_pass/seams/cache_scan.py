"""What TileLang's kernel cache on disk holds: kernels with its own barrier and kernels with the plugin's.

Every cached kernel has a folder of its own, named by its key, and in it the device source as
``device_kernel.py`` (``device_kernel.cu`` in older releases, whatever the language).
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "TILELANG_CACHE_DIR"
STOCK_CALL = "tl.sync_grid()"
OUR_CALL = "tl_gridsync."


@dataclass(frozen=True)
class CacheContents:
    """The cache's folder, how many kernels it holds, and the folders of those with a grid barrier."""

    folder: Path
    kernels: int
    stock: tuple[Path, ...]
    ours: tuple[Path, ...]


def cache_folder() -> Path:
    """Where TileLang keeps its cache, by the rule of its ``env.py``."""
    return Path(os.environ.get(FOLDER_VARIABLE) or Path("~/.tilelang/cache").expanduser())


def scan(folder: Path) -> CacheContents:
    """Read every cached kernel under ``folder``, of all TileLang releases; an absent folder holds none."""
    sources = set(folder.glob("**/device_kernel.*"))
    # TileLang 0.1.9 keeps a kernel's source inside the module that launches it, and nowhere else.
    with_source = {path.parent for path in sources}
    sources |= {path for path in folder.glob("**/kernel.py") if path.parent not in with_source}
    stock, ours = [], []
    for path in sorted(sources):
        source = path.read_text(errors="replace")
        if STOCK_CALL in source:
            stock.append(path.parent)
        elif OUR_CALL in source:
            ours.append(path.parent)
    return CacheContents(folder, len(sources), tuple(stock), tuple(ours))
