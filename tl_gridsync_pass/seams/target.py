"""Targets: those that the package compiles for itself, and which code generator a compilation will use.

They are Target objects throughout: TileLang 0.1.9 refuses a dictionary.
"""

from __future__ import annotations

from typing import Any

import tilelang
import torch

from ..options import GridSyncOptions
from ..tvm_compat import tvm
from .tilelang_compat import determine_target


def cutedsl_target(arch: str | None = None) -> tvm.target.Target:
    """The CuTeDSL target of the GPU architecture ``arch``, for example ``"sm_90a"``; None means the current device's."""
    return _target(arch, ["cuda", "gpu", "cutedsl"])


def cuda_target(arch: str | None = None) -> tvm.target.Target:
    """The same for TileLang's CUDA backend."""
    return _target(arch, ["cuda", "gpu"])


def _target(arch: str | None, keys: list[str]) -> tvm.target.Target:
    if arch is None:
        major, minor = torch.cuda.get_device_capability()
        arch = f"sm_{major}{minor}{'a' if major >= 9 else ''}"
    return tvm.target.Target({"kind": "cuda", "arch": arch, "keys": keys})


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
    return str(cuda_target("sm_90a"))
