"""What the uniformity analysis needs to know about calls, buffers and pointers in device IR."""

from __future__ import annotations

from functools import lru_cache

from ..tvm_compat import tir, tvm

# TVM's CallEffectKind: up to this one a call's result depends on its arguments alone (tir/op_attr_types.h).
_PURE = 1

PHASE_ATTR = "tl_gridsync.phase"
WARP_SPECIALIZE_ATTRS = ("warp_specialize", "kWarpSpecializationScope")

_BREAKS = ("break_loop", "loop_break")
_CONTINUES = ("continue_loop",)
_RETURNS = ("thread_return", "ret")
EXIT_NAMES = {**dict.fromkeys(_BREAKS, "break"), **dict.fromkeys(_CONTINUES, "continue"), **dict.fromkeys(_RETURNS, "return")}

# Results that are the same in all threads of the block, because the whole block takes part (CUDA C++
# Programming Guide, "Synchronization Functions").
BLOCK_VOTES = ("syncthreads_or", "syncthreads_and", "syncthreads_count")
# Results that are the same in all threads of a warp.
WARP_VOTES = ("any_sync", "all_sync")
# Results that differ from thread to thread by definition.
THREAD_NUMBERS = ("get_lane_idx", "get_warp_idx", "get_warp_idx_sync", "get_warp_group_idx", "tl_shuffle_elect")
# What these make of their arguments is an address; nothing is read.
POINTER_MAKERS = ("address_of", "tvm_access_ptr", "handle_add_byte_offset")
# Reads that go through the read-only data cache, which no barrier makes coherent (PTX ISA, ld.global.nc).
_READ_ONLY_LOADS = ("__ldg", "ptx_ldg32")
# Engines that write shared memory behind the back of the block barrier.
_ASYNCHRONOUS = ("tma_load", "cp_async", "bulk")


_BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max", "EQ", "NE", "LT", "LE", "GT", "GE", "And", "Or")
# The expressions in an expression, by its kind; other kinds are searched for them.
_OPERANDS = {
    **dict.fromkeys(_BINARY, ("a", "b")),
    **dict.fromkeys(("Var", "SizeVar", "IntImm", "FloatImm", "StringImm"), ()),
    "Not": ("a",),
    "Cast": ("value",),
    "Broadcast": ("value",),
    "Ramp": ("base", "stride"),
    "Select": ("condition", "true_value", "false_value"),
    "Let": ("value", "body"),
}
_OPERAND_LISTS = {"Call": "args", "BufferLoad": "indices"}


def children(expr: object) -> list[object]:
    """The expressions that ``expr`` is directly made of."""
    kind = type(expr).__name__
    operands = _OPERANDS.get(kind)
    if operands is not None:
        return [getattr(expr, name) for name in operands]
    operand_list = _OPERAND_LISTS.get(kind)
    if operand_list is not None:
        return [c for c in getattr(expr, operand_list) if hasattr(c, "dtype")]
    found = [
        getattr(expr, name, None)
        for name in ("a", "b", "value", "condition", "true_value", "false_value", "base", "stride", "body", "source")
    ]
    for name in ("args", "vectors", "indices"):
        found += getattr(expr, name, None) or ()
    return [c for c in found if c is not None and hasattr(c, "dtype")]


def initial_value(stmt: object) -> object | None:
    """What an allocated variable starts at; None where that is left open or the code generator's choice."""
    annotations = getattr(stmt, "annotations", None) or {}
    return next((value for key, value in annotations.items() if "local_var_init" in str(key) and hasattr(value, "dtype")), None)


def op_name(call: object) -> str:
    """A call's operator without its namespace; for an extern call, the name of the function."""
    name = str(getattr(call.op, "name", "")).rpartition(".")[2]
    if name in ("call_extern", "call_pure_extern") and len(call.args) and isinstance(call.args[0], tir.StringImm):
        return str(call.args[0].value)
    return name


def is_pure(call: object) -> bool:
    """Whether the call's result depends on its arguments alone and it does nothing else."""
    return isinstance(call.op, tvm.ir.Op) and _is_pure_op(call.op) and op_name(call) not in _READ_ONLY_LOADS


def _is_pure_op(op: object) -> bool:
    kind = op.get_attr("TCallEffectKind")
    return kind is not None and int(kind) <= _PURE


def is_read_only_load(call: object) -> bool:
    return op_name(call).startswith(_READ_ONLY_LOADS) or "ld.global.nc" in op_name(call)


def is_asynchronous(call: object) -> bool:
    return any(part in op_name(call) for part in _ASYNCHRONOUS)


def is_block_barrier(call: object) -> bool:
    """Whether the call is a barrier of all threads of the block; a barrier of some of them has more arguments."""
    name = op_name(call)
    return name in BLOCK_VOTES or (name == "tvm_storage_sync" and len(call.args) == 1 and str(call.args[0].value) != "warp")


@lru_cache(maxsize=1)
def _grid_sync_op() -> tvm.ir.Op:
    return tvm.ir.Op.get("tl.sync_grid")


def is_grid_barrier(node: object) -> bool:
    return isinstance(node, tir.Call) and isinstance(node.op, tvm.ir.Op) and node.op.same_as(_grid_sync_op())


def contains_grid_barrier(func: tir.PrimFunc) -> bool:
    """Whether ``func`` calls ``T.sync_grid()`` anywhere."""
    found = []
    tir.stmt_functor.post_order_visit(func.body, lambda node: found.append(node) if is_grid_barrier(node) else None)
    return bool(found)


def scope_of(data: tir.Var) -> str:
    """``"global"``, ``"shared"`` or ``"local"`` for the variable that points to a buffer's memory."""
    annotation = getattr(data, "type_annotation", None)
    scope = str(getattr(annotation, "storage_scope", "") or "global")
    if scope.startswith("shared"):
        return "shared"
    return "local" if scope.startswith(("local", "warp", "wmma", "metal", "tmem")) else "global"
