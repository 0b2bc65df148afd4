"""Skips GPU tests where there is no GPU, gives the tests a kernel cache of their own, and compiles kernels once."""

from __future__ import annotations

import os
import tempfile

# Before TileLang is imported: it reads its cache folder once.
os.environ.setdefault("TILELANG_CACHE_DIR", tempfile.mkdtemp(prefix="tl_gridsync_test_cache_"))

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest
import tilelang
import torch
from kernels import CUTEDSL

import tl_gridsync_pass as gs
from tl_gridsync_pass import environment, process, sass
from tl_gridsync_pass.seams import offline
from tl_gridsync_pass.seams.tilelang_compat import device_source_of


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    if torch.cuda.is_available():
        return
    skip = pytest.mark.skip(reason="needs an NVIDIA GPU, and torch.cuda.is_available() is False")
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(skip)


@pytest.fixture(scope="session", autouse=True)
def linkable_driver():
    with offline.linkable_driver():
        yield


@pytest.fixture(autouse=True)
def nothing_asks_for_the_pass(monkeypatch):
    """No test may leave the pass on for the process, and none sees the variable of whoever runs it."""
    monkeypatch.delenv(environment.VARIABLE, raising=False)
    process.reset()
    yield
    process.reset()


@dataclass(frozen=True)
class Compiled:
    """A kernel function compiled to its cubin: the CuTeDSL source, the PTX, and the SASS facts of each kernel."""

    source: str
    ptx: str
    kernels: tuple[sass.KernelSass, ...]

    @property
    def barriers(self) -> tuple[sass.GridBarrier, ...]:
        return tuple(barrier for kernel in self.kernels for barrier in kernel.barriers)


@pytest.fixture(scope="session")
def compiled(linkable_driver) -> Callable[..., Compiled]:
    """``compiled(make, *args, state="launch", **options)``: compiles ``make(*args)`` once a session; ``state=None`` is stock."""

    @cache
    def compile_once(make: Callable[..., Any], *args: Any, state: str | None = "launch", **options: Any) -> Compiled:
        passes = [] if state is None else [gs.GridSyncPass(state=state, **options)]
        kernel = tilelang.compile(make(*args), target=CUTEDSL, execution_backend="cutedsl", passes=passes)
        code = offline.device_code_of(kernel)
        return Compiled(device_source_of(kernel), code.ptx, sass.kernels_in(code.cubin))

    return compile_once
