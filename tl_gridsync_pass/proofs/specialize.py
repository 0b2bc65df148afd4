"""One thread's program with everything that its place in the launch decides folded in.

Threads and blocks whose folded programs are equal cannot be told apart, whatever the program did with their
indices; the exploration uses that as its only symmetry. Folding is constant propagation over the control
flow, followed by the removal of instructions whose result nobody reads.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from .harness import Grid, Index, place, program
from .ptx import CLOCK_REGISTERS, Imm, Instruction, Label, Mem, Operand, PtxError, Reg, Special, Vector, fence, is_block_barrier, is_memory
from .values import compute

_UNKNOWN = object()
ALL_BITS = (1 << 64) - 1


@dataclass(frozen=True)
class Node:
    """An instruction of a folded program, its successors and the registers that are read from here on."""

    instruction: Instruction
    next: int
    target: int
    live: tuple[str, ...]
    bits: tuple[int, ...]
    """The bits that matter of each register in ``live``: values that differ in others alone behave alike."""
    entered: int
    """How many ``enter`` marks lie behind this point."""
    left: int
    """How many ``leave`` marks lie behind this point."""


@dataclass(frozen=True)
class Program:
    """A folded program; execution starts at node 0."""

    nodes: tuple[Node, ...]

    def shape(self) -> tuple:
        """Equal for programs that behave alike."""
        return tuple(
            (n.instruction.opcode, n.instruction.operands, n.instruction.guard, n.instruction.negated, n.next, n.target) for n in self.nodes
        )


def specialize(grid: Grid, ctaid: Index, tid: Index) -> Program:
    """Fold the thread's place into its program.

    Raises
    ------
    PtxError
        Where a register may be read before it is written, or a text falls off its end.
    """
    return fold(program(grid, ctaid, tid), place(grid, ctaid, tid))


def fold(code: list[Instruction], known: dict[str, int]) -> Program:
    """Fold known special registers into a program that ends with ``exit``; see :func:`specialize`."""
    before = _propagate(code, known)
    folded = {pc: _fold(code[pc], env, known) for pc, env in before.items()}
    return _assemble(folded)


def destinations(instruction: Instruction) -> list[str]:
    """The registers that an instruction writes."""
    name = instruction.opcode[0]
    if is_memory(instruction) and name not in ("ld", "atom"):
        return []
    if name in ("bra", "enter", "leave", "trap", "exit", "ret", "nanosleep") or fence(instruction) or is_block_barrier(instruction):
        return []
    first = instruction.operands[0]
    if isinstance(first, Reg):
        return [first.name]
    if isinstance(first, Vector) and all(isinstance(p, Reg) for p in first.parts):
        return [p.name for p in first.parts if isinstance(p, Reg)]
    raise PtxError(f"{instruction.text!r} does not write a register")


def sources(instruction: Instruction) -> tuple[Operand, ...]:
    """The operands that an instruction reads."""
    return instruction.operands[1:] if destinations(instruction) else instruction.operands


def read_registers(instruction: Instruction) -> Iterator[str]:
    """The registers that an instruction reads, its guard among them."""
    if instruction.guard is not None:
        yield instruction.guard.name
    for operand in sources(instruction):
        for part in operand.parts if isinstance(operand, Vector) else (operand.base,) if isinstance(operand, Mem) else (operand,):
            if isinstance(part, Reg):
                yield part.name


def is_local(instruction: Instruction) -> bool:
    """Whether only the executing thread's registers are concerned."""
    name = instruction.opcode[0]
    return not (
        is_memory(instruction)
        or is_block_barrier(instruction)
        or name in ("enter", "leave", "trap", "exit", "ret")
        or reads_clock(instruction)
    )


def reads_clock(instruction: Instruction) -> bool:
    """Whether the instruction reads a register that only time decides."""
    return any(isinstance(o, Special) and o.name in CLOCK_REGISTERS for o in instruction.operands)


def _ends(instruction: Instruction) -> bool:
    return instruction.opcode[0] in ("exit", "ret", "trap") and instruction.guard is None


def _value(operand: Operand, env: dict[str, Any], known: dict[str, int], instruction: Instruction) -> Any:
    if isinstance(operand, Imm):
        return operand.value
    if isinstance(operand, Special):
        return known.get(operand.name, _UNKNOWN)
    if isinstance(operand, Vector):
        parts = [_value(p, env, known, instruction) for p in operand.parts]
        return _UNKNOWN if _UNKNOWN in parts else parts
    assert isinstance(operand, Reg)
    if operand.name not in env:
        raise PtxError(f"register {operand.name} may be read before it is written in {instruction.text!r}")
    return env[operand.name]


def _guard(instruction: Instruction, env: dict[str, Any], known: dict[str, int]) -> Any:
    """True, False, or _UNKNOWN: whether the instruction executes."""
    if instruction.guard is None:
        return True
    value = _value(instruction.guard, env, known, instruction)
    return value if value is _UNKNOWN else bool(value) != instruction.negated


def _propagate(code: list[Instruction], known: dict[str, int]) -> dict[int, dict[str, Any]]:
    before: dict[int, dict[str, Any]] = {0: {}}
    work = [0]
    while work:
        pc = work.pop()
        for successor, env in _flow(code[pc], pc, before[pc], known):
            if successor >= len(code):
                raise PtxError("control falls off the end of the program")
            old = before.get(successor)
            merged = env if old is None else {r: v if env[r] is v or env[r] == v else _UNKNOWN for r, v in old.items() if r in env}
            if old is None or merged != old:
                before[successor] = merged
                work.append(successor)
    return before


def _flow(instruction: Instruction, pc: int, env: dict[str, Any], known: dict[str, int]) -> Iterator[tuple[int, dict[str, Any]]]:
    guard = _guard(instruction, env, known)
    name = instruction.opcode[0]
    if name == "bra":
        (label,) = instruction.operands
        assert isinstance(label, Label)
        if guard is not False:
            yield label.target, env
        if guard is not True:
            yield pc + 1, env
        return
    if _ends(instruction) and guard is True:
        return
    written = {} if guard is False else _written(instruction, env, known)
    after = dict(env)
    for register, value in written.items():
        if guard is True:
            after[register] = value
        elif register in env:
            after[register] = value if env[register] == value else _UNKNOWN
        # Written on one path only: not defined after it.
    yield pc + 1, after


def _written(instruction: Instruction, env: dict[str, Any], known: dict[str, int]) -> dict[str, Any]:
    names = destinations(instruction)
    for register in read_registers(instruction):
        _value(Reg(register), env, known, instruction)
    if not names:
        return {}
    if not is_local(instruction):
        return dict.fromkeys(names, _UNKNOWN)
    arguments = [_value(o, env, known, instruction) for o in sources(instruction)]
    if len(names) > 1:
        return {name: _UNKNOWN if arguments[0] is _UNKNOWN else (arguments[0] >> 32 * i) & 0xFFFFFFFF for i, name in enumerate(names)}
    return {names[0]: _UNKNOWN if any(a is _UNKNOWN for a in arguments) else compute(instruction, arguments)}


def _fold(instruction: Instruction, env: dict[str, Any], known: dict[str, int]) -> Instruction | None:
    """The instruction with known values in it; None where it never executes."""
    guard = _guard(instruction, env, known)
    if guard is False:
        return None
    if guard is True:
        instruction = replace(instruction, guard=None, negated=False)
    written = _written(instruction, env, known)
    if guard is True and len(written) == 1 and is_local(instruction):
        ((name, value),) = written.items()
        if value is not _UNKNOWN:
            return Instruction(("mov", "constant"), (Reg(name), Imm(int(value))), text=instruction.text)

    def fold(operand: Operand) -> Operand:
        if isinstance(operand, Mem):
            base = fold(operand.base)
            assert isinstance(base, (Reg, Imm))
            return Mem(Imm(base.value + operand.offset), 0) if isinstance(base, Imm) else Mem(base, operand.offset)
        if isinstance(operand, Vector):
            return Vector(tuple(fold(p) for p in operand.parts))  # type: ignore[misc]
        if isinstance(operand, (Reg, Special)):
            value = _value(operand, env, known, instruction)
            return operand if value is _UNKNOWN else Imm(int(value))
        return operand

    kept = len(instruction.operands) - len(sources(instruction))
    return replace(instruction, operands=instruction.operands[:kept] + tuple(fold(o) for o in instruction.operands[kept:]))


def _assemble(folded: dict[int, Instruction | None]) -> Program:
    alive = dict(folded)

    def settle(pc: int) -> int:
        """The first instruction at or after ``pc`` that does something."""
        seen = set()
        while True:
            instruction = alive[pc]
            if instruction is None:
                pc += 1
            elif instruction.opcode[0] == "bra" and instruction.guard is None:
                if pc in seen:
                    raise PtxError("a loop that does nothing")
                seen.add(pc)
                pc = instruction.operands[0].target  # type: ignore[union-attr]
            else:
                return pc

    while True:
        order, edges = _walk(alive, settle)
        live = _liveness(alive, order, edges)
        dead = [pc for pc in order if _is_dead(alive[pc], edges[pc], live)]
        if not dead:
            break
        for pc in dead:
            alive[pc] = None
    entered, left = (_marks(name, alive, order, edges) for name in ("enter", "leave"))
    number = {pc: i for i, pc in enumerate(order)}
    nodes = []
    for pc in order:
        instruction = alive[pc]
        assert instruction is not None
        if instruction.opcode[0] == "bra":
            instruction = replace(instruction, operands=())
        following, target = edges[pc]
        names = tuple(sorted(live[pc]))
        bits = tuple(live[pc][name] for name in names)
        nodes.append(Node(instruction, number.get(following, -1), number.get(target, -1), names, bits, entered[pc], left[pc]))
    return Program(tuple(nodes))


def _walk(alive, settle) -> tuple[list[int], dict[int, tuple[int, int]]]:
    order: list[int] = []
    edges: dict[int, tuple[int, int]] = {}
    work = [settle(0)]
    while work:
        pc = work.pop()
        if pc in edges:
            continue
        instruction = alive[pc]
        order.append(pc)
        following = -1 if _ends(instruction) else settle(pc + 1)
        target = settle(instruction.operands[0].target) if instruction.opcode[0] == "bra" else -1
        edges[pc] = (following, target)
        work += [p for p in (target, following) if p >= 0]
    return order, edges


def _liveness(alive, order, edges) -> dict[int, dict[str, int]]:
    """The registers that are read from each point on, with the bits of them that matter."""
    live: dict[int, dict[str, int]] = {pc: {} for pc in order}
    changed = True
    while changed:
        changed = False
        for pc in reversed(order):
            instruction = alive[pc]
            out: dict[str, int] = {}
            for successor in edges[pc]:
                _demand(out, live.get(successor, {}))
            now = dict(out)
            if instruction.guard is None:
                for name in destinations(instruction):
                    now.pop(name, None)
            _demand(now, _demanded(instruction, out))
            if now != live[pc]:
                live[pc], changed = now, True
    return live


def _demand(into: dict[str, int], more: dict[str, int]) -> None:
    for name, bits in more.items():
        if bits:
            into[name] = into.get(name, 0) | bits


def _demanded(instruction: Instruction, out: dict[str, int]) -> dict[str, int]:
    """The bits that an instruction reads, given those of its result that are read later."""
    opcode, operands = instruction.opcode, instruction.operands
    wanted = dict.fromkeys(read_registers(instruction), ALL_BITS)
    if not is_local(instruction) or len(opcode) < 2:
        return wanted
    if opcode[0] == "setp" and len(opcode) == 3 and opcode[1] in ("ge", "lt") and opcode[2] in ("s32", "s64") and operands[2] == Imm(0):
        # The sign alone decides.
        bits = 1 << int(opcode[2][1:]) - 1
    elif (
        opcode[0] in ("xor", "or", "and", "not", "mov")
        and opcode[-1] != "pred"
        and isinstance(operands[0], Reg)
        and not isinstance(operands[1], Vector)
    ):
        bits = out.get(operands[0].name, 0)
        if opcode[0] == "and" and isinstance(operands[2], Imm):
            bits &= operands[2].value
    else:
        return wanted
    for operand in sources(instruction):
        if isinstance(operand, Reg) and (instruction.guard is None or operand != instruction.guard):
            wanted[operand.name] = bits
    return wanted


def _is_dead(instruction: Instruction | None, edges: tuple[int, int], live: dict[int, dict[str, int]]) -> bool:
    assert instruction is not None
    if not is_local(instruction) or instruction.opcode[0] == "bra" or fence(instruction) or instruction.opcode[0] == "nanosleep":
        return False
    return not any(name in live[p] for name in destinations(instruction) for p in edges if p >= 0)


def _marks(name: str, alive, order, edges) -> dict[int, int]:
    counts: dict[int, int] = {order[0]: 0}
    work = [order[0]]
    while work:
        pc = work.pop()
        count = counts[pc] + (alive[pc].opcode[0] == name)
        for successor in edges[pc]:
            if successor < 0:
                continue
            if successor not in counts:
                counts[successor] = count
                work.append(successor)
            elif counts[successor] != count:
                raise PtxError("a barrier that is entered a different number of times on different paths")
    return counts
