"""Replacing an attribute or an FFI global function of somebody else, and putting the very object back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm_ffi
import wrapt

_ABSENT = object()


@dataclass(frozen=True)
class Attachment:
    """One replaced object: where it was, whether the replacement is still there, and how to put it back."""

    place: str
    is_ours: Callable[[], bool]
    restore: Callable[[], None]


def wrap_attribute(owner: Any, name: str, wrapper: Callable[..., Any]) -> Attachment:
    """Wrap the function ``owner.name``; ``wrapper`` has wrapt's signature (wrapped, instance, args, kwargs)."""
    place = f"{getattr(owner, '__module__', None) or owner.__name__}.{getattr(owner, '__qualname__', '')}".rstrip(".") + f".{name}"
    own = vars(owner).get(name, _ABSENT)
    replacement = wrapt.FunctionWrapper(getattr(owner, name) if own is _ABSENT else own, wrapper)
    setattr(owner, name, replacement)

    def restore() -> None:
        if own is _ABSENT:
            delattr(owner, name)
        else:
            setattr(owner, name, own)

    return Attachment(place, lambda: vars(owner).get(name) is replacement, restore)


def override_global_func(name: str, make: Callable[[tvm_ffi.Function], Callable[..., Any]]) -> Attachment:
    """Replace the FFI global function ``name`` by ``make(original)``."""
    original = tvm_ffi.get_global_func(name)
    tvm_ffi.register_global_func(name, make(original), override=True)
    replacement = tvm_ffi.get_global_func(name)
    return Attachment(
        name,
        lambda: tvm_ffi.get_global_func(name).same_as(replacement),
        lambda: tvm_ffi.register_global_func(name, original, override=True),
    )
