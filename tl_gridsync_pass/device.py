"""The CuTe DSL functions that generated kernels call.

A generated kernel imports this module under the name ``tl_gridsync`` while it is compiled to a cubin, and
only then: a kernel that is loaded with its cubin from the cache does not need CuTe DSL. The guard that
picks the leader is not here but in the generated source, where :mod:`tl_gridsync_pass.lowering` puts it.
"""

from __future__ import annotations

import functools
import inspect
import zlib
from functools import partial

import cutlass
import cutlass.cute as cute
from cutlass._mlir import ir as mlir_ir
from cutlass._mlir.dialects import arith, llvm, scf
from cutlass.cutlass_dsl import CuTeDSL, T, dsl_user_op

# Not `from . import`: CuTe DSL 4.3 runs the imports of this file again and cannot resolve relative ones.
from tl_gridsync_pass import protocol
from tl_gridsync_pass.protocol import ADDRESSES, Ptx

# Keeps LLVM from moving loads and stores of the kernel across the barrier.
_MEMORY = "~{memory}"
# Marks what the barriers of a kernel share, in its entry block.
_ENTRY_MARK = "tl_gridsync.entry"
# Marks what an arrival keeps for its wait.
_SPLIT_MARK = "tl_gridsync.split"
_LIVE = ("generation", "addend", "stripes", "stripe_offset", "stripe_blocks", "stripe_addend")

_TRAP = Ptx("trap;")
# Long enough for the block that prints to get its line out before another one stops the grid.
_PAUSE = Ptx(
    inputs=("milliseconds",),
    text="""
{
    .reg .b64 %start, %now, %limit;
    .reg .pred %more;
    mul.wide.u32 %limit, $0, 1000000;
    mov.u64 %start, %globaltimer;
AGAIN:
    nanosleep.u32 1000000;
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %start;
    setp.lt.u64 %more, %now, %limit;
    @%more bra AGAIN;
}
""",
)
_CLAIM = Ptx("atom.relaxed.gpu.global.exch.b32 $0, [$1], 1;", inputs=("claimed",), output="before")
_READ_COUNTER = Ptx("ld.relaxed.gpu.global.u32 $0, [$1];", inputs=("counter",), output="arrived")
# To host memory, whose address the launcher has stored in the report variable; see seams/launcher_source.py.
# The first field, the kernel's checksum, is written last and says that the others are there.
REPORT_FIELDS = ("kernel", "x", "y", "z", "generation", "arrived", "blocks", "milliseconds")
_WRITE_REPORT = Ptx(
    inputs=("report", *REPORT_FIELDS),
    text="""
{
    .reg .b64 %to;
    .reg .pred %known;
    ld.relaxed.gpu.global.u64 %to, [$0];
    setp.ne.u64 %known, %to, 0;
    @%known st.relaxed.sys.global.u32 [%to+4], $2;
    @%known st.relaxed.sys.global.u32 [%to+8], $3;
    @%known st.relaxed.sys.global.u32 [%to+12], $4;
    @%known st.relaxed.sys.global.u32 [%to+16], $5;
    @%known st.relaxed.sys.global.u32 [%to+20], $6;
    @%known st.relaxed.sys.global.u32 [%to+24], $7;
    @%known st.relaxed.sys.global.u32 [%to+28], $8;
    // Release, at system scope because the reader is the host.
    @%known st.release.sys.global.u32 [%to], $1;
}
""",
)
# The one global that the host looks up; zero until the launcher has stored an address there.
REPORT_SYMBOL = "__tl_gridsync_report"
_REPORT_CLAIMED = "__tl_gridsync_report_claimed"
_STRIPE_TABLE = "__tl_gridsync_stripes"
_COUNTER = "__tl_gridsync_counter"
_GENERATION = "__tl_gridsync_generation"
_FIRST_PAUSE_MS = 100
_OTHERS_PAUSE_MS = 1000


def _type_of(register: str):
    return T.i64() if _is_address(register) else T.i32()


def _is_address(register: str) -> bool:
    return register in ADDRESSES or register in ("claimed", "report")


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
        protocol.for_compute_capability(ptx.text, CuTeDSL._get_dsl().get_arch_enum().major),
        ",".join(constraints if ptx.pure else [*constraints, _MEMORY]),
        has_side_effects=not ptx.pure,
        is_align_stack=False,
        asm_dialect=llvm.AsmDialect.AD_ATT,
    )
    if ptx.output:
        registers[ptx.output] = result


def _letter(register: str) -> str:
    return "l" if _is_address(register) else "r"


def _kernel_and_module():
    """The kernel being traced and the GPU module around it, as MLIR operations."""
    op = mlir_ir.InsertionPoint.current.block.owner.operation
    while op.parent is not None and op.parent.name != "gpu.module":
        op = op.parent
    if op.parent is None:
        raise RuntimeError("tl_gridsync: the barrier is not inside a @cute.kernel")
    return op, op.parent


def _entry_registers(statements: tuple[Ptx, ...], blocks) -> dict:
    """The registers that live as long as the kernel, computed at its start on first use.

    All but the generation are constants of the block. The generation is a local variable of each thread,
    of which the leader's is the one that counts.
    """
    kernel, _ = _kernel_and_module()
    entry = kernel.regions[0].blocks[0]
    registers = {
        str(op.operation.attributes[_ENTRY_MARK]).strip('"'): op.operation.results[0]
        for op in entry.operations
        if _ENTRY_MARK in op.operation.attributes
    }
    if registers:
        return registers
    with mlir_ir.InsertionPoint.at_block_begin(entry):
        registers = {"blocks": blocks if isinstance(blocks, int) else _grid_size()}
        if protocol.CLAIM_STRIPES in statements:
            registers["table"] = _module_variable(_STRIPE_TABLE, size=protocol.STRIPE_TABLE_BYTES)
        for statement in statements:
            if statement is protocol.CLAIM_STRIPES and not isinstance(blocks, int):
                _emit_claim_of_large_grids(registers)
            else:
                _emit(statement, registers)
        variable = llvm.AllocaOp(llvm.PointerType.get(), arith.constant(T.i32(), 1), T.i32(), alignment=4).result
        llvm.store(registers["generation"], variable)
    registers["generation"] = variable
    live = {name: registers[name] for name in _LIVE if name in registers}
    for name, value in live.items():
        value.owner.attributes[_ENTRY_MARK] = mlir_ir.StringAttr.get(name)
    return live


def _emit_claim_of_large_grids(registers: dict) -> None:
    """A claim that a grid too small for stripes does not make.

    Such a grid counts in the driver's word and must read its first generation there: the stripes may have
    been left with the other one by an earlier launch.
    """
    workspace = cutlass.Int64(registers["workspace"])
    large = cutlass.Uint32(_value(registers["blocks"], "blocks")) > protocol.STRIPED_ABOVE
    claimed = registers | {"workspace": cutlass.select_(large, workspace, cutlass.Int64(0))}
    _emit(protocol.CLAIM_STRIPES, claimed)
    registers["stripes"] = claimed["stripes"]


def _module_variable(symbol: str, size: int = 4, exported: bool = False):
    """The address of a global of ``size`` bytes in the kernel's module that starts at zero, declared on first use."""
    _, module = _kernel_and_module()
    body = module.regions[0].blocks[0]
    declared = {str(op.attributes["sym_name"]).strip('"') for op in body.operations if op.operation.name == "llvm.mlir.global"}
    if symbol not in declared:
        words = mlir_ir.Type.parse(f"!llvm.array<{(size + 7) // 8} x i64>")
        with mlir_ir.InsertionPoint.at_block_begin(body):
            variable = llvm.GlobalOp(
                words,
                symbol,
                mlir_ir.Attribute.parse(f"#llvm.linkage<{'external' if exported else 'internal'}>"),
                addr_space=1,
                alignment=8 if size <= 8 else 4096,
            )
            with mlir_ir.InsertionPoint(variable.regions[0].blocks.append()):
                llvm.return_(arg=llvm.mlir_zero(words))
    return llvm.ptrtoint(T.i64(), llvm.mlir_addressof(llvm.PointerType.get(1), symbol))


def _when(condition, body) -> None:
    """A branch in the kernel: CuTe DSL rewrites ``if`` statements only in the user's own functions."""
    branch = scf.IfOp(condition.ir_value())
    with mlir_ir.InsertionPoint(branch.then_block):
        body()
        scf.YieldOp([])


def _block_index():
    x, y, z = cute.arch.block_idx()
    return cutlass.Uint32(x), cutlass.Uint32(y), cutlass.Uint32(z)


def _grid_size() -> cutlass.Uint32:
    x, y, z = cute.arch.grid_dim()
    return cutlass.Uint32(x) * cutlass.Uint32(y) * cutlass.Uint32(z)


def _trap_after(milliseconds: int) -> None:
    _emit(_PAUSE, {"milliseconds": milliseconds})
    _emit(_TRAP, {})


def _require_cooperative_launch(workspace, timeout_ms: int) -> None:
    """Stop the grid where the launch is not cooperative: its blocks need not be resident together.

    With a watchdog it says so first. Without one it only traps: a single call of printf in a kernel makes
    ptxas emit a longer fence, which costs every barrier of the kernel 35 ns (132 blocks, H200).
    """

    def complain() -> None:
        cute.printf(
            "tl_gridsync: this kernel uses T.sync_grid() but was not launched cooperatively, so its blocks "
            "need not be resident together. Launch it with cuLaunchCooperativeKernel.\n"
        )
        _trap_after(_FIRST_PAUSE_MS)

    def stop() -> None:
        if timeout_ms:
            x, y, z = _block_index()
            _when((x | y | z) == 0, complain)
            _trap_after(_OTHERS_PAUSE_MS)
        else:
            _emit(_TRAP, {})

    _when(cutlass.Int64(workspace) == 0, stop)


def _stop_on_timeout(generation, arrived, blocks, timeout_ms: int, kernel: str) -> None:
    """Say which barrier was waited for in vain, on the device's and on the host's side, and stop the grid."""
    x, y, z = _block_index()

    def report() -> None:
        cute.printf(
            f"tl_gridsync: kernel {kernel}: block (%u, %u, %u) waited more than {timeout_ms} ms at a grid barrier of "
            "generation %u: %u of %u blocks have arrived.\n",
            *(x, y, z, generation, arrived, blocks),
        )
        fields = (zlib.crc32(kernel.encode()), x, y, z, generation, arrived, blocks, timeout_ms)
        address = _module_variable(REPORT_SYMBOL, size=8, exported=True)
        _emit(_WRITE_REPORT, {"report": address, **dict(zip(REPORT_FIELDS, fields, strict=True))})
        _trap_after(_FIRST_PAUSE_MS)

    registers = {"claimed": _module_variable(_REPORT_CLAIMED)}
    _emit(_CLAIM, registers)
    _when(cutlass.Uint32(registers["before"]) == 0, report)
    _trap_after(_OTHERS_PAUSE_MS)


def _launch_barrier(workspace, blocks, live: dict, timeout_ms: int, kernel: str, chosen: protocol.Protocol) -> None:
    registers = _launch_registers(workspace, blocks, live, chosen)
    _emit(chosen.arrive, registers)
    _pace(chosen, blocks, registers)
    _launch_wait(chosen, blocks, registers, live, timeout_ms, kernel)


def _launch_registers(workspace, blocks, live: dict, chosen: protocol.Protocol) -> dict:
    generation = llvm.load(T.i32(), live["generation"])
    registers = {**live, "workspace": workspace, "blocks": blocks, "generation": generation}
    for statement in chosen.setup:
        if statement.output not in registers:
            _emit(statement, registers)
    return registers


def _pace(chosen: protocol.Protocol, blocks, registers: dict) -> None:
    assert chosen.pace is not None
    # A grid whose size is known only at run time is taken for one that is large enough to pause for.
    registers["cycles"] = protocol.pause_cycles(blocks) if isinstance(blocks, int) else protocol.pause_cycles_above_four(blocks)
    if chosen is not protocol.LAUNCH or not isinstance(blocks, int) or registers["cycles"] > 0:
        _emit(chosen.pace, registers)


def _launch_wait(chosen: protocol.Protocol, blocks, registers: dict, live: dict, timeout_ms: int, kernel: str) -> None:
    assert chosen.turn is not None
    registers["milliseconds"] = timeout_ms
    _emit(chosen.bounded_wait if timeout_ms else chosen.wait, registers)
    if timeout_ms:
        before = cutlass.Uint32(registers["generation"])
        # Below the bits of the generation the word counts.
        count_bits = 30 if chosen is protocol.LAUNCH_STRIPED else 31
        total = cutlass.Uint32(_value(blocks, "blocks"))
        _when(
            ((cutlass.Uint32(registers["now"]) ^ before) >> 31) == 0,
            lambda: _stop_on_timeout(before >> count_bits, _arrivals(chosen, registers, total), total, timeout_ms, kernel),
        )
    _emit(chosen.turn, registers)
    llvm.store(registers["generation"], live["generation"])


def _arrivals(chosen: protocol.Protocol, registers: dict, total):
    """How many blocks have arrived at a barrier that is still closed."""
    if chosen is not protocol.LAUNCH_STRIPED:
        return _counted(cutlass.Uint32(registers["now"]), registers["generation"], total)
    arrived = cutlass.Uint32(0)
    for stripe in range(protocol.STRIPES):
        address = cutlass.Int64(registers["stripes"]) + protocol.STRIPE_BYTES * stripe
        read = {"counter": address}
        _emit(_READ_COUNTER, read)
        arrived += _counted(cutlass.Uint32(read["arrived"]), registers["generation"], (total + (3 - stripe)) >> 2, count_bits=30)
    return arrived


def _counted(word, generation, total, count_bits: int = 31):
    """The arrivals that a word has counted of ``total``; see protocol.ADDEND for the two forms of the count."""
    count = word & ((1 << count_bits) - 1)
    counted = cutlass.select_(count < total, count, count + total - cutlass.Uint32(1 << count_bits))
    complete = ((word ^ cutlass.Uint32(generation)) >> count_bits) != 0
    return cutlass.select_(complete, total, counted)


def _module_registers(blocks) -> dict:
    return {"counter": _module_variable(_COUNTER), "generation_word": _module_variable(_GENERATION), "blocks": blocks}


def _module_barrier(blocks, timeout_ms: int, kernel: str) -> None:
    registers = _module_registers(blocks)
    _emit(protocol.MODULE.arrive, registers)
    _module_wait(blocks, registers, timeout_ms, kernel)


def _module_wait(blocks, registers: dict, timeout_ms: int, kernel: str) -> None:
    registers["milliseconds"] = timeout_ms
    _emit(protocol.MODULE.bounded_wait if timeout_ms else protocol.MODULE.wait, registers)
    if timeout_ms:
        _emit(_READ_COUNTER, registers)
        generation, total = cutlass.Uint32(registers["generation"]), cutlass.Uint32(_value(blocks, "blocks"))
        arrived = cutlass.Uint32(registers["arrived"])
        _when(cutlass.Uint32(registers["now"]) == generation, lambda: _stop_on_timeout(generation, arrived, total, timeout_ms, kernel))


@dsl_user_op
def arrive_and_wait(state: str, static_blocks: int, timeout_ms: int = 0, kernel: str = "", *, loc=None, ip=None) -> None:
    """The leader's part of a grid barrier: report this block's arrival, then wait for all blocks.

    Parameters
    ----------
    state : str
        ``"launch"`` or ``"module"``, see :class:`~tl_gridsync_pass.options.GridSyncOptions`.
    static_blocks : int
        Number of blocks in the grid where it is known at compile time, else 0.
    timeout_ms : int
        After how many milliseconds of waiting to stop the grid with a message; 0 for never.
    kernel : str
        The kernel's name, for that message.
    """
    workspace, blocks = _start(static_blocks, timeout_ms)
    if state == "module":
        _module_barrier(blocks, timeout_ms, kernel)
        return
    live = _live_registers(static_blocks, blocks)
    _for_the_grid(static_blocks, blocks, live, partial(_launch_barrier, workspace, blocks, live, timeout_ms, kernel))


@dsl_user_op
def arrive(state: str, static_blocks: int, timeout_ms: int = 0, kernel: str = "", *, loc=None, ip=None) -> None:
    """The leader's part of the first phase of a split barrier: report this block's arrival and go on.

    The parameters are those of :func:`arrive_and_wait`. There is no token: with ``state="launch"`` the barrier
    word's generation is known, and with ``state="module"`` the one that was read is kept in a variable of the
    kernel until :func:`wait`.
    """
    workspace, blocks = _start(static_blocks, timeout_ms)
    if state == "module":
        registers = _module_registers(blocks)
        _emit(protocol.MODULE.arrive, registers)
        llvm.store(registers["generation"], _module_generation())
        return
    live = _live_registers(static_blocks, blocks)

    def report_arrival(chosen: protocol.Protocol) -> None:
        chosen = _split(chosen)
        _emit(chosen.arrive, _launch_registers(workspace, blocks, live, chosen))

    _for_the_grid(static_blocks, blocks, live, report_arrival)


@dsl_user_op
def wait(state: str, static_blocks: int, timeout_ms: int = 0, kernel: str = "", *, loc=None, ip=None) -> None:
    """The leader's part of the second phase of a split barrier: wait for all blocks.

    The parameters are those of :func:`arrive_and_wait`. It does not pause before the first poll: the work since
    the arrival is pause enough, and where it was not, how much is left of it is not known.
    """
    workspace, blocks = _start(static_blocks, timeout_ms)
    if state == "module":
        registers = _module_registers(blocks)
        registers["generation"] = llvm.load(T.i32(), _module_generation())
        _module_wait(blocks, registers, timeout_ms, kernel)
        return
    live = _live_registers(static_blocks, blocks)

    def wait_for_all(chosen: protocol.Protocol) -> None:
        chosen = _split(chosen)
        _launch_wait(chosen, blocks, _launch_registers(workspace, blocks, live, chosen), live, timeout_ms, kernel)

    _for_the_grid(static_blocks, blocks, live, wait_for_all)


def _split(chosen: protocol.Protocol) -> protocol.Protocol:
    """The protocol whose halves stand for ``chosen``: without a pause nobody needs an arrival's rank.

    The two protocols on the driver's word add the same to it and read it alike, so a kernel may mix them.
    """
    return protocol.LAUNCH if chosen is protocol.LAUNCH_RANKED else chosen


def _start(static_blocks: int, timeout_ms: int):
    """What every device function begins with: the address of the launch's workspace, and the grid's size."""
    registers: dict = {}
    _emit(protocol.WORKSPACE, registers)
    _require_cooperative_launch(registers["workspace"], timeout_ms)
    return registers["workspace"], static_blocks or _grid_size()


def _module_generation():
    """The variable that keeps the generation read by an arrival until its wait; one a kernel, of which the leader's counts."""
    kernel, _ = _kernel_and_module()
    entry = kernel.regions[0].blocks[0]
    for op in entry.operations:
        if _SPLIT_MARK in op.operation.attributes:
            return op.operation.results[0]
    with mlir_ir.InsertionPoint.at_block_begin(entry):
        variable = llvm.AllocaOp(llvm.PointerType.get(), arith.constant(T.i32(), 1), T.i32(), alignment=4)
    variable.operation.attributes[_SPLIT_MARK] = mlir_ir.UnitAttr.get()
    return variable.result


def _live_registers(static_blocks: int, blocks) -> dict:
    chosen = protocol.for_grid(static_blocks) if static_blocks else protocol.LAUNCH_STRIPED
    return _entry_registers(chosen.entry, blocks)


def _for_the_grid(static_blocks: int, blocks, live: dict, emit) -> None:
    """``emit(protocol)`` for the protocol of the grid, or under a condition for each that it may be at run time.

    What the conditions read is the same at every call, so all calls of a launch take the same one.
    """

    def striped() -> None:
        """The striped protocol, or the ranked one on the driver's word where the table had no room."""
        has_stripes = cutlass.Int64(live["stripes"]) != 0
        _when(has_stripes, partial(emit, protocol.LAUNCH_STRIPED))
        _when(has_stripes == False, partial(emit, protocol.LAUNCH_RANKED))  # noqa: E712

    if not static_blocks:
        _when(blocks <= protocol.STRIPED_ABOVE, partial(emit, protocol.LAUNCH))
        _when(blocks > protocol.STRIPED_ABOVE, striped)
    elif protocol.for_grid(static_blocks) is protocol.LAUNCH_STRIPED:
        striped()
    else:
        emit(protocol.for_grid(static_blocks))


# CuTe DSL 4.3 cannot launch cooperatively. With it TileLang has no host launcher but its own in C++,
# which does, and a launch by hand ends in the trap above.
_COOPERATIVE = {"cooperative": True} if "cooperative" in inspect.signature(CuTeDSL.LaunchConfig).parameters else {}


@dsl_user_op
def complete_bulk_stores(*, loc=None, ip=None) -> None:
    """Before a grid barrier, by every thread of a kernel with bulk stores: see protocol.BULK_STORES_COMPLETE."""
    _emit(protocol.BULK_STORES_COMPLETE, {})


@dsl_user_op
def order_bulk_loads(*, loc=None, ip=None) -> None:
    """After a grid barrier, by every thread of a kernel with bulk loads: see protocol.BULK_LOADS_FOLLOW."""
    _emit(protocol.BULK_LOADS_FOLLOW, {})


class _CooperativeLaunch:
    """What ``kernel(*args)`` gives inside a host function, with ``cooperative=True`` on its launch."""

    def __init__(self, launcher) -> None:
        self._launcher = launcher

    def launch(self, *args, **kwargs):
        return self._launcher.launch(*args, **kwargs, **_COOPERATIVE)


def cooperative(kernel):
    """Decorator above ``@cute.kernel``: CuTe DSL's own host launcher then launches the kernel cooperatively."""

    @functools.wraps(kernel)
    def call(*args, **kwargs):
        return _CooperativeLaunch(kernel(*args, **kwargs))

    return call
