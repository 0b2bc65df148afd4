"""A thread's program as sequences of memory-model events, one for each path through it.

Values read from memory are z3 terms; a branch on one of them starts two paths, each with its condition. A
loop is left at its first exit. That loses nothing where the loop only reads and nothing but sleeping depends
on what it carries from turn to turn, which is checked: dropping the reads of the failed turns from an
execution leaves an execution, since every axiom of the model only forbids things of the relations they
are in, and no value that is written changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import z3

from .memory_model import Event
from .ptx import Imm, Instruction, Mem, PtxError, Reg, access, fence, is_block_barrier, is_memory
from .specialize import Program, destinations, is_local, read_registers, reads_clock, sources
from .values import compute, cut, read_modify_write

_NOTHING: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Probe:
    """A weak access that the caller puts at a mark: ``kind`` "R" or "W", and the value of a write."""

    kind: str
    location: Any
    value: int = 0
    label: str = ""


@dataclass
class Path:
    """One path of one thread.

    ``depends`` and ``partner`` of the events count from the start of the path. ``registers`` holds the final
    values, ``probes`` the indices of the events that stand for each probe.
    """

    events: list[Event] = field(default_factory=list)
    conditions: list[Any] = field(default_factory=list)
    registers: dict[str, Any] = field(default_factory=dict)
    probes: dict[Probe, int] = field(default_factory=dict)


def paths(program: Program, thread: int, block: int, probes: Callable[[str, int], list[Probe]] = lambda mark, number: []) -> Iterator[Path]:
    """Every path of a folded program.

    Parameters
    ----------
    program : Program
        From :func:`.specialize.specialize`.
    thread, block : int
        Index of the thread, and the number that tells its block's barriers from those of others.
    probes : callable
        ``(mark, number) -> list of Probe``: what the thread accesses at the mark ``enter`` or ``leave``.
    """
    yield from _Executor(program, thread, block, probes).run()


@dataclass
class _State:
    node: int
    path: Path
    taint: dict[str, frozenset[int]]
    control: frozenset[int]
    visited: list[int]
    decided: dict[int, bool] = field(default_factory=dict)
    """Which way the path went on a predicate, by the z3 identity of its term."""
    barriers: int = 0

    def fork(self) -> _State:
        path = Path(list(self.path.events), list(self.path.conditions), dict(self.path.registers), dict(self.path.probes))
        return _State(self.node, path, dict(self.taint), self.control, list(self.visited), dict(self.decided), self.barriers)

    def assume(self, predicate: Any, holds: bool) -> None:
        self.decided[predicate.get_id()] = holds
        self.path.conditions.append(predicate if holds else z3.Not(predicate))


class _Executor:
    def __init__(self, program: Program, thread: int, block: int, probes: Callable[[str, int], list[Probe]]) -> None:
        self.nodes = program.nodes
        self.thread = thread
        self.block = block
        self.probes = probes
        self.fresh = 0

    def run(self) -> Iterator[Path]:
        work = [_State(0, Path(), {}, _NOTHING, [])]
        while work:
            state = work.pop()
            node = self.nodes[state.node]
            instruction = node.instruction
            if state.node in state.visited:
                self._require_plain_loop(state)
                continue
            state.visited.append(state.node)
            if instruction.guard is not None:
                predicate = state.path.registers[instruction.guard.name]
                state.control |= state.taint.get(instruction.guard.name, _NOTHING)
                if not isinstance(predicate, (bool, int)) and is_local(instruction) and instruction.opcode[0] != "bra":
                    # A choice between two register values starts no second path.
                    self._local(state, instruction, z3.Not(predicate) if instruction.negated else predicate)
                    state.node = node.next
                    work.append(state)
                    continue
                if not isinstance(predicate, (bool, int)) and predicate.get_id() not in state.decided:
                    other = state.fork()
                    other.assume(predicate, instruction.negated)
                    other.node = node.next
                    work.append(other)
                    state.assume(predicate, not instruction.negated)
                holds = predicate if isinstance(predicate, (bool, int)) else state.decided[predicate.get_id()]
                if bool(holds) == instruction.negated:
                    state.node = node.next
                    work.append(state)
                    continue
            name = instruction.opcode[0]
            if name in ("exit", "ret"):
                yield state.path
                continue
            if name == "trap":
                continue
            if name == "bra":
                state.node = node.target
            else:
                self._execute(state, instruction)
                state.node = node.next
            work.append(state)

    def _require_plain_loop(self, state: _State) -> None:
        """Refuse a loop whose failed turns could matter to anything but the time they take."""
        body = state.visited[state.visited.index(state.node) :]
        code = [self.nodes[n].instruction for n in body]
        for instruction in code:
            if (is_memory(instruction) and access(instruction).writes) or is_block_barrier(instruction):
                raise PtxError(f"a loop that does more than read: {instruction.text!r}")
        written = {r for i in code for r in destinations(i)}
        carried = written & set(self.nodes[state.node].live)
        for instruction in code:
            used = carried & set(read_registers(instruction))
            if used and instruction.opcode[0] != "nanosleep" and not (set(destinations(instruction)) <= carried and is_local(instruction)):
                raise PtxError(f"a loop that depends on its own earlier turns: {instruction.text!r}")
        for n in body:
            for successor in (self.nodes[n].next, self.nodes[n].target):
                if successor >= 0 and successor not in body and carried & set(self.nodes[successor].live):
                    raise PtxError("a loop whose number of turns is used after it")

    def _execute(self, state: _State, instruction: Instruction) -> None:
        name = instruction.opcode[0]
        path = state.path
        if name in ("enter", "leave"):
            number = instruction.operands[0].value  # type: ignore[union-attr]
            for probe in self.probes(name, number):
                value = self._unknown() if probe.kind == "R" else probe.value
                path.probes[probe] = len(path.events)
                path.events.append(Event(probe.kind, self.thread, "weak", None, probe.location, value, state.control, label=probe.label))
        elif is_block_barrier(instruction):
            instance = ("bar", self.block, state.barriers)
            state.barriers += 1
            path.events.append(Event("BA", self.thread, location=instance, label="bar.sync (arrive)"))
            path.events.append(Event("BW", self.thread, location=instance, label="bar.sync (return)"))
        elif fence(instruction):
            order, scope = fence(instruction) or ("", "")
            path.events.append(Event("F", self.thread, order, scope, label=instruction.text))
        elif is_memory(instruction):
            self._memory(state, instruction)
        elif reads_clock(instruction):
            (register,) = destinations(instruction)
            path.registers[register] = z3.BitVec(f"clock_{self.thread}_{len(path.events)}", 64 if "64" in instruction.opcode[-1] else 32)
            state.taint[register] = _NOTHING
        else:
            self._local(state, instruction)

    def _local(self, state: _State, instruction: Instruction, only_if: Any = True) -> None:
        names = destinations(instruction)
        if not names:
            return
        registers = state.path.registers
        taint = frozenset().union(*(state.taint.get(r, _NOTHING) for r in read_registers(instruction)))
        if instruction.opcode == ("mov", "constant"):
            value: Any = instruction.operands[1].value  # type: ignore[union-attr]
        else:
            value = compute(instruction, [self._read(o, registers) for o in sources(instruction)])
        if len(names) != 1:
            raise PtxError(f"not understood on symbolic values: {instruction.text!r}")
        if only_if is not True:
            taint |= state.taint.get(names[0], _NOTHING)
            old = registers[names[0]]
            if isinstance(value, bool) or z3.is_bool(value):
                value = z3.If(only_if, value, old)
            else:
                width = 64 if "64" in instruction.opcode[-1] else 32
                value = z3.If(only_if, *(z3.BitVecVal(v, width) if isinstance(v, int) else v for v in (value, old)))
        registers[names[0]] = value
        state.taint[names[0]] = taint

    def _memory(self, state: _State, instruction: Instruction) -> None:
        what = access(instruction)
        path, operands = state.path, instruction.operands
        if what.width != 32:
            raise PtxError(f"only 32-bit words are modelled: {instruction.text!r}")
        place = operands[1 if what.kind in ("ld", "atom") else 0]
        assert isinstance(place, Mem)
        if not isinstance(place.base, Imm):
            raise PtxError(f"an address that is not known: {instruction.text!r}")
        location = cut(place.base.value + place.offset, 64)
        read_order = {"acquire": "acquire", "acq_rel": "acquire", "weak": "weak"}.get(what.order, "relaxed")
        write_order = {"release": "release", "acq_rel": "release", "weak": "weak"}.get(what.order, "relaxed")
        read = None
        if what.reads:
            read = len(path.events)
            value = self._unknown()
            path.events.append(
                Event("R", self.thread, read_order, what.scope, location, value, state.control, None, what.kind != "red", instruction.text)
            )
        data = operands[2:] if what.kind == "atom" else operands[1:]
        if what.writes:
            arguments = [self._read(o, path.registers) for o in data]
            taint = state.control.union(*(state.taint.get(o.name, _NOTHING) for o in data if isinstance(o, Reg)))
            if read is None:
                written = arguments[0]
            else:
                written = read_modify_write(what.operation or "", what.type, path.events[read].value, arguments)
            if isinstance(written, int):
                written = cut(written, 32)
            path.events.append(Event("W", self.thread, write_order, what.scope, location, written, taint, read, True, instruction.text))
        if what.kind in ("ld", "atom"):
            (register,) = destinations(instruction)
            assert read is not None
            path.registers[register] = path.events[read].value
            state.taint[register] = frozenset({read})

    def _unknown(self) -> Any:
        self.fresh += 1
        return z3.BitVec(f"value_{self.thread}_{self.fresh}", 32)

    @staticmethod
    def _read(operand: Any, registers: dict[str, Any]) -> Any:
        return operand.value if isinstance(operand, Imm) else registers[operand.name]


def joined(chosen: list[Path]) -> tuple[list[Event], list[Any], list[int]]:
    """The events of one path of every thread together, their conditions, and where each path starts."""
    events: list[Event] = []
    conditions: list[Any] = []
    starts: list[int] = []
    for path in chosen:
        start = len(events)
        starts.append(start)
        for event in path.events:
            partner = None if event.partner is None else event.partner + start
            events.append(replace(event, depends=frozenset(d + start for d in event.depends), partner=partner))
        conditions += path.conditions
    return events, conditions, starts
