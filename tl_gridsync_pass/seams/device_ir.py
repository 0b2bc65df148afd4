"""The device module that TileLang makes of a kernel, as it is just before it is printed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import tilelang

from ..errors import SeamError
from ..tvm_compat import tir, tvm
from .codegen import captured_modules
from .target import resolve


def device_module(func: tir.PrimFunc, target: Any, pass_configs: Mapping[str, Any] | None = None) -> tvm.IRModule:
    """Lower ``func`` and return its device functions; nothing is compiled.

    Parameters
    ----------
    func : tir.PrimFunc
        A kernel as TileLang's frontend makes it.
    target : Any
        A target whose code generator is CuTeDSL's, in any form that TileLang takes.
    pass_configs : Mapping or None
        TileLang's own pass configs for the kernel.

    Raises
    ------
    SeamError
        Where no CuTeDSL code generator was reached. Errors of TileLang's lowering pass through.
    """
    resolved = resolve(target)
    with captured_modules() as modules:
        try:
            with tvm.transform.PassContext(config=dict(pass_configs or {})), resolved:
                tilelang.lower(func, target=resolved)
        except Exception:
            # The verification wants the module, whether or not the code generator can print it.
            if not modules:
                raise
    if not modules:
        raise SeamError(f"tl_gridsync: lowering for target {target} did not reach a CuTeDSL code generator")
    return modules[0]
