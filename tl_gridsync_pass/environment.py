"""The environment variable ``TL_GRIDSYNC_PASS``: what it asks for.

It holds for kernels that nothing in the program has decided about. How it takes effect in a program that
never imports this package is the business of ``startup/``.
"""

from __future__ import annotations

import os
from dataclasses import Field, fields
from functools import lru_cache

from .errors import GridSyncOptionError
from .options import GridSyncOptions

VARIABLE = "TL_GRIDSYNC_PASS"
ON = ("1", "true", "yes", "on")
OFF = ("0", "false", "no", "off")

_FLAGS = {**dict.fromkeys(ON, True), **dict.fromkeys(OFF, False)}


def requested() -> GridSyncOptions | None:
    """The options that the environment asks for now; None where it is not set, empty, or switches the pass off.

    Raises
    ------
    GridSyncOptionError
        For a value that :func:`parse` refuses.
    """
    return parse(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=8)
def parse(value: str) -> GridSyncOptions | None:
    """The options that ``value`` means: a word of ``ON`` or ``OFF`` in any case, or ``option=value,...``.

    Raises
    ------
    GridSyncOptionError
        For anything else; the message names the variable and what is allowed.
    """
    word = value.strip().lower()
    if not word or word in OFF:
        return None
    if word in ON:
        return GridSyncOptions()
    known = {f.name: f for f in fields(GridSyncOptions)}
    given: dict[str, str | int | bool] = {}
    for item in value.split(","):
        name, equals, text = (part.strip() for part in item.partition("="))
        if not equals or name not in known:
            raise _refusal(value, f"{item.strip()!r} is neither a switch nor a known option with a value")
        if name in given:
            raise _refusal(value, f"{name} is given twice")
        given[name] = _typed(value, known[name], text)
    try:
        return GridSyncOptions(**given)  # type: ignore[arg-type]
    except GridSyncOptionError as error:
        raise _refusal(value, str(error).removeprefix("tl_gridsync: ").rstrip(".")) from error


def _typed(value: str, option: Field, text: str) -> str | int | bool:
    # The annotations of options.py are strings, since it postpones their evaluation.
    kind = str(option.type)
    if kind == "str":
        return text
    if kind == "bool" and text.lower() in _FLAGS:
        return _FLAGS[text.lower()]
    if kind == "int":
        try:
            return int(text)
        except ValueError:
            pass
    raise _refusal(value, f"{option.name} takes a {kind}, not {text!r}")


def _refusal(value: str, reason: str) -> GridSyncOptionError:
    options = ", ".join(f"{f.name}=<{f.type}>" for f in fields(GridSyncOptions))
    return GridSyncOptionError(
        f"tl_gridsync: the environment variable {VARIABLE}={value!r} is not understood: {reason}. Allowed: {'/'.join(ON)}, "
        f"{'/'.join(OFF)}, or options separated by commas ({options}), for example {VARIABLE}=state=module,timeout_ms=500."
    )
