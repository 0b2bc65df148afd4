"""The CuTe DSL functions that generated kernels call.

A generated kernel imports this module under the name ``tl_gridsync`` while it is compiled to a cubin, and
only then: a kernel that is loaded with its cubin from the cache does not need CuTe DSL. The guard that
picks the leader is not here but in the generated source, where :mod:`tl_gridsync_pass.lowering` puts it.
"""

from __future__ import annotations

import cutlass
import cutlass.cute as cute
from cutlass._mlir import ir as mlir_ir
from cutlass._mlir.dialects import arith, llvm
from cutlass.base_dsl.dsl import BaseDSL
from cutlass.cutlass_dsl import T, dsl_user_op

from . import protocol
from .protocol import ADDRESSES, Ptx

# Keeps LLVM from moving loads and stores of the kernel across the barrier.
_MEMORY = "~{memory}"
# Marks the variable that holds the leader's generation, in the kernel's entry block.
_GENERATION_MARK = "tl_gridsync.generation"

_TRAP = Ptx("trap;")
# About a second, for the block that prints to get its line out before the grid is stopped.
_PAUSE = Ptx(
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
"""
)


def _type_of(register: str):
    return T.i64() if register in ADDRESSES else T.i32()


def _value(number, register: str):
    if isinstance(number, mlir_ir.Value):
        return number
    if isinstance(number, int):
        return arith.constant(_type_of(register), number)
    return number.ir_value()


def _emit(ptx: Ptx, registers: dict) -> None:
    """Emit one statement; its inputs come from ``registers``, where its output goes."""
    operands = [_value(registers[name], name) for name in ptx.inputs]
    constraints = ["=&" + _letter(ptx.output)] if ptx.output else []
    constraints += [_letter(name) for name in ptx.inputs]
    result = llvm.inline_asm(
        _type_of(ptx.output) if ptx.output else None,
        operands,
        protocol.for_compute_capability(ptx.text, BaseDSL._get_dsl().get_arch_enum().major),
        ",".join(constraints if ptx.pure else [*constraints, _MEMORY]),
        has_side_effects=not ptx.pure,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    if ptx.output:
        registers[ptx.output] = result


def _letter(register: str) -> str:
    return "l" if register in ADDRESSES else "r"


def _kernel_and_module():
    """The kernel being traced and the GPU module around it, as MLIR operations."""
    op = mlir_ir.InsertionPoint.current.block.owner.operation
    while op.parent is not None and op.parent.name != "gpu.module":
        op = op.parent
    if op.parent is None:
        raise RuntimeError("tl_gridsync: the barrier is not inside a @cute.kernel")
    return op, op.parent


def _generation_variable():
    """The leader's own generation, a local variable that lives from the start of the kernel to its end."""
    kernel, _ = _kernel_and_module()
    entry = kernel.regions[0].blocks[0]
    for op in entry.operations:
        if _GENERATION_MARK in op.operation.attributes:
            return op.operation.results[0]
    with mlir_ir.InsertionPoint.at_block_begin(entry):
        variable = llvm.AllocaOp(llvm.PointerType.get(), arith.constant(T.i32(), 1), T.i32(), alignment=4)
        variable.operation.attributes[_GENERATION_MARK] = mlir_ir.UnitAttr.get()
        registers: dict = {}
        _emit(protocol.WORKSPACE, registers)
        _emit(protocol.FIRST_GENERATION, registers)
        llvm.store(registers["generation"], variable.result)
    return variable.result


def _module_variable(symbol: str):
    """The address of a 32-bit global of the kernel's module that starts at zero, declared on first use."""
    _, module = _kernel_and_module()
    body = module.regions[0].blocks[0]
    declared = {str(op.attributes["sym_name"]).strip('"') for op in body.operations if op.operation.name == "llvm.mlir.global"}
    if symbol not in declared:
        with mlir_ir.InsertionPoint.at_block_begin(body):
            llvm.GlobalOp(
                T.i32(),
                symbol,
                mlir_ir.Attribute.parse("#llvm.linkage<internal>"),
                value=mlir_ir.IntegerAttr.get(T.i32(), 0),
                addr_space=1,
            )
    return llvm.ptrtoint(T.i64(), llvm.mlir_addressof(llvm.PointerType.get(1), symbol))


@dsl_user_op
def _workspace(*, loc=None, ip=None) -> cutlass.Int64:
    registers: dict = {}
    _emit(protocol.WORKSPACE, registers)
    return cutlass.Int64(registers["workspace"])


@dsl_user_op
def _stop(*, loc=None, ip=None) -> None:
    _emit(_PAUSE, {})
    _emit(_TRAP, {})


@dsl_user_op
def _launch_barrier(workspace, blocks, ranked: bool, *, loc=None, ip=None) -> None:
    chosen = protocol.LAUNCH_RANKED if ranked else protocol.LAUNCH
    variable = _generation_variable()
    registers = {"workspace": workspace, "blocks": blocks, "generation": llvm.load(T.i32(), variable)}
    for statement in chosen.setup:
        if statement.output not in registers:
            _emit(statement, registers)
    _emit(chosen.arrive, registers)
    # A grid whose size is known only at run time is taken for one that is large enough to pause for.
    cycles = protocol.pause_cycles(blocks) if isinstance(blocks, int) else protocol.pause_cycles_above_four(blocks)
    if ranked or not isinstance(cycles, int) or cycles > 0:
        _emit(chosen.pace, registers | {"cycles": cycles})
    _emit(chosen.wait, registers)
    _emit(chosen.turn, registers)
    llvm.store(registers["generation"], variable)


@dsl_user_op
def _module_barrier(blocks, *, loc=None, ip=None) -> None:
    registers = {
        "counter": _module_variable("__tl_gridsync_counter"),
        "generation_word": _module_variable("__tl_gridsync_generation"),
        "blocks": blocks,
    }
    _emit(protocol.MODULE.arrive, registers)
    _emit(protocol.MODULE.wait, registers)


@dsl_user_op
def _is_first_block(*, loc=None, ip=None):
    x, y, z = cute.arch.block_idx(loc=loc, ip=ip)
    return (x | y | z) == 0


@dsl_user_op
def _grid_size(*, loc=None, ip=None):
    x, y, z = cute.arch.grid_dim(loc=loc, ip=ip)
    return x * y * z


@cute.jit
def _require_cooperative_launch(workspace):
    """Stop the grid where the launch is not cooperative: its blocks need not be resident together."""
    if workspace == 0:
        if _is_first_block():
            cute.printf(
                "tl_gridsync: this kernel uses T.sync_grid() but was not launched cooperatively, so its blocks "
                "need not be resident together. Launch it with cuLaunchCooperativeKernel.\n"
            )
        _stop()


@cute.jit
def arrive_and_wait(state: cutlass.Constexpr, static_blocks: cutlass.Constexpr):
    """The leader's part of a grid barrier: report this block's arrival, then wait for all blocks.

    Parameters
    ----------
    state : str
        ``"launch"`` or ``"module"``, see :class:`~tl_gridsync_pass.options.GridSyncOptions`.
    static_blocks : int
        Number of blocks in the grid where it is known at compile time, else 0.
    """
    workspace = _workspace()
    _require_cooperative_launch(workspace)
    if cutlass.const_expr(static_blocks > 0):
        if cutlass.const_expr(state == "module"):
            _module_barrier(static_blocks)
        else:
            _launch_barrier(workspace, static_blocks, static_blocks > protocol.RANKED_ABOVE)
    else:
        blocks = _grid_size()
        if cutlass.const_expr(state == "module"):
            _module_barrier(blocks)
        else:
            if blocks > protocol.RANKED_ABOVE:
                _launch_barrier(workspace, blocks, True)
            else:
                _launch_barrier(workspace, blocks, False)
