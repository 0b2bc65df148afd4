"""A parser for the PTX subset that barrier protocols use.

It knows the instructions listed in ``_SHAPES`` and the memory operations that :func:`access` reads, and
raises :class:`PtxError` on anything else: a proof must not skip what it does not understand. Register
declarations and labels are scoped by braces as in PTX, so a text can be used several times in one program.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass


class PtxError(ValueError):
    """PTX that this package does not understand, or that PTX itself would refuse."""


@dataclass(frozen=True, order=True)
class Reg:
    """A register, by a name that is unique in its program."""

    name: str


@dataclass(frozen=True, order=True)
class Imm:
    """An integer constant, as written (not yet cut to a width)."""

    value: int


@dataclass(frozen=True, order=True)
class Special:
    """A special register such as ``%tid.x``."""

    name: str


@dataclass(frozen=True, order=True)
class Mem:
    """``[base + offset]``; the offset is in bytes."""

    base: Reg | Imm
    offset: int = 0


@dataclass(frozen=True, order=True)
class Vector:
    """``{a, b}``, least significant part first."""

    parts: tuple[Reg | Imm, ...]


@dataclass(frozen=True, order=True)
class Label:
    """A branch target: the index of an instruction in the same program."""

    target: int


Operand = Reg | Imm | Special | Mem | Vector | Label


@dataclass(frozen=True)
class Instruction:
    """One instruction: ``@guard opcode operands``. ``text`` is the source, for traces and errors."""

    opcode: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Reg | None = None
    negated: bool = False
    text: str = ""

    @property
    def name(self) -> str:
        return ".".join(self.opcode)


@dataclass(frozen=True)
class Access:
    """What a memory instruction does.

    Attributes
    ----------
    kind : str
        ``"ld"``, ``"st"``, ``"atom"`` or ``"red"``.
    order : str
        ``"weak"``, ``"relaxed"``, ``"acquire"``, ``"release"`` or ``"acq_rel"``.
    scope : str or None
        ``"cta"``, ``"cluster"``, ``"gpu"`` or ``"sys"``; None for a weak operation.
    operation : str or None
        The read-modify-write operation of ``atom`` and ``red``.
    type : str
        For example ``"u32"``.
    """

    kind: str
    order: str
    scope: str | None
    operation: str | None
    type: str

    @property
    def width(self) -> int:
        return int(self.type[1:])

    @property
    def reads(self) -> bool:
        return self.kind != "st"

    @property
    def writes(self) -> bool:
        return self.kind != "ld"


SCOPES = ("cta", "cluster", "gpu", "sys")
ORDERS = ("weak", "relaxed", "acquire", "release", "acq_rel")
RMW_OPERATIONS = ("add", "inc", "dec", "exch", "cas", "and", "or", "xor", "min", "max")
_ORDERS_OF = {
    "ld": ("weak", "relaxed", "acquire"),
    "st": ("weak", "relaxed", "release"),
    "atom": ("relaxed", "acquire", "release", "acq_rel"),
    "red": ("relaxed", "release"),
}
INTEGER_TYPES = ("u32", "s32", "b32", "u64", "s64", "b64")
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge", "lo", "ls", "hi", "hs")

# Special registers that the launch and the thread's place in it decide.
PLACE_REGISTERS = (
    *(f"%{name}.{axis}" for name in ("tid", "ntid", "ctaid", "nctaid") for axis in "xyz"),
    "%laneid",
    "%envreg1",
    "%envreg2",
)
# Special registers whose value nothing in the program decides.
CLOCK_REGISTERS = ("%globaltimer", "%globaltimer_lo", "%clock", "%clock64")

# Opcode patterns of everything that is not a memory operation, with the number of operands.
_TYPE = "(u32|s32|b32|u64|s64|b64)"
_SHAPES = {
    rf"mov\.({_TYPE}|pred)": 2,
    rf"cvt\.{_TYPE}\.{_TYPE}": 2,
    rf"(add|sub|mul\.lo|min|max|and|or|xor|div|rem)\.{_TYPE}": 3,
    r"mul\.wide\.(u32|s32)": 3,
    rf"mad\.lo\.{_TYPE}": 4,
    rf"(not|neg)\.{_TYPE}": 2,
    rf"(shl|shr)\.{_TYPE}": 3,
    r"(and|or|xor)\.pred": 3,
    r"not\.pred": 2,
    rf"setp\.({'|'.join(COMPARISONS)})\.{_TYPE}": 3,
    rf"setp\.({'|'.join(COMPARISONS)})\.(and|or|xor)\.{_TYPE}": 4,
    rf"selp\.{_TYPE}": 4,
    r"bra(\.uni)?": 1,
    r"(bar|barrier)\.sync|bar\.cta\.sync|barrier\.cta\.sync": 1,
    r"fence(\.(sc|acq_rel|acquire|release))?\.(cta|cluster|gpu|sys)": 0,
    r"membar\.(cta|gl|sys)": 0,
    r"nanosleep\.u32": 1,
    r"trap|exit|ret": 0,
}
_SHAPES_COMPILED = [(re.compile(pattern), count) for pattern, count in _SHAPES.items()]
_MEMORY_OPERANDS = {"ld": 2, "st": 2, "atom": 3, "red": 2}


def is_memory(instruction: Instruction) -> bool:
    """Whether the instruction reads or writes memory."""
    return instruction.opcode[0] in _ORDERS_OF


def access(instruction: Instruction) -> Access:
    """What a memory instruction does.

    Raises
    ------
    PtxError
        For a qualifier that is unknown, missing, or not allowed there.
    """
    kind, *qualifiers = instruction.opcode
    order = scope = operation = type_name = None
    for qualifier in qualifiers:
        if qualifier in RMW_OPERATIONS and kind in ("atom", "red") and operation is None:
            operation = qualifier
        elif qualifier in ORDERS and order is None:
            order = qualifier
        elif qualifier == "volatile" and kind in ("ld", "st") and order is None:
            # PTX ISA, "ld": volatile has the memory ordering of relaxed at system scope.
            order, scope = "relaxed", "sys"
        elif qualifier in SCOPES and scope is None:
            scope = qualifier
        elif qualifier == "global":
            continue
        elif qualifier in INTEGER_TYPES and type_name is None:
            type_name = qualifier
        else:
            raise PtxError(f"unknown qualifier .{qualifier} in {instruction.text!r}")
    if type_name is None:
        raise PtxError(f"no known type in {instruction.text!r}")
    if kind in ("atom", "red"):
        if operation is None:
            raise PtxError(f"no known operation in {instruction.text!r}")
        # PTX ISA, "atom": without .sem relaxed is assumed, without .scope gpu.
        order, scope = order or "relaxed", scope or "gpu"
    else:
        order = order or "weak"
        if (scope is None) != (order == "weak"):
            raise PtxError(f"{instruction.text!r} needs a scope exactly if it is not weak")
    if order not in _ORDERS_OF[kind]:
        raise PtxError(f"{kind} cannot be .{order} in {instruction.text!r}")
    return Access(kind, order, scope, operation, type_name)


def fence(instruction: Instruction) -> tuple[str, str] | None:
    """(semantics, scope) of a fence, with ``sc``, ``acq_rel``, ``acquire`` or ``release``; None for anything else."""
    if instruction.opcode[0] == "membar":
        # PTX ISA, "membar / fence": on sm_70 and later membar is a synonym for fence.sc.
        return "sc", {"cta": "cta", "gl": "gpu", "sys": "sys"}[instruction.opcode[1]]
    if instruction.opcode[0] == "fence":
        return (instruction.opcode[1], instruction.opcode[2]) if len(instruction.opcode) == 3 else ("acq_rel", instruction.opcode[1])
    return None


def is_block_barrier(instruction: Instruction) -> bool:
    """Whether the instruction is ``bar.sync`` under one of its names."""
    return instruction.opcode[0] in ("bar", "barrier")


def parse(text: str, bindings: Mapping[str, Operand] | None = None, prefix: str = "") -> list[Instruction]:
    """Parse a PTX text.

    Parameters
    ----------
    text : str
        Statements as in inline assembly; ``$0``, ``$1``, ... are its operands.
    bindings : mapping
        What stands for each ``$n``, by name.
    prefix : str
        Put before every register name, to keep two texts in one program apart.

    Raises
    ------
    PtxError
        For anything outside the subset, an undeclared register or an unknown label.
    """
    return _Parser(dict(bindings or {}), prefix).run(text)


@dataclass
class _Scope:
    number: int
    parent: _Scope | None
    registers: dict[str, str]
    labels: dict[str, int]

    def find(self, table: str, name: str):
        scope: _Scope | None = self
        while scope is not None:
            if name in getattr(scope, table):
                return getattr(scope, table)[name]
            scope = scope.parent
        return None


class _Parser:
    def __init__(self, bindings: dict[str, Operand], prefix: str) -> None:
        self.bindings = bindings
        self.prefix = prefix
        self.out: list[tuple[Instruction, _Scope]] = []
        self.targets: list[str] = []
        self.scopes = 0
        self.scope = self._open(None)

    def _open(self, parent: _Scope | None) -> _Scope:
        self.scopes += 1
        return _Scope(self.scopes, parent, {}, {})

    def run(self, text: str) -> list[Instruction]:
        text = re.sub(r"/\*.*?\*/", " ", text, flags=re.S)
        text = re.sub(r"//[^\n]*", " ", text).replace("${:uid}", "_uid").replace("$$", "$")
        outermost = self.scope
        position = 0
        while position < len(text):
            rest = text[position:]
            if found := re.match(r"\s+", rest):
                position += found.end()
            elif rest[0] == "{":
                self.scope = self._open(self.scope)
                position += 1
            elif rest[0] == "}":
                if self.scope.parent is None:
                    raise PtxError("a closing brace without an opening one")
                self.scope = self.scope.parent
                position += 1
            elif found := re.match(r"([A-Za-z_][\w$]*)\s*:", rest):
                if found[1] in self.scope.labels:
                    raise PtxError(f"label {found[1]} stands twice in one scope")
                self.scope.labels[found[1]] = len(self.out)
                position += found.end()
            else:
                end = rest.find(";")
                if end < 0:
                    raise PtxError(f"a statement without a semicolon: {rest.strip()!r}")
                self._statement(" ".join(rest[:end].split()))
                position += end + 1
        if self.scope is not outermost:
            raise PtxError("an opening brace without a closing one")
        return [self._resolve(instruction, scope) for instruction, scope in self.out]

    def _statement(self, statement: str) -> None:
        if statement.startswith("."):
            self._declaration(statement)
            return
        found = re.fullmatch(r"(?:@(!?)([%$]?[\w$.]+)\s+)?([a-z][\w.]*)(?:\s+(.*))?", statement)
        if found is None:
            raise PtxError(f"not a PTX statement: {statement!r}")
        guard = self._operand(found[2], statement) if found[2] else None
        if guard is not None and not isinstance(guard, Reg):
            raise PtxError(f"the guard of {statement!r} is not a register")
        opcode = tuple(found[3].split("."))
        raw = _split_operands(found[4] or "")
        operands: tuple[Operand, ...]
        if opcode[0] == "bra" and len(raw) == 1:
            # The target may follow later; _resolve replaces the number of the name by the instruction's.
            self.targets.append(raw[0])
            operands = (Label(len(self.targets) - 1),)
        else:
            operands = tuple(self._operand(part, statement) for part in raw)
        instruction = Instruction(opcode, operands, guard, found[1] == "!", statement)
        _check(instruction)
        self.out.append((instruction, self.scope))

    def _resolve(self, instruction: Instruction, scope: _Scope) -> Instruction:
        if instruction.opcode[0] != "bra":
            return instruction
        (label,) = instruction.operands
        assert isinstance(label, Label)
        name = self.targets[label.target]
        target = scope.find("labels", name)
        if target is None:
            raise PtxError(f"no label {name} in sight of {instruction.text!r}")
        return Instruction(instruction.opcode, (Label(target),), instruction.guard, instruction.negated, instruction.text)

    def _declaration(self, statement: str) -> None:
        found = re.fullmatch(r"\.reg\s+\.(pred|[bus](?:32|64))\s+(.+)", statement)
        if found is None:
            raise PtxError(f"unknown declaration {statement!r}")
        for name in (part.strip() for part in found[2].split(",")):
            counted = re.fullmatch(r"(%?[\w$]+)<(\d+)>", name)
            names = [f"{counted[1]}{i}" for i in range(int(counted[2]))] if counted else [name]
            for one in names:
                if not re.fullmatch(r"%?[A-Za-z_$][\w$]*", one):
                    raise PtxError(f"not a register name: {one!r} in {statement!r}")
                if one in self.scope.registers:
                    raise PtxError(f"register {one} is declared twice in one scope")
                self.scope.registers[one] = f"{self.prefix}{one.lstrip('%')}#{self.scope.number}"

    def _operand(self, text: str, statement: str) -> Operand:
        if text in self.bindings:
            return self.bindings[text]
        if text.startswith("{") and text.endswith("}"):
            parts: list[Reg | Imm] = []
            for part in _split_operands(text[1:-1]):
                operand = self._operand(part, statement)
                if not isinstance(operand, (Reg, Imm)):
                    raise PtxError(f"unknown vector {text!r} in {statement!r}")
                parts.append(operand)
            return Vector(tuple(parts))
        if text.startswith("[") and text.endswith("]"):
            found = re.fullmatch(r"\[\s*([^\s+\-]+)\s*(?:([+-])\s*(\w+))?\s*\]", text)
            base = self._operand(found[1], statement) if found else None
            if found is None or not isinstance(base, (Reg, Imm)):
                raise PtxError(f"unknown address {text!r} in {statement!r}")
            offset = _integer(found[3], statement) if found[3] else 0
            return Mem(base, -offset if found[2] == "-" else offset)
        if re.fullmatch(r"-?(0[xX][0-9a-fA-F]+|\d+)[uU]?", text):
            return Imm(_integer(text, statement))
        register = self.scope.find("registers", text)
        if register is not None:
            return Reg(register)
        if text in PLACE_REGISTERS or text in CLOCK_REGISTERS:
            return Special(text)
        raise PtxError(f"{text!r} in {statement!r} is neither a declared register nor a known special register")


def _integer(text: str, statement: str) -> int:
    try:
        return int(text.rstrip("uU"), 0)
    except ValueError:
        raise PtxError(f"not an integer: {text!r} in {statement!r}") from None


def _split_operands(text: str) -> list[str]:
    parts, depth, current = [], 0, ""
    for char in text:
        depth += (char in "{[") - (char in "}]")
        if char == "," and depth == 0:
            parts.append(current.strip())
            current = ""
        else:
            current += char
    if current.strip():
        parts.append(current.strip())
    return parts


def _check(instruction: Instruction) -> None:
    if is_memory(instruction):
        what = access(instruction)
        expected = _MEMORY_OPERANDS[what.kind] + (what.operation == "cas")
        address = instruction.operands[1 if what.kind in ("ld", "atom") else 0] if instruction.operands else None
        if len(instruction.operands) != expected or not isinstance(address, Mem):
            raise PtxError(f"wrong operands in {instruction.text!r}")
        return
    for pattern, count in _SHAPES_COMPILED:
        if pattern.fullmatch(instruction.name):
            if len(instruction.operands) != count:
                raise PtxError(f"{instruction.text!r} needs {count} operands")
            if is_block_barrier(instruction) and not isinstance(instruction.operands[0], Imm):
                raise PtxError(f"{instruction.text!r}: only a constant barrier number is understood")
            return
    raise PtxError(f"unknown instruction {instruction.text!r}")
