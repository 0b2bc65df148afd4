"""The CuTe DSL functions that generated kernels call.

A generated kernel imports this module under the name ``tl_gridsync`` while it is compiled to a cubin, and
only then: a kernel that is loaded with its cubin from the cache does not need CuTe DSL. The guard that
picks the leader is not here but in the generated source, where :mod:`tl_gridsync_pass.lowering` puts it.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass._mlir import ir as mlir_ir
from cutlass._mlir.dialects import llvm
from cutlass.cutlass_dsl import T, dsl_user_op

from . import protocol

# "memory" keeps LLVM from moving loads and stores of the kernel across the barrier.
_CLOBBER = "~{memory}"


def _asm(result, operands, text, constraints, loc, ip):
    return llvm.inline_asm(
        result,
        operands,
        text,
        constraints,
        has_side_effects=True,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
        loc=loc,
        ip=ip,
    )


@dsl_user_op
def _workspace_address(*, loc=None, ip=None) -> cutlass.Int64:
    return cutlass.Int64(_asm(T.i64(), [], protocol.WORKSPACE_ADDRESS, "=l", loc, ip))


@dsl_user_op
def _trap(*, loc=None, ip=None) -> None:
    _asm(None, [], "trap;", _CLOBBER, loc, ip)


@dsl_user_op
def _pause(*, loc=None, ip=None) -> None:
    """About a second, for the one block that prints to get its line out before the grid is stopped."""
    _asm(
        None,
        [],
        """
{
    .reg .b64 %start, %now;
    .reg .pred %more;
    mov.u64 %start, %globaltimer;
AGAIN:
    nanosleep.u32 1000000;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %more, %now, 1000000000;
    @%more bra AGAIN;
}
""",
        _CLOBBER,
        loc,
        ip,
    )


@dsl_user_op
def _module_address(symbol: str, *, loc=None, ip=None) -> cutlass.Int64:
    """The address of a zero-initialised 32-bit global of the kernel's module, declared on first use."""
    body = _gpu_module_body()
    declared = {str(op.attributes["sym_name"]).strip('"') for op in body.operations if op.name == "llvm.mlir.global"}
    if symbol not in declared:
        with mlir_ir.InsertionPoint.at_block_begin(body):
            llvm.GlobalOp(
                T.i32(),
                symbol,
                mlir_ir.Attribute.parse("#llvm.linkage<internal>"),
                value=mlir_ir.IntegerAttr.get(T.i32(), 0),
                addr_space=1,
                loc=loc,
            )
    pointer = llvm.mlir_addressof(llvm.PointerType.get(1), symbol, loc=loc, ip=ip)
    return cutlass.Int64(llvm.ptrtoint(T.i64(), pointer, loc=loc, ip=ip))


def _gpu_module_body():
    op = mlir_ir.InsertionPoint.current.block.owner
    while op is not None and op.name != "gpu.module":
        op = op.parent
    if op is None:
        raise RuntimeError("tl_gridsync: no gpu.module around the barrier; device functions must be called from a @cute.kernel")
    return op.regions[0].blocks[0]


@dsl_user_op
def _arrive(state: str, addresses: tuple, *, loc=None, ip=None) -> cutlass.Int32:
    operands = [cutlass.Int64(a).ir_value(loc=loc, ip=ip) for a in addresses]
    constraints = ",".join(["=&r", *("l" for _ in operands), _CLOBBER])
    return cutlass.Int32(_asm(T.i32(), operands, protocol.PROTOCOLS[state].arrive, constraints, loc, ip))


@dsl_user_op
def _wait(state: str, token, addresses: tuple, *, loc=None, ip=None) -> None:
    operands = [cutlass.Int32(token).ir_value(loc=loc, ip=ip), *(cutlass.Int64(a).ir_value(loc=loc, ip=ip) for a in addresses)]
    constraints = ",".join(["r", *("l" for _ in addresses), _CLOBBER])
    _asm(None, operands, protocol.PROTOCOLS[state].wait, constraints, loc, ip)


@dsl_user_op
def _is_first_block(*, loc=None, ip=None):
    x, y, z = cute.arch.block_idx(loc=loc, ip=ip)
    return (x | y | z) == 0


@cute.jit
def _require_cooperative_launch(workspace):
    """Stop the grid where the launch is not cooperative: its blocks need not be resident together."""
    if workspace == 0:
        if _is_first_block():
            cute.printf(
                "tl_gridsync: this kernel uses T.sync_grid() but was not launched cooperatively, so its blocks "
                "need not be resident together. Launch it with cuLaunchCooperativeKernel.\n"
            )
        _pause()
        _trap()


@cute.jit
def arrive_and_wait(state: cutlass.Constexpr):
    """The leader's part of a grid barrier: report this block's arrival, then wait for all blocks.

    Parameters
    ----------
    state : str
        ``"launch"`` or ``"module"``, see :class:`~tl_gridsync_pass.options.GridSyncOptions`.
    """
    workspace = _workspace_address()
    _require_cooperative_launch(workspace)
    if cutlass.const_expr(state == "launch"):
        addresses = (workspace + protocol.BARRIER_WORD_OFFSET,)
    else:
        addresses = (_module_address("__tl_gridsync_counter"), _module_address("__tl_gridsync_generation"))
    token = _arrive(state, addresses)
    _wait(state, token, addresses)
