"""Skips GPU tests where there is no GPU, and gives every test a kernel cache of its own."""

from __future__ import annotations

import os
import tempfile

# Before TileLang is imported: it reads its cache folder once.
os.environ.setdefault("TILELANG_CACHE_DIR", tempfile.mkdtemp(prefix="tl_gridsync_test_cache_"))

import pytest
import torch

from tl_gridsync_pass.seams import offline


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
