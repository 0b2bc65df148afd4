"""The lowering pass: every ``T.sync_grid()`` of a device function becomes a leader-guarded barrier.

``Evaluate(tl.sync_grid())`` turns into::

    tvm_storage_sync("shared")
    if threadIdx.x == 0 and threadIdx.y == 0 and threadIdx.z == 0:
        call_extern("tl_gridsync::arrive_and_wait", state, blocks)
    tvm_storage_sync("shared")

with one comparison for each thread axis whose extent is not known to be 1. ``blocks`` is the size of the
grid where it is known at compile time, else 0. The CuTeDSL code generator prints the call as
``tl_gridsync.arrive_and_wait(state, blocks)``. In a kernel that copies in bulk (TMA) there is a call by
every thread before and after, because bulk copies need an ordering of their own. The two phases of a split
barrier (:mod:`.split_phase`) become ``arrive`` and ``wait`` under the same guard, with one of the two block
barriers each.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from math import prod

import tvm_ffi

from .cuda_source import ARRIVE_AND_WAIT, BEGIN
from .errors import GridSyncLoweringError
from .options import GridSyncOptions
from .split_phase import ARRIVE, WAIT, phase_of, require_paired_phases
from .tvm_compat import TIR_NAMESPACE, tir, tir_op, tvm
from .verify import verify as verify_barriers
from .verify.ir_facts import contains_grid_barrier, is_grid_barrier
from .warp_specialized import rejoin

logger = logging.getLogger("tl_gridsync_pass")

PASS_NAME = "tl_gridsync.LowerGridSync"
DEVICE_MODULE = "tl_gridsync"
# How a kernel with a barrier calls the device functions, as it stands in generated CuTeDSL source.
BARRIER_CALLS = tuple(f"{DEVICE_MODULE}.{function}(" for function in ("arrive_and_wait", ARRIVE, WAIT))

_THREAD_AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_BLOCK_AXES = ("blockIdx.x", "blockIdx.y", "blockIdx.z")


class GridSyncPass(tvm.transform.ModulePass):
    """A TVM module pass that lowers ``T.sync_grid()`` to a barrier that is right for every block shape.

    Before that it checks that every thread of every block reaches each barrier equally often
    (:mod:`tl_gridsync_pass.verify`).

    Use it alone, in ``tvm.transform.Sequential``, or as ``tilelang.compile(..., passes=[GridSyncPass()])``.
    A module without ``T.sync_grid()`` comes out as the same object. Two passes with the same options are
    equal, and a pass cannot be changed after it was made.

    Parameters
    ----------
    state : str
        ``"launch"`` or ``"module"``, see :class:`~tl_gridsync_pass.options.GridSyncOptions`.
    timeout_ms : int
        Stop a grid whose barrier waits longer than this many milliseconds; 0 for never.
    verify : str
        ``"error"``, ``"warn"`` or ``"off"``, see there.
    backends : str or sequence of str
        ``"cutedsl"`` or ``"cutedsl,cuda"``, see there. Run on a module by hand, the pass lowers for CuTeDSL.

    Raises
    ------
    GridSyncOptionError
        For an unknown option value.
    GridSyncDivergenceError
        When run with ``verify="error"`` on a kernel with a barrier that not all threads reach equally often.
    GridSyncLoweringError
        When run on a function whose threads are not bound yet, whose barrier stands inside an expression, or
        whose split barriers do not pair up.
    """

    # tvm-ffi 0.1.11 gives its objects no __dict__ of their own.
    __slots__ = ("options",)

    def __init__(
        self, state: str = "launch", timeout_ms: int = 0, verify: str = "error", backends: str | Sequence[str] = "cutedsl"
    ) -> None:
        options = GridSyncOptions(state=state, timeout_ms=timeout_ms, verify=verify, backends=backends)  # type: ignore[arg-type]
        # The C++ side keeps this function alive, so it must not refer to the pass object itself.
        make = tvm_ffi.get_global_func("transform.MakeModulePass")
        info = tvm.transform.PassInfo(opt_level=0, name=PASS_NAME, required=[])
        self.__init_handle_by_constructor__(make, lambda mod, _ctx: verify_and_lower(mod, options), info)
        object.__setattr__(self, "options", options)

    @classmethod
    def from_options(cls, options: GridSyncOptions) -> GridSyncPass:
        """The pass with these options."""
        return cls(**{name: getattr(options, name) for name in options.names()})

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"GridSyncPass is frozen; make a new one instead of setting {name!r}")

    def __eq__(self, other: object) -> bool:
        # Not NotImplemented: the base class computes != as the negation of what this returns.
        return isinstance(other, GridSyncPass) and self.options == other.options

    def __hash__(self) -> int:
        return hash((PASS_NAME, self.options))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={getattr(self.options, name)!r}" for name in self.options.names())
        return f"GridSyncPass({arguments})"


def verify_and_lower(mod: tvm.IRModule, options: GridSyncOptions, backend: str = "cutedsl") -> tvm.IRModule:
    """Check every grid barrier as ``options.verify`` says, then rewrite them; the same object where there is none."""
    mod = rejoin(mod)
    verify_barriers(mod, options.verify)
    return lower_grid_sync(mod, options, backend)


def lower_grid_sync(mod: tvm.IRModule, options: GridSyncOptions, backend: str = "cutedsl") -> tvm.IRModule:
    """Rewrite every grid barrier of every PrimFunc in ``mod`` for ``backend``; the same object where there is none."""
    rewritten = {}
    for var, func in mod.functions.items():
        if isinstance(func, tir.PrimFunc) and contains_grid_barrier(func):
            rewritten[var] = _lower_function(var.name_hint, func, options, backend)
    if not rewritten:
        return mod
    out = mod.clone() if hasattr(mod, "clone") else tvm.IRModule(mod.functions, attrs=mod.attrs)
    for var, func in rewritten.items():
        out.update_func(var, func)
    return out


def _lower_function(name: str, func: tir.PrimFunc, options: GridSyncOptions, backend: str) -> tir.PrimFunc:
    _refuse_clusters(name, func)
    require_paired_phases(name, func.body)
    bound: list[tuple[str, tir.Var, tir.PrimExpr]] = []
    phases: list[str] = []
    bulk_copies = _around_bulk_copies(func)
    count = 0

    def enter(stmt: tir.Stmt) -> None:
        if _is_thread_extent(stmt):
            bound.append((stmt.node.thread_tag, stmt.node.var, stmt.value))
        phase = phase_of(stmt)
        if phase is not None:
            phases.append(phase)

    def leave(stmt: tir.Stmt) -> tir.Stmt | None:
        nonlocal count
        if _is_thread_extent(stmt):
            bound.pop()
        elif phase_of(stmt) is not None:
            phases.pop()
            return stmt.body
        elif isinstance(stmt, tir.Evaluate) and is_grid_barrier(stmt.value):
            count += 1
            return _barrier(name, bound, options, backend, phases[-1] if phases else None, bulk_copies)
        return None

    enabled = [f"{TIR_NAMESPACE}.AttrStmt", f"{TIR_NAMESPACE}.Evaluate"]
    body = tir.stmt_functor.ir_transform(func.body, enter, leave, enabled)
    if backend == "cuda":
        body = tir.SeqStmt([tir.Evaluate(tir.call_extern("handle", BEGIN)), body])
    lowered = func.with_body(body)
    if contains_grid_barrier(lowered):
        raise GridSyncLoweringError(
            f"tl_gridsync: kernel {name!r} uses the value of T.sync_grid() inside an expression. "
            "Write T.sync_grid() as a statement of its own."
        )
    logger.info("kernel %s: %d grid barrier%s lowered, state=%s", name, count, "" if count == 1 else "s", options.state)
    return lowered


def _barrier(
    name: str,
    bound: list[tuple[str, tir.Var, tir.PrimExpr]],
    options: GridSyncOptions,
    backend: str,
    phase: str | None,
    bulk_copies: tuple[list[tir.Stmt], list[tir.Stmt]],
) -> tir.Stmt:
    threads = sorted((b for b in bound if b[0] in _THREAD_AXES), key=lambda b: b[0])
    if not threads:
        raise GridSyncLoweringError(
            f"tl_gridsync: in kernel {name!r} T.sync_grid() stands outside of any thread binding, so the block's leader "
            "cannot be named. Run GridSyncPass after TileLang's lowering, or give it to tilelang.compile(passes=[...])."
        )
    leader = None
    for _, var, extent in threads:
        if isinstance(extent, tir.IntImm) and int(extent) == 1:
            continue
        is_zero = tir.EQ(var, tir.IntImm(var.dtype, 0))
        leader = is_zero if leader is None else tir.And(leader, is_zero)
    arguments = [tir.StringImm(options.state), tir.IntImm("int32", _static_grid_size(bound))]
    if options.timeout_ms:
        arguments += [tir.IntImm("int32", options.timeout_ms), tir.StringImm(name)]
    if backend == "cuda":
        # Both phases as full barriers, which is right as well.
        function, phase = ARRIVE_AND_WAIT, None
    else:
        function = f"{DEVICE_MODULE}::{phase or 'arrive_and_wait'}"
    call = tir.Evaluate(tir.call_extern("handle", function, *arguments))
    guarded = call if leader is None else tir.IfThenElse(leader, call, None)
    # Before an arrival: every write of the block comes before the leader's release. None after it, since nothing
    # that follows depends on the arrival. After a wait: the leader's acquire comes before every later read of the
    # block. None before it, since the leader waits for other blocks and not for its own threads, all of which
    # have passed the block barrier of the arrival; the next arrival's keeps the rounds apart.
    stores, loads = bulk_copies
    before = [] if phase == WAIT else [*stores, _block_sync()]
    after = [] if phase == ARRIVE else [_block_sync(), *loads]
    return tir.SeqStmt([*before, guarded, *after])


def _refuse_clusters(name: str, func: tir.PrimFunc) -> None:
    clusters = [int(extent) for extent in (func.attrs["cluster_dims"] if func.attrs and "cluster_dims" in func.attrs else ())]
    if any(extent != 1 for extent in clusters):
        raise GridSyncLoweringError(
            f"tl_gridsync: kernel {name!r} uses T.sync_grid() and cluster_dims={tuple(clusters)}. A grid barrier needs a cooperative "
            "launch, which TileLang does not combine with clusters. Drop cluster_dims, or split the kernel at the barrier."
        )


def _around_bulk_copies(func: tir.PrimFunc) -> tuple[list[tir.Stmt], list[tir.Stmt]]:
    """What every thread does before and after a barrier because the kernel copies in bulk (TMA)."""
    operators: set[str] = set()

    def visit(node: object) -> None:
        if isinstance(node, tir.Call) and isinstance(node.op, tvm.ir.Op):
            operators.add(str(node.op.name))

    tir.stmt_functor.post_order_visit(func.body, visit)
    stores = any(name.startswith(("tl.tma_store", "tl.tma_reduce")) for name in operators)
    loads = any(name.startswith("tl.tma_load") for name in operators)
    return [_device_call("complete_bulk_stores")] * stores, [_device_call("order_bulk_loads")] * loads


def _device_call(name: str) -> tir.Stmt:
    return tir.Evaluate(tir.call_extern("handle", f"{DEVICE_MODULE}::{name}"))


def _static_grid_size(bound: list[tuple[str, tir.Var, tir.PrimExpr]]) -> int:
    extents = [extent for axis, _, extent in bound if axis in _BLOCK_AXES]
    if not all(isinstance(extent, tir.IntImm) for extent in extents):
        return 0
    blocks = prod(int(extent) for extent in extents)
    # No GPU holds a grid that 32 bits do not; the launch says so.
    return blocks if blocks < 2**31 else 0


def _block_sync() -> tir.Stmt:
    return tir.Evaluate(tir.Call("int32", tir_op("tvm_storage_sync"), [tir.StringImm("shared")]))


def _is_thread_extent(stmt: object) -> bool:
    return isinstance(stmt, tir.AttrStmt) and stmt.attr_key == "thread_extent"


def _make_pass(*options: object) -> GridSyncPass:
    return GridSyncPass(*options)  # type: ignore[arg-type]


tvm_ffi.register_global_func(PASS_NAME, _make_pass, override=True)
