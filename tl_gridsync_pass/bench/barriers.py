"""The barriers that are compared, each as a way to compile a TileLang function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import tilelang

from ..lowering import GridSyncPass
from ..seams.target import cuda_target, cutedsl_target


def _cutedsl(func: Any, passes: list[GridSyncPass], pass_configs: Mapping[str, Any] | None) -> Any:
    configs = dict(pass_configs or {})
    return tilelang.compile(func, target=cutedsl_target(), execution_backend="cutedsl", passes=passes, pass_configs=configs)


def compile_with_pass(func: Any, state: str = "launch", pass_configs: Mapping[str, Any] | None = None, timeout_ms: int = 0) -> Any:
    return _cutedsl(func, [GridSyncPass(state, timeout_ms=timeout_ms)], pass_configs)


def compile_stock(func: Any, pass_configs: Mapping[str, Any] | None = None) -> Any:
    """TileLang's CuTeDSL backend as it is; for a kernel without a grid barrier there is no other."""
    return _cutedsl(func, [], pass_configs)


def compile_cooperative_groups(func: Any) -> Any:
    """TileLang's CUDA backend, which calls cooperative_groups::this_grid().sync()."""
    return tilelang.compile(func, target=cuda_target(), passes=[])


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
