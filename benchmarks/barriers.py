"""The barriers that the benchmarks compare, each as a way to compile a TileLang function."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import tilelang
import tilelang.contrib.cutedsl as stock_device_library

import tl_gridsync_pass as gs


def _target(keys: list[str]) -> dict[str, Any]:
    import torch

    major, minor = torch.cuda.get_device_capability()
    return {"kind": "cuda", "arch": f"sm_{major}{minor}{'a' if major >= 9 else ''}", "keys": keys}


def _cutedsl(func: Any, passes: list[gs.GridSyncPass], pass_configs: Mapping[str, Any] | None) -> Any:
    target = _target(["cuda", "gpu", "cutedsl"])
    return tilelang.compile(func, target=target, execution_backend="cutedsl", passes=passes, pass_configs=dict(pass_configs or {}))


def compile_with_pass(func: Any, state: str = "launch", pass_configs: Mapping[str, Any] | None = None) -> Any:
    return _cutedsl(func, [gs.GridSyncPass(state)], pass_configs)


def compile_stock(func: Any, pass_configs: Mapping[str, Any] | None = None) -> Any:
    """TileLang's CuTeDSL backend as it is; for a kernel without a grid barrier there is no other."""
    return _cutedsl(func, [], pass_configs)


def compile_cooperative_groups(func: Any) -> Any:
    """TileLang's CUDA backend, which calls cooperative_groups::this_grid().sync()."""
    return tilelang.compile(func, target=_target(["cuda", "gpu"]), passes=[])


# The stock device library has one barrier, looked up by name while a kernel is compiled to its cubin.
_stock_barrier_lock = threading.Lock()


@contextmanager
def upstream_shape() -> Iterator[None]:
    """Cubins made inside use the stock protocol with a three-axis leader: every thread runs both fences.

    Kernels must be compiled with the kernel cache off, and to their cubins inside the block.
    """
    from upstream_shape import sync_grid

    with _stock_barrier_lock:
        stock = stock_device_library.sync_grid
        stock_device_library.sync_grid = sync_grid
        try:
            yield
        finally:
            stock_device_library.sync_grid = stock


@dataclass(frozen=True)
class Barrier:
    """A barrier under a name for tables and plots."""

    name: str
    compile: Callable[[Any], Any]


BARRIERS = (
    Barrier("pass", compile_with_pass),
    Barrier("cooperative groups", compile_cooperative_groups),
    Barrier("stock", compile_stock),
)
