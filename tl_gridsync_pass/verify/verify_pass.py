"""The verification as a TVM pass, and as plain functions that return or raise what it finds."""

from __future__ import annotations

import logging
import warnings

import tvm_ffi

from ..errors import GridSyncDivergenceError, GridSyncOptionError, GridSyncWarning
from ..options import VERIFY_MODES
from ..tvm_compat import tir, tvm
from .diagnostics import Diagnostic, Severity
from .findings import diagnose

logger = logging.getLogger("tl_gridsync_pass")

PASS_NAME = "tl_gridsync.VerifyGridSync"


def find(mod: tvm.IRModule) -> list[Diagnostic]:
    """Every finding about the functions of ``mod`` that bind threads and hold a grid barrier."""
    found = []
    for var, func in mod.functions.items():
        if isinstance(func, tir.PrimFunc):
            found += diagnose(str(var.name_hint), func)
    return found


def verify(mod: tvm.IRModule, mode: str = "error") -> None:
    """Raise, warn of or log what :func:`find` finds.

    Errors are raised together as one exception, or warned of where ``mode`` is ``"warn"``. Warnings go
    through Python's ``warnings`` with the barrier's own file and line, so that they print where the kernel
    is written, once a place, and can be filtered or turned into errors by their category. Hints are logged.

    Parameters
    ----------
    mod : IRModule
    mode : str
        ``"error"``, ``"warn"`` or ``"off"``.

    Raises
    ------
    GridSyncDivergenceError
        With ``mode="error"``, for a barrier that depends on the thread or block index.
    GridSyncOptionError
        For another mode.
    """
    if mode not in VERIFY_MODES:
        raise GridSyncOptionError(f"tl_gridsync: verify={mode!r} is unknown. Use one of: {', '.join(map(repr, VERIFY_MODES))}.")
    if mode == "off":
        return
    found = find(mod)
    errors = [d for d in found if d.severity == Severity.ERROR and mode == "error"]
    for diagnostic in found:
        if diagnostic.severity == Severity.HINT:
            logger.info("%s", diagnostic)
        elif diagnostic not in errors:
            _warn(diagnostic)
    if errors:
        texts = "\n\n".join(map(str, errors))
        raise GridSyncDivergenceError(
            f"tl_gridsync: a grid barrier that some threads do not reach hangs the GPU or orders nothing.\n\n{texts}\n\n"
            "Where the compiler is wrong, GridSyncPass(verify='warn') lets the kernel through."
        )


def _warn(diagnostic: Diagnostic) -> None:
    place = diagnostic.location
    # The kernel's name as the module: it is part of what makes a warning one that was shown already.
    warnings.warn_explicit(
        str(diagnostic), GridSyncWarning, place.file if place else diagnostic.kernel, place.line if place else 0, module=diagnostic.kernel
    )


class VerifyGridSync(tvm.transform.ModulePass):
    """A TVM module pass that checks every ``T.sync_grid()`` and hands the module on as it is.

    Run it alone or in ``tvm.transform.Sequential``, on functions whose threads are bound. GridSyncPass runs
    the same check before it lowers, so a compilation with that pass needs no other.

    Parameters
    ----------
    mode : str
        ``"error"`` (default), ``"warn"`` or ``"off"``, see :func:`verify`.

    Raises
    ------
    GridSyncOptionError
        For another mode.
    GridSyncDivergenceError
        When run, with ``mode="error"``, on a module with a barrier that not all threads reach equally often.
    """

    def __init__(self, mode: str = "error") -> None:
        if mode not in VERIFY_MODES:
            verify(tvm.IRModule({}), mode)

        def run(mod: tvm.IRModule, _context: object) -> tvm.IRModule:
            verify(mod, mode)
            return mod

        info = tvm.transform.PassInfo(opt_level=0, name=PASS_NAME, required=[])
        self.__init_handle_by_constructor__(tvm_ffi.get_global_func("transform.MakeModulePass"), run, info)


def _make_pass(mode: str = "error") -> VerifyGridSync:
    return VerifyGridSync(mode)


tvm_ffi.register_global_func(PASS_NAME, _make_pass, override=True)
