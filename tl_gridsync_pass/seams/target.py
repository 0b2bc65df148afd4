"""Which code generator a compilation will use, asked before TileLang resolves it itself."""

from __future__ import annotations

from typing import Any

import tilelang

from ..options import GridSyncOptions
from ..tvm_compat import tvm
from .tilelang_compat import determine_target


def resolve(target: Any) -> tvm.target.Target:
    """The TVM target that TileLang makes of ``target``; None means TileLang's default."""
    if target is None:
        target = tilelang.env.get_default_target()
    return tvm.target.Target(determine_target(target))


def is_served(target: Any, options: GridSyncOptions) -> bool:
    """Whether kernels for ``target`` get the barrier under ``options``."""
    resolved = resolve(target)
    return "cutedsl" in resolved.keys or (options.cuda and resolved.kind.name == "cuda")


def printed_cuda_target() -> str:
    """What ``str()`` makes of a CUDA target: ``"cuda ..."`` in older TVM, JSON in newer."""
    return str(tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}))
