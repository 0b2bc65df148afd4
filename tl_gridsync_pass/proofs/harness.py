"""The code around a protocol: which thread runs it, between which block barriers, in how many rounds.

This is the model of what :mod:`tl_gridsync_pass.lowering` emits around a barrier. Everything in it can be
set, so that a fault in the emitted code can be written down as a harness.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol as Interface

from .ptx import Imm, Instruction, Label, Reg, parse

Index = tuple[int, int, int]


class Texts(Interface):
    """What is used of a :class:`tl_gridsync_pass.protocol.Protocol`."""

    name: str
    operands: tuple[str, ...]
    arrive: str
    wait: str


def first_thread(tid: Index, ntid: Index) -> bool:
    """The guard that the pass emits: zero on every axis. Axes of extent 1 are left out, where zero is all there is."""
    return tid == (0, 0, 0)


def every_thread(tid: Index, ntid: Index) -> bool:
    """For texts that pick their leader themselves."""
    return True


def every_block(ctaid: Index) -> bool:
    """All blocks take part."""
    return True


@dataclass(frozen=True)
class Harness:
    """A protocol and the code around it.

    Attributes
    ----------
    protocol : Texts
        The PTX texts.
    leader : callable
        ``(tid, ntid) -> bool``: whether that thread runs ``arrive`` and ``wait``.
    block_barrier_before, block_barrier_after : bool
        Whether there is a ``bar.sync`` before ``arrive`` and after ``wait``.
    participates : callable
        ``(ctaid) -> bool``: whether that block runs the barrier at all.
    split : bool
        Whether arrive and wait are apart: the block passes a ``bar.sync`` of its own between them.
    """

    protocol: Texts
    leader: Callable[[Index, Index], bool] = first_thread
    block_barrier_before: bool = True
    block_barrier_after: bool = True
    participates: Callable[[Index], bool] = every_block
    split: bool = False


@dataclass(frozen=True)
class Grid:
    """One launch.

    Attributes
    ----------
    harness : Harness
        What every thread runs in each round.
    blocks, threads : tuple of int
        Extents over x, y, z.
    operands : tuple of int
        The address of each of the protocol's operands, in bytes.
    rounds : int
        How many times the barrier is passed.
    name : str
        For traces, where several launches run at once.
    """

    harness: Harness
    blocks: Index
    threads: Index
    operands: tuple[int, ...]
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
    values = {"%laneid": linear % 32}
    for name, index in (("tid", tid), ("ntid", grid.threads), ("ctaid", ctaid), ("nctaid", grid.blocks)):
        values.update({f"%{name}.{axis}": index[i] for i, axis in enumerate("xyz")})
    return values


def program(grid: Grid, ctaid: Index, tid: Index) -> list[Instruction]:
    """What one thread executes, with the pseudo instructions ``enter`` and ``leave`` around every barrier.

    ``enter r`` stands for everything the thread does before it reaches barrier ``r``; ``leave r`` is the
    point from which on it may rely on that barrier.
    """
    harness = grid.harness
    out: list[Instruction] = []
    for number in range(grid.rounds):
        out.append(_mark("enter", number))
        if harness.participates(ctaid):
            out += _barrier(grid, harness, harness.leader(tid, grid.threads), len(out), number)
        out.append(_mark("leave", number))
    out.append(Instruction(("exit",), (), text="exit"))
    return out


def _barrier(grid: Grid, harness: Harness, leads: bool, start: int, number: int) -> list[Instruction]:
    bindings = {"$0": Reg(f"token{number}"), **{f"${i + 1}": Imm(address) for i, address in enumerate(grid.operands)}}
    out: list[Instruction] = []
    if harness.block_barrier_before:
        out.append(_block_barrier())
    if leads:
        out += _at(start + len(out), parse(harness.protocol.arrive, bindings, f"a{number}."))
    if harness.split:
        out.append(_block_barrier())
    if leads:
        out += _at(start + len(out), parse(harness.protocol.wait, bindings, f"w{number}."))
    if harness.block_barrier_after:
        out.append(_block_barrier())
    return out


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
