"""What an arithmetic instruction computes, on Python integers and on z3 terms alike.

A register holds an unsigned integer of its type's width or a bool for a predicate. Where every argument is
a Python value so is the result; otherwise the result is a z3 term, and z3 is imported only then.
"""

from __future__ import annotations

from typing import Any

from .ptx import Instruction, PtxError, Vector

_UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}


def width_of(type_name: str) -> int:
    """Bits of a PTX type such as ``"u32"``; 1 for ``"pred"``."""
    return 1 if type_name == "pred" else int(type_name[1:])


def cut(value: int, width: int) -> int:
    """``value`` as an unsigned integer of ``width`` bits."""
    return value & ((1 << width) - 1)


def signed(value: int, width: int) -> int:
    """The two's complement reading of an unsigned ``value``."""
    return value - (1 << width) if value >> (width - 1) else value


def destination_type(instruction: Instruction) -> str:
    """The type of the register that a non-memory instruction writes."""
    opcode = instruction.opcode
    if opcode[0] == "setp":
        return "pred"
    if opcode[0] == "cvt":
        return opcode[1]
    if opcode[:2] == ("mul", "wide"):
        return opcode[2][0] + "64"
    return opcode[-1]


def compute(instruction: Instruction, arguments: list[Any]) -> Any:
    """The result of a register-to-register instruction.

    Parameters
    ----------
    instruction : Instruction
        Not a branch, barrier, fence or memory operation.
    arguments : list
        The values of its source operands, in order; a :class:`~.ptx.Vector` source is a list of values.
    """
    opcode = instruction.opcode
    name, type_name = opcode[0], opcode[-1]
    if name == "mov" and isinstance(instruction.operands[1], Vector):
        low, high = arguments[0]
        return _shl(_extend(high, 32, 64, False), 32, 64) | _extend(low, 32, 64, False)
    if name == "setp":
        result = _compare(opcode[1], type_name, arguments[0], arguments[1])
        return _boolean(opcode[2], result, arguments[2]) if len(opcode) == 4 else result
    if type_name == "pred":
        return _boolean(name, *arguments)
    width = width_of(type_name)
    if name == "selp":
        return _select(arguments[2], _fit(arguments[0], width), _fit(arguments[1], width), width)
    if name == "cvt":
        return _extend(_fit(arguments[0], width), width, width_of(opcode[1]), type_name[0] == "s")
    if opcode[:2] == ("mul", "wide"):
        wide = [_extend(_fit(a, 32), 32, 64, type_name[0] == "s") for a in arguments]
        return _fit(wide[0] * wide[1], 64)
    a = [_fit(value, width) for value in arguments]
    if name == "mov":
        return a[0]
    if name == "add":
        return _fit(a[0] + a[1], width)
    if name == "sub":
        return _fit(a[0] - a[1], width)
    if name == "mul":
        return _fit(a[0] * a[1], width)
    if name == "mad":
        return _fit(a[0] * a[1] + a[2], width)
    if name in ("and", "or", "xor"):
        return a[0] & a[1] if name == "and" else a[0] | a[1] if name == "or" else a[0] ^ a[1]
    if name == "not":
        return _fit(~a[0], width)
    if name == "neg":
        return _fit(-a[0], width)
    if name == "shl":
        return _shl(a[0], arguments[1], width)
    if name == "shr":
        return _shr(a[0], arguments[1], width, type_name[0] == "s")
    if name in ("min", "max"):
        return _select(_compare("le" if name == "min" else "ge", type_name, a[0], a[1]), a[0], a[1], width)
    if name in ("div", "rem") and type_name[0] == "u" and all(isinstance(v, int) for v in a) and a[1]:
        return a[0] // a[1] if name == "div" else a[0] % a[1]
    raise PtxError(f"cannot compute {instruction.text!r} of {arguments}")


def read_modify_write(operation: str, type_name: str, old: Any, operands: list[Any]) -> Any:
    """The value that an ``atom`` or ``red`` leaves in memory."""
    width = width_of(type_name)
    value = _fit(operands[0], width)
    if operation == "add":
        return _fit(old + value, width)
    if operation == "exch":
        return value
    if operation == "and":
        return old & value
    if operation == "or":
        return old | value
    if operation == "xor":
        return old ^ value
    if operation in ("min", "max"):
        return _select(_compare("le" if operation == "min" else "ge", type_name, old, value), old, value, width)
    if operation == "inc":
        return _select(_compare("ge", "u32", old, value), 0, _fit(old + 1, width), width)
    if operation == "dec":
        wraps = _boolean("or", _compare("eq", "u32", old, 0), _compare("gt", "u32", old, value))
        return _select(wraps, value, _fit(old - 1, width), width)
    if operation == "cas":
        return _select(_compare("eq", type_name, old, value), _fit(operands[1], width), old, width)
    raise PtxError(f"unknown read-modify-write operation {operation}")


def _symbolic(*values: Any) -> bool:
    return any(not isinstance(v, int) for v in values)


def _fit(value: Any, width: int) -> Any:
    return cut(value, width) if isinstance(value, int) else value


def _shl(value: Any, amount: Any, width: int) -> Any:
    if not isinstance(amount, int):
        raise PtxError("a shift by an amount that is not known")
    # PTX clamps shift amounts to the width.
    if amount >= width:
        return 0 if isinstance(value, int) else value - value
    return _fit(value << amount, width)


def _shr(value: Any, amount: Any, width: int, arithmetic: bool) -> Any:
    if not isinstance(amount, int):
        raise PtxError("a shift by an amount that is not known")
    amount = min(amount, width - 1 if arithmetic else width)
    if isinstance(value, int):
        return cut((signed(value, width) if arithmetic else value) >> amount, width)
    import z3

    if amount >= width:
        return value - value
    return value >> amount if arithmetic else z3.LShR(value, amount)


def _extend(value: Any, source: int, target: int, sign: bool) -> Any:
    if isinstance(value, int):
        return cut(signed(value, source) if sign else value, target)
    import z3

    if target <= source:
        return z3.Extract(target - 1, 0, value)
    return (z3.SignExt if sign else z3.ZeroExt)(target - source, value)


def _compare(comparison: str, type_name: str, a: Any, b: Any) -> Any:
    width = width_of(type_name)
    is_signed = type_name[0] == "s" and comparison not in _UNSIGNED
    comparison = _UNSIGNED.get(comparison, comparison)
    if not _symbolic(a, b):
        a, b = cut(int(a), width), cut(int(b), width)
        if is_signed:
            a, b = signed(a, width), signed(b, width)
        return {"eq": a == b, "ne": a != b, "lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[comparison]
    import z3

    a, b = (z3.BitVecVal(v, width) if isinstance(v, int) else v for v in (a, b))
    if comparison in ("eq", "ne"):
        return a == b if comparison == "eq" else a != b
    if is_signed:
        return {"lt": a < b, "le": a <= b, "gt": a > b, "ge": a >= b}[comparison]
    return {"lt": z3.ULT, "le": z3.ULE, "gt": z3.UGT, "ge": z3.UGE}[comparison](a, b)


def _boolean(operation: str, *arguments: Any) -> Any:
    if not _symbolic(*arguments):
        flags = [bool(a) for a in arguments]
        return {
            "mov": lambda: flags[0],
            "not": lambda: not flags[0],
            "and": lambda: flags[0] and flags[1],
            "or": lambda: flags[0] or flags[1],
            "xor": lambda: flags[0] != flags[1],
        }[operation]()
    import z3

    terms = [z3.BoolVal(bool(a)) if isinstance(a, (bool, int)) else a for a in arguments]
    return terms[0] if operation == "mov" else {"not": z3.Not, "and": z3.And, "or": z3.Or, "xor": z3.Xor}[operation](*terms)


def _select(condition: Any, a: Any, b: Any, width: int) -> Any:
    if isinstance(condition, (bool, int)):
        return a if condition else b
    import z3

    return z3.If(condition, *(z3.BitVecVal(v, width) if isinstance(v, int) else v for v in (a, b)))
