"""The PTX parser and the values of its instructions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tl_gridsync_pass import protocol
from tl_gridsync_pass.proofs.ptx import Imm, Instruction, Mem, PtxError, Reg, access, parse
from tl_gridsync_pass.proofs.values import compute, read_modify_write

STATEMENTS = [
    s for p in protocol.PROTOCOLS.values() for s in (*p.entry, *p.setup, p.arrive, p.pace, p.wait, p.bounded_wait, p.turn) if s is not None
]


@pytest.mark.parametrize("statement", STATEMENTS, ids=lambda s: " ".join(s.text.split())[:40])
def test_parses_all_that_ships(statement):
    names = ([statement.output] if statement.output else []) + list(statement.inputs)
    code = parse(statement.text, {f"${i}": Reg(name) for i, name in enumerate(names)})
    assert len(code) == sum(
        line.strip().endswith(";") and not line.strip().startswith((".reg", "//")) for line in statement.text.splitlines()
    )


@pytest.mark.parametrize(
    "text",
    [
        ".reg .b32 %a; popc.b32 %a, %a;",
        ".reg .b32 %a; ld.relaxed.gpu.shared.u32 %a, [16];",
        ".reg .b32 %a; ld.relaxed.global.u32 %a, [16];",
        ".reg .b32 %a; ld.release.gpu.global.u32 %a, [16];",
        ".reg .b32 %a; atom.sc.gpu.global.add.u32 %a, [16], 1;",
        ".reg .b32 %a; ld.global.v2.u32 %a, [16];",
        ".reg .b32 %a; mov.u32 %a, %smid;",
        ".reg .b32 %a; mov.u32 %a, %b;",
        ".reg .b32 %a; .reg .b32 %a;",
        "{ .reg .b32 %a; } mov.u32 %a, 1;",
        ".reg .b32 %a; bra NOWHERE;",
        ".reg .b32 %a; mov.u32 %a, 1",
        "{ trap;",
        "bar.sync 0, 64;",
        "L: L: trap;",
    ],
)
def test_refuses_what_it_does_not_know(text):
    with pytest.raises(PtxError):
        parse(text)


def test_labels_and_registers_belong_to_their_braces():
    code = parse("{ .reg .pred %p; AGAIN: @%p bra AGAIN; } { .reg .pred %p; AGAIN: @!%p bra AGAIN; }")
    assert [i.operands[0].target for i in code] == [0, 1]
    assert code[0].guard != code[1].guard


@pytest.mark.parametrize(
    ("text", "kind", "order", "scope", "operation"),
    [
        ("ld.global.u32 %a, [8];", "ld", "weak", None, None),
        ("ld.volatile.global.u32 %a, [8];", "ld", "relaxed", "sys", None),
        ("st.release.gpu.global.u32 [8+4], %a;", "st", "release", "gpu", None),
        ("atom.add.u32 %a, [8], 1;", "atom", "relaxed", "gpu", "add"),
        ("atom.global.add.acq_rel.cta.u32 %a, [8], 1;", "atom", "acq_rel", "cta", "add"),
        ("red.release.sys.global.inc.u32 [8], 1;", "red", "release", "sys", "inc"),
        ("atom.relaxed.gpu.global.cas.b32 %a, [8], 1, 2;", "atom", "relaxed", "gpu", "cas"),
    ],
)
def test_reads_memory_operations(text, kind, order, scope, operation):
    (instruction,) = parse(".reg .b32 %a;" + text)
    what = access(instruction)
    assert (what.kind, what.order, what.scope, what.operation) == (kind, order, scope, operation)
    assert any(isinstance(o, Mem) for o in instruction.operands)


U32 = st.integers(0, 2**32 - 1)


@given(U32, U32)
def test_computes_on_z3_terms_as_on_numbers(a, b):
    import z3

    for name in (
        "add.u32",
        "sub.u32",
        "mul.lo.u32",
        "and.b32",
        "or.b32",
        "xor.b32",
        "min.s32",
        "max.u32",
        "setp.ge.s32",
        "setp.lo.u32",
        "setp.eq.u32",
    ):
        instruction = Instruction(tuple(name.split(".")), (Reg("d"), Imm(a), Imm(b)))
        term = z3.simplify(compute(instruction, [z3.BitVecVal(a, 32), z3.BitVecVal(b, 32)]))
        assert (z3.is_true(term) if name.startswith("setp") else term.as_long()) == compute(instruction, [a, b]), name
    for operation in ("add", "inc", "dec", "exch", "and", "or", "xor", "min", "max"):
        term = z3.simplify(read_modify_write(operation, "u32", z3.BitVecVal(a, 32), [z3.BitVecVal(b, 32)]))
        assert term.as_long() == read_modify_write(operation, "u32", a, [b]), operation


def test_inc_and_dec_wrap_as_ptx_says():
    assert [read_modify_write("inc", "u32", old, [3]) for old in (0, 2, 3, 9)] == [1, 3, 0, 0]
    assert [read_modify_write("dec", "u32", old, [3]) for old in (0, 1, 3, 9)] == [3, 0, 2, 3]


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("add.u32", (2**32 - 1, 2), 1),
        ("sub.u32", (1, 2), 2**32 - 1),
        ("mul.lo.u32", (2**31, 3), 2**31),
        ("and.b32", (0b1100, 0b1010), 0b1000),
        ("or.b32", (0b1100, 0b1010), 0b1110),
        ("xor.b32", (0b1100, 0b1010), 0b0110),
        ("setp.ge.s32", (2**31, 0), False),
        ("setp.ge.u32", (2**31, 0), True),
        ("shr.s32", (2**31, 31), 2**32 - 1),
        ("shr.u32", (2**31, 31), 1),
        ("min.s32", (2**32 - 1, 1), 2**32 - 1),
    ],
)
def test_computes_what_ptx_says(name, arguments, expected):
    assert compute(Instruction(tuple(name.split(".")), (Reg("d"), *map(Imm, arguments))), list(arguments)) == expected
