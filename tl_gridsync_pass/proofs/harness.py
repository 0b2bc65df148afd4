"""The code around a protocol: which thread runs it, between which block barriers, in how many rounds.

This is the model of what :mod:`tl_gridsync_pass.lowering` emits around a barrier. Everything in it can be
set, so that a fault in the emitted code can be written down as a harness.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from ..protocol import LAUNCH_RANKED, Protocol, Ptx, pause_cycles
from .ptx import Imm, Instruction, Label, Operand, PtxError, Reg, fence, is_block_barrier, is_memory, parse

Index = tuple[int, int, int]

# What device.py does after a bounded wait: where the last value read still shows the old generation, it stops
# the grid. The opcode of a trap that is meant to stop the grid.
TIME_OUT = ("trap", "time-out")
_STOP_ON_BIT = Ptx(
    inputs=("now", "generation"),
    text="{ .reg .b32 %flipped; .reg .pred %same; xor.b32 %flipped, $0, $1; setp.ge.s32 %same, %flipped, 0; @%same trap; }",
)
_STOP_ON_WORD = Ptx(inputs=("now", "generation"), text="{ .reg .pred %same; setp.eq.u32 %same, $0, $1; @%same trap; }")


def first_thread(tid: Index, ntid: Index) -> bool:
    """The guard that the pass emits: zero on every axis. Axes of extent 1 are left out, where zero is all there is."""
    return tid == (0, 0, 0)


def every_thread(tid: Index, ntid: Index) -> bool:
    """For texts that pick their leader themselves."""
    return True


def all_blocks(extents: Index) -> int:
    """The true number of blocks of a grid."""
    return prod(extents)


def every_block(ctaid: Index) -> bool:
    """All blocks take part."""
    return True


@dataclass(frozen=True)
class Harness:
    """A protocol and the code around it.

    Attributes
    ----------
    protocol : Protocol
        The PTX statements of a barrier.
    leader : callable
        ``(tid, ntid) -> bool``: whether that thread runs them.
    block_barrier_before, block_barrier_after : bool
        Whether there is a ``bar.sync`` before ``arrive`` and after ``wait``.
    participates : callable
        ``(ctaid) -> bool``: whether that block runs the barrier at all.
    split : bool
        Whether arrive and wait are apart: the block passes a ``bar.sync`` of its own between them.
    paced : bool
        Whether the pause before the first poll is run. Left out by default: once :func:`require_inert` has seen
        that it touches nothing, it is only a delay, and every delay is explored anyway.
    bounded : bool
        Whether the wait is the watchdog's, which stops the grid when it has waited too long.
    blocks : callable
        How many blocks the barrier believes there are, from the extents of the grid.
    """

    protocol: Protocol
    leader: Callable[[Index, Index], bool] = first_thread
    block_barrier_before: bool = True
    block_barrier_after: bool = True
    participates: Callable[[Index], bool] = every_block
    split: bool = False
    paced: bool = False
    bounded: bool = False
    blocks: Callable[[Index], int] = all_blocks

    @property
    def uses_workspace(self) -> bool:
        """Whether the barrier's word is the driver's, and not a variable of the module."""
        return any("%envreg1" in statement.text for statement in self.protocol.entry)

    @property
    def is_striped(self) -> bool:
        """Whether arrivals are counted in the stripes of a table."""
        return any(statement.output == "stripe_addend" for statement in self.protocol.entry)


@dataclass(frozen=True)
class Grid:
    """One launch.

    Attributes
    ----------
    harness : Harness
        What every thread runs in each round.
    blocks, threads : tuple of int
        Extents over x, y, z.
    workspace : int
        Address of the launch's workspace, in bytes; what ``%envreg1`` and ``%envreg2`` hold.
    addresses : mapping
        Address of each other word that the statements take, by its name.
    rounds : int
        How many times the barrier is passed.
    name : str
        For traces, where several launches run at once.
    """

    harness: Harness
    blocks: Index
    threads: Index
    workspace: int = 0
    addresses: Mapping[str, int] = field(default_factory=dict)
    rounds: int = 3
    name: str = ""

    def block_indices(self) -> list[Index]:
        return indices(self.blocks)

    def thread_indices(self) -> list[Index]:
        return indices(self.threads)


def indices(extents: Index) -> list[Index]:
    """Every index within ``extents``, x fastest, which is also the order of linear thread numbers."""
    return [(x, y, z) for z in range(extents[2]) for y in range(extents[1]) for x in range(extents[0])]


def place(grid: Grid, ctaid: Index, tid: Index) -> dict[str, int]:
    """The special registers that one thread sees."""
    linear = tid[0] + grid.threads[0] * (tid[1] + grid.threads[1] * tid[2])
    values = {"%laneid": linear % 32, "%envreg1": grid.workspace >> 32, "%envreg2": grid.workspace & 0xFFFFFFFF}
    for name, index in (("tid", tid), ("ntid", grid.threads), ("ctaid", ctaid), ("nctaid", grid.blocks)):
        values.update({f"%{name}.{axis}": index[i] for i, axis in enumerate("xyz")})
    return values


def program(grid: Grid, ctaid: Index, tid: Index) -> list[Instruction]:
    """What one thread executes, with the pseudo instructions ``enter`` and ``leave`` around every barrier.

    ``enter r`` stands for everything the thread does before it reaches barrier ``r``; ``leave r`` is the
    point from which on it may rely on that barrier.
    """
    harness = grid.harness
    if harness.protocol.pace is not None:
        require_inert(harness.protocol.pace)
    registers = _Registers(grid)
    out: list[Instruction] = []
    for statement in harness.protocol.entry:
        out += registers.emit(statement, len(out))
    for number in range(grid.rounds):
        out.append(_mark("enter", number))
        if harness.participates(ctaid):
            out += _barrier(harness, registers, harness.leader(tid, grid.threads), len(out))
        out.append(_mark("leave", number))
    out.append(Instruction(("exit",), (), text="exit"))
    return out


def require_inert(pace: Ptx) -> None:
    """Refuse a pause that does more than let time pass.

    Raises
    ------
    PtxError
        Where it touches memory, orders something, waits for other threads or gives a result.
    """
    if pace.output is not None:
        raise PtxError(f"the pause gives a result: {pace.output}")
    for instruction in parse(pace.text, {f"${i}": Imm(0) for i in range(len(pace.inputs))}):
        if (
            is_memory(instruction)
            or is_block_barrier(instruction)
            or fence(instruction)
            or instruction.opcode[0] in ("trap", "exit", "ret")
        ):
            raise PtxError(f"the pause does more than let time pass: {instruction.text!r}")


def _barrier(harness: Harness, registers: _Registers, leads: bool, start: int) -> list[Instruction]:
    protocol = harness.protocol
    out: list[Instruction] = []

    def emit(statements: list[Ptx]) -> None:
        for statement in statements:
            out.extend(registers.emit(statement, start + len(out)))

    def emit_part(part: Callable[[Harness, Protocol], list[Ptx]]) -> None:
        if not leads:
            return
        if not harness.is_striped:
            emit(part(harness, protocol))
            return
        # As device.py does, the ranked barrier on the driver's word where the table of stripes had no room.
        out.append(Instruction(("setp", "eq", "u64"), (Reg("no_stripes"), Reg("stripes"), Imm(0)), text="are there no stripes"))
        to_ranked = len(out)
        out.append(Instruction(("bra",), (Label(0),), Reg("no_stripes"), text="go to the ranked barrier"))
        emit(part(harness, protocol))
        to_end = len(out)
        out.append(Instruction(("bra",), (Label(0),), text="go on"))
        out[to_ranked] = replace(out[to_ranked], operands=(Label(start + len(out)),))
        emit(part(harness, LAUNCH_RANKED))
        out[to_end] = replace(out[to_end], operands=(Label(start + len(out)),))

    if harness.block_barrier_before:
        out.append(_block_barrier())
    emit_part(_arrive)
    if harness.split:
        out.append(_block_barrier())
    emit_part(_wait)
    if harness.block_barrier_after:
        out.append(_block_barrier())
    return out


def _arrive(harness: Harness, protocol: Protocol) -> list[Ptx]:
    # As device.py does, what the entry has computed is not computed again.
    computed = {statement.output for statement in harness.protocol.entry}
    return [*(s for s in protocol.setup if s.output not in computed), protocol.arrive]


def _wait(harness: Harness, protocol: Protocol) -> list[Ptx]:
    statements = [protocol.pace if harness.paced else None]
    if harness.bounded:
        statements += [protocol.bounded_wait, _STOP_ON_WORD if protocol.turn is None else _STOP_ON_BIT]
    else:
        statements.append(protocol.wait)
    statements.append(protocol.turn)
    return [s for s in statements if s is not None]


class _Registers:
    """What the statements pass to each other by name, as ``device.py`` wires it."""

    def __init__(self, grid: Grid) -> None:
        blocks = grid.harness.blocks(grid.blocks)
        self.known = {"blocks": blocks, "cycles": pause_cycles(blocks), "milliseconds": 1, **grid.addresses}
        self.count = 0

    def emit(self, statement: Ptx, start: int) -> list[Instruction]:
        names = ([statement.output] if statement.output else []) + list(statement.inputs)
        bindings = {f"${i}": self._operand(name) for i, name in enumerate(names)}
        self.count += 1
        code = _at(start, parse(statement.text, bindings, f"{self.count}."))
        if statement in (_STOP_ON_BIT, _STOP_ON_WORD):
            code = [replace(i, opcode=TIME_OUT) if i.opcode == ("trap",) else i for i in code]
        return code

    def _operand(self, name: str) -> Operand:
        return Imm(self.known[name]) if name in self.known else Reg(name)


def _at(start: int, instructions: list[Instruction]) -> list[Instruction]:
    """Branch targets counted from the start of the whole program."""
    moved = []
    for instruction in instructions:
        if instruction.opcode[0] == "bra":
            (label,) = instruction.operands
            assert isinstance(label, Label)
            instruction = replace(instruction, operands=(Label(start + label.target),))
        moved.append(instruction)
    return moved


def _mark(name: str, number: int) -> Instruction:
    return Instruction((name,), (Imm(number),), text=f"{name} {number}")


def _block_barrier() -> Instruction:
    return Instruction(("bar", "sync"), (Imm(0),), text="bar.sync 0")
