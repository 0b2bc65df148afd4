"""``passes=`` on TileLang's entry points, which have no such argument of their own.

The wrappers turn the argument into pass configs and touch nothing else, so that the cache key, the
auto-tuner and parallel compilation need to know nothing of it.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

import tilelang

from ..errors import GridSyncOptionError, GridSyncTargetError, SeamError
from ..lowering import GridSyncPass
from ..options import ENABLE_KEY, PREFIX, GridSyncOptions
from ..revision import emission_revision
from ..tvm_compat import tvm
from .attachments import Attachment, wrap_attribute
from .codegen import wrong_target
from .target import is_served, resolve


def attach() -> list[Attachment]:
    """Attach to compile, par_compile, jit and lower, in the module that defines them and in ``tilelang``."""
    jit_module = sys.modules["tilelang.jit"]
    lower_module = sys.modules["tilelang.engine.lower"]
    engine_module = sys.modules["tilelang.engine"]
    for name in ("compile", "par_compile", "jit"):
        if "pass_configs" not in inspect.signature(getattr(jit_module, name)).parameters:
            raise SeamError(f"tl_gridsync: tilelang.{name} of this TileLang takes no pass_configs, so passes= cannot be handed on")
    attachments = [wrap_attribute(jit_module, name, _with_passes) for name in ("compile", "par_compile", "jit")]
    attachments += [wrap_attribute(tilelang, name, _with_passes) for name in ("compile", "par_compile", "jit")]
    attachments += [wrap_attribute(module, "lower", _lower) for module in (lower_module, engine_module, tilelang)]
    return attachments


def _with_passes(wrapped, _instance, args, kwargs):
    if "passes" not in kwargs:
        return wrapped(*args, **kwargs)
    passes = kwargs.pop("passes")
    if passes is None:
        return wrapped(*args, **kwargs)
    signature = inspect.signature(wrapped)
    bound = signature.bind(*args, **kwargs)
    name = f"tilelang.{wrapped.__name__}"
    bound.arguments["pass_configs"] = fold(passes, bound.arguments.get("pass_configs"), name)
    return wrapped(*bound.args, **bound.kwargs)


def _lower(wrapped, _instance, args, kwargs):
    passes = kwargs.pop("passes", None)
    if passes is None:
        return wrapped(*args, **kwargs)
    bound = inspect.signature(wrapped).bind(*args, **kwargs)
    bound.apply_defaults()
    context = tvm.transform.PassContext.current()
    configs = fold(passes, dict(context.config), "tilelang.lower")
    target = resolve(bound.arguments["target"])
    options = GridSyncOptions.from_pass_configs(configs)
    if options is not None and not is_served(target, options):
        raise GridSyncTargetError(wrong_target(_kernel_names(bound.arguments["func_or_mod"]), target.kind.name))
    with tvm.transform.PassContext(
        opt_level=context.opt_level,
        required_pass=list(context.required_pass),
        disabled_pass=list(context.disabled_pass),
        instruments=list(context.instruments or []),
        config=configs,
    ):
        return wrapped(*args, **kwargs)


def fold(passes: Iterable[Any], pass_configs: dict[str, Any] | None, caller: str) -> dict[str, Any]:
    """The pass configs that say the same as ``passes``, on top of ``pass_configs``.

    An empty ``passes`` switches the pass off.

    Raises
    ------
    GridSyncOptionError
        For an entry that is not a GridSyncPass, or two that differ.
    """
    entries = list(passes) if isinstance(passes, Iterable) else [passes]
    for entry in entries:
        if not isinstance(entry, GridSyncPass):
            hint = f" Did you mean {entry.__name__}()?" if entry is GridSyncPass else ""
            raise GridSyncOptionError(
                f"tl_gridsync: {caller}(passes=...) got {entry!r}, which is not a pass of this plugin.{hint} "
                "It takes tl_gridsync_pass.GridSyncPass objects; run other TVM passes on the module yourself."
            )
    if len(set(entries)) > 1:
        raise GridSyncOptionError(f"tl_gridsync: {caller}(passes=...) got passes that contradict each other: {entries}. Give one.")
    others = {k: v for k, v in (pass_configs or {}).items() if not str(k).startswith(PREFIX)}
    ours = entries[0].options.to_pass_configs(emission_revision()) if entries else {ENABLE_KEY: False}
    return {**others, **ours}


def _kernel_names(func_or_mod: Any) -> str:
    if isinstance(func_or_mod, tvm.IRModule):
        return ", ".join(sorted(var.name_hint for var in func_or_mod.functions))
    return str(func_or_mod.attrs["global_symbol"]) if func_or_mod.attrs else "<unknown>"
