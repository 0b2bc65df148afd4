"""Which code generator a compilation will use, asked before TileLang resolves it itself."""

from __future__ import annotations

from typing import Any

import tilelang

try:
    from tilelang.backend.target import determine_target
except ImportError:
    from tilelang.utils.target import determine_target

from ..tvm_compat import tvm


def resolve(target: Any) -> tvm.target.Target:
    """The TVM target that TileLang makes of ``target``; None means TileLang's default."""
    if target is None:
        target = tilelang.env.get_default_target()
    return tvm.target.Target(determine_target(target))


def is_cutedsl(target: Any) -> bool:
    """Whether kernels for ``target`` are printed by the CuTeDSL code generator."""
    return "cutedsl" in resolve(target).keys


def printed_cuda_target() -> str:
    """What ``str()`` makes of a CUDA target: ``"cuda ..."`` in older TVM, JSON in newer."""
    return str(tvm.target.Target({"kind": "cuda", "arch": "sm_90a"}))
