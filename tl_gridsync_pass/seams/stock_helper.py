"""Which faults TileLang's own grid barrier and its launchers have, read from the source files installed.

Nothing of TileLang is imported, so this also answers for a release that the plugin does not know. The
faults were each reproduced on an H200 (TileLang 0.1.15); what is looked for is the code that causes them.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass
from pathlib import Path

HELPER = Path("contrib/cutedsl/grid_sync.py")
WRAPPER = Path("jit/adapter/cutedsl/wrapper.py")
ADAPTER = Path("jit/adapter/cutedsl/adapter.py")

_AXES = ("x", "y", "z")


@dataclass(frozen=True)
class Fault:
    """One way in which this TileLang's own barrier, or a launch with it, goes wrong.

    Attributes
    ----------
    name : str
        A short name, stable across versions.
    effect : str
        What a user sees where it strikes.
    affected : bool | None
        Whether this TileLang has it; None where its source is of a shape that does not tell.
    evidence : str
        What in the source says so.
    in_barrier : bool
        True for a fault of the barrier, False for one of the launch around it.
    """

    name: str
    effect: str
    affected: bool | None
    evidence: str
    in_barrier: bool


def read_faults(tilelang: Path, target_text: str | None) -> tuple[Fault, ...]:
    """The faults of the TileLang in the folder ``tilelang``; none where it has no CuTeDSL grid barrier.

    Parameters
    ----------
    tilelang : Path
        The folder of the package ``tilelang``.
    target_text : str | None
        What ``str()`` makes of a CUDA target in this TileLang, None where that cannot be asked.
    """
    helper = tilelang / HELPER
    if not helper.is_file():
        return ()
    source = helper.read_text()
    wrapper = _text(tilelang / WRAPPER)
    return (
        *barrier_faults(source),
        _second_launcher(wrapper),
        _current_stream(_text(tilelang / ADAPTER), target_text),
        _residency_error(wrapper),
    )


def barrier_faults(source: str) -> tuple[Fault, ...]:
    """The faults of the barrier itself, from the ``source`` of the helper."""
    tree = ast.parse(source)
    ptx = _without_comments("\n".join(_assembly(tree)))
    module_state = any(isinstance(node, ast.Call) and _called(node) == "GlobalOp" for node in ast.walk(tree))
    shared = "counter in global variables of the CUDA module" if module_state else "no global variable of the CUDA module"
    return (
        _leader(ptx),
        _reuse(ptx),
        Fault("streams", "wrong results when launches of one kernel overlap on two streams", module_state, shared, True),
        Fault("graphs", "wrong results in parallel branches of a CUDA graph", module_state, shared, True),
    )


def _leader(ptx: str) -> Fault:
    effect = "the barrier opens early in blocks that are not one-dimensional"
    tested = [axis for axis in _AXES if f"%tid.{axis}" in ptx]
    if not tested:
        return Fault("leader", effect, None, "no test of %tid found in its PTX", True)
    evidence = "leader chosen by " + ", ".join(f"%tid.{axis}" for axis in tested)
    return Fault("leader", effect, tested != list(_AXES), evidence, True)


def _reuse(ptx: str) -> Fault:
    """Without a generation, the word that is polled is the very one that is reset for the next round."""
    effect = "hangs, or opens early, when a kernel has the barrier more than once"
    added, polled, stored = (set(re.findall(rf"\b{op}\.[^;\[]*\[(\$\d+)\]", ptx)) for op in ("(?:atom|red)", "ld", "st"))
    if not added or not polled:
        return Fault("reuse", effect, None, "no atomic arrival and poll found in its PTX", True)
    affected = bool(added & polled & stored)
    evidence = "polls the counter that it resets" if affected else "polls a generation, not the counter that it resets"
    return Fault("reuse", effect, affected, evidence, True)


def _second_launcher(wrapper: str | None) -> Fault:
    name, effect = "cutlass-launcher", "TILELANG_CUTEDSL_HOST_LAUNCHER=cutlass hangs where the grid cannot be resident"
    if wrapper is None:
        return Fault(name, effect, None, f"no file {WRAPPER}", False)
    if "TILELANG_CUTEDSL_HOST_LAUNCHER" not in wrapper:
        return Fault(name, effect, False, "has no such launcher", False)
    launches = re.findall(r"\.launch\((.*?)^\s*\)", wrapper, re.DOTALL | re.MULTILINE)
    if not launches:
        return Fault(name, effect, None, f"no .launch(...) template in {WRAPPER}", False)
    affected = any("cooperative" not in arguments for arguments in launches)
    return Fault(name, effect, affected, f"its .launch(...) is {'not ' if affected else ''}cooperative", False)


def _current_stream(adapter: str | None, target_text: str | None) -> Fault:
    name, effect = "current-stream", "kernels run on stream 0 and not on torch's current stream; a captured CUDA graph is empty"
    if adapter is None:
        return Fault(name, effect, None, f"no file {ADAPTER}", False)
    if not re.search(r"str\(self\.target\)\.startswith\(.cuda.\)", adapter):
        if "current_stream" in adapter:
            return Fault(name, effect, None, "asks for the current stream in another way", False)
        return Fault(name, effect, True, "never asks for the current stream", False)
    if target_text is None:
        return Fault(name, effect, None, "asks for it where str(target) starts with 'cuda'; how targets print is unknown", False)
    prefix = target_text[:8] + ("..." if len(target_text) > 8 else "")
    evidence = f"asks for it where str(target) starts with 'cuda'; here it prints as {prefix}"
    return Fault(name, effect, not target_text.startswith("cuda"), evidence, False)


def _residency_error(wrapper: str | None) -> Fault:
    name, effect = "residency-error", "a grid too large to be resident fails with 'CUDA error 720' and no word of what would fit"
    if wrapper is None:
        return Fault(name, effect, None, f"no file {WRAPPER}", False)
    if "Kernel launch failed with CUDA error" not in wrapper:
        return Fault(name, effect, None, "reports launch errors in another way", False)
    asks = "MaxActiveBlocksPerMultiprocessor" in wrapper
    return Fault(name, effect, not asks, f"its launcher {'asks' if asks else 'does not ask'} for the occupancy", False)


def _text(path: Path) -> str | None:
    return path.read_text() if path.is_file() else None


def _called(node: ast.Call) -> str:
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def _assembly(tree: ast.Module) -> list[str]:
    """The string constants that are handed to ``inline_asm``, so that docstrings and comments have no say."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _called(node) == "inline_asm"]
    constants = [node for call in calls for node in ast.walk(call) if isinstance(node, ast.Constant)]
    return [node.value for node in constants if isinstance(node.value, str)]


def _without_comments(ptx: str) -> str:
    return re.sub(r"//.*|/\*.*?\*/", "", ptx)
