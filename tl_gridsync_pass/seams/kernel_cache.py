"""The kernel cache and the auto-tuner: completes pass configs before TileLang computes a key from them.

Options that are not in the pass configs are not in the key, and a kernel built without the pass would be
handed to a compilation with it. ``KernelCache.cached`` is where every path of ``tilelang.compile``,
``jit`` and ``par_compile`` ends up before the key is computed. One release has a second index on disk, from
the source of a decorated function to the key, and looks there first.
"""

from __future__ import annotations

import inspect
from typing import Any

import tilelang.cache
from tilelang.autotuner.tuner import AutoTuneImpl, AutoTuner
from tilelang.cache.kernel_cache import KernelCache
from tilelang.jit import JITImpl
from tilelang.jit.adapter.cutedsl.kernel_cache import CuTeDSLKernelCache

from .. import process
from ..errors import GridSyncTargetError, SeamError
from ..options import GridSyncOptions, mentions_pass
from ..revision import emission_revision
from ..tvm_compat import tir
from ..verify.ir_facts import contains_grid_barrier
from .attachments import Attachment, wrap_attribute
from .codegen import wrong_target
from .target import is_served
from .tilelang_compat import FUNCTION_LEVEL_CACHES, SOURCE_INDEX


def attach() -> list[Attachment]:
    """Attach to the kernel cache, the auto-tuner and the per-function caches of ``@tilelang.jit``."""
    index = [name for name in SOURCE_INDEX if hasattr(tilelang.cache, name)]
    for function in (KernelCache.cached, AutoTuner.set_compile_args, *(getattr(tilelang.cache, name) for name in index)):
        if "pass_configs" not in inspect.signature(function).parameters:
            raise SeamError(
                f"tl_gridsync: {function.__qualname__} of this TileLang takes no pass_configs, so the cache key cannot hold the options"
            )
    return [
        wrap_attribute(KernelCache, "cached", _cached),
        wrap_attribute(AutoTuner, "set_compile_args", _set_compile_args),
        wrap_attribute(JITImpl, "__call__", _call),
        wrap_attribute(AutoTuneImpl, "__call__", _call),
        *(wrap_attribute(tilelang.cache, name, _in_source_index) for name in index),
    ]


def complete(pass_configs: dict[str, Any] | None, default: GridSyncOptions | None) -> dict[str, Any] | None:
    """``pass_configs`` with every ``tl_gridsync.*`` key that is in force, or as they are where the pass is off."""
    options = GridSyncOptions.from_pass_configs(pass_configs or {}) if mentions_pass(pass_configs) else default
    return pass_configs if options is None else {**(pass_configs or {}), **options.to_pass_configs(emission_revision())}


def _cached(wrapped, instance, args, kwargs):
    bound = inspect.signature(wrapped).bind(*args, **kwargs)
    func, pass_configs = bound.arguments.get("func"), bound.arguments.get("pass_configs")
    context = bound.arguments.get("backend_context")
    target = context.target if context is not None else bound.arguments.get("target")
    cutedsl = isinstance(instance, CuTeDSLKernelCache)
    default = process.current()
    # A kernel without a barrier is left alone, so that its cached builds stay valid.
    if default is not None and not (isinstance(func, tir.PrimFunc) and contains_grid_barrier(func) and is_served(target, default)):
        default = None
    completed = complete(pass_configs, default)
    options = GridSyncOptions.from_pass_configs(completed or {})
    if options is not None and not cutedsl and not is_served(target, options):
        name = str(func.attrs["global_symbol"]) if func is not None and func.attrs else "<unknown>"
        raise GridSyncTargetError(wrong_target(name, str(getattr(getattr(target, "kind", None), "name", target))))
    return wrapped(*args, **{**kwargs, "pass_configs": completed})


def _set_compile_args(wrapped, _instance, args, kwargs):
    bound = _completed_for_the_target(wrapped, args, kwargs)
    return wrapped(*bound.args, **bound.kwargs)


def _in_source_index(wrapped, _instance, args, kwargs):
    """Look up, or note, a function's source as one that was compiled under the options in force, barrier or not."""
    bound = _completed_for_the_target(wrapped, args, kwargs)
    return wrapped(*bound.args, **bound.kwargs)


def _completed_for_the_target(function, args, kwargs) -> inspect.BoundArguments:
    """The call's arguments with completed pass configs, where no kernel is at hand to look at."""
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    default = process.current()
    if default is not None and not is_served(bound.arguments["target"], default):
        default = None
    bound.arguments["pass_configs"] = complete(bound.arguments["pass_configs"], default)
    return bound


def _call(wrapped, instance, args, kwargs):
    """Forget the kernels that a decorated function compiled under another process-wide setting."""
    now = process.current()
    if getattr(instance, "_tl_gridsync_setting", None) != now:
        for name in FUNCTION_LEVEL_CACHES:
            cache = getattr(instance, name, None)
            if cache is not None:
                cache.clear()
        instance._tl_gridsync_setting = now
    return wrapped(*args, **kwargs)
