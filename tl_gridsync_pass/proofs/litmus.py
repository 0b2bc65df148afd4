"""Litmus tests with known verdicts, against which the axioms of :mod:`.memory_model` are checked.

An outcome is *allowed* where some execution has it. Verdicts come from the PTX ISA, from the tests that
NVIDIA published with its mixed-proxy extension of the model (github.com/NVlabs/mixedproxy, here "NVIDIA"),
and from the PTX tests of the Dartagnan verifier (github.com/hernanponcedeleon/Dat3M, litmus/PTX, with
verdicts in PTXv6_0-expected.csv, here "Dat3M"). The tests here are written anew in PTX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import z3

from .memory_model import Model, Place
from .ptx import Imm, Instruction, Label, Operand, Reg, parse
from .specialize import fold
from .symbolic import joined, paths

_REGISTERS = ".reg .b32 a, b, c, d; .reg .pred p, q;"
LOCATIONS = ("x", "y", "z", "w")

SAME_BLOCK = (Place(0), Place(0), Place(0), Place(0))
OWN_BLOCKS = (Place(0), Place(1), Place(2), Place(3))


@dataclass(frozen=True)
class Litmus:
    """A litmus test.

    Attributes
    ----------
    name : str
        Its usual name.
    threads : tuple of str
        PTX of each thread, over the words ``x``, ``y``, ``z``, ``w`` (zero at first) and the registers ``a`` to ``d``.
    places : tuple of Place
        Where each thread runs.
    outcome : mapping
        ``"1a"`` (register a of thread 1) or ``"x"`` (the word in the end) to its value.
    allowed : bool
        The verdict.
    source : str
        Where the verdict is from.
    """

    name: str
    threads: tuple[str, ...]
    places: tuple[Place, ...]
    outcome: Mapping[str, int]
    allowed: bool
    source: str

    def decide(self) -> bool:
        """Whether the axioms allow the outcome."""
        return possible(self.threads, self.places, lambda model, read: [read(name) == value for name, value in self.outcome.items()])


def possible(threads: tuple[str, ...], places: tuple[Place, ...], outcome: Any, initial: Mapping[str, int] | None = None) -> bool:
    """Whether some execution of ``threads`` has an outcome.

    ``outcome`` takes the model and a function from ``"1a"`` or ``"x"`` to a term, and returns a list of
    conditions.
    """
    words: dict[str, Operand] = {name: Imm(16 * (i + 1)) for i, name in enumerate(LOCATIONS)}
    address = {name: word.value for name, word in words.items() if isinstance(word, Imm)}
    start = {address[name]: value for name, value in (initial or {}).items()}
    every = []
    for i, text in enumerate(threads):
        known: dict[str, Operand] = {**words}
        code = [*_zeroed(), *parse(_REGISTERS + text, known)]
        shift = len(_zeroed())
        code = [_moved(instruction, shift) if n >= shift else instruction for n, instruction in enumerate(code)]
        program = fold([*code, *(_keep()), Instruction(("exit",), (), text="exit")], {})
        every.append(list(paths(program, i, places[i].cta + 1000 * places[i].gpu)))
    for chosen in product(*every):
        events, conditions, _ = joined(list(chosen))
        model = Model(events, places[: len(threads)], start, conditions=conditions)

        def read(name: str, model: Model = model, chosen: tuple = chosen) -> Any:
            if name in address:
                return _Final(model, address[name])
            value = chosen[int(name[0])].registers[f"{name[1:]}#1"]
            return z3.BitVecVal(value, 32) if isinstance(value, int) else value

        if model.possible(*outcome(model, read)):
            return True
    return False


class _Final:
    """A word in the end: comparing it with a value gives the condition that it may hold that value."""

    def __init__(self, model: Model, location: int) -> None:
        self.model, self.location = model, location

    def __eq__(self, value: object) -> Any:
        assert isinstance(value, int)
        return self.model.last_value(self.location, value)

    def __ne__(self, value: object) -> Any:
        return z3.Not(self == value)

    __hash__ = None  # type: ignore[assignment]


def _zeroed() -> list[Instruction]:
    return [Instruction(("mov", "b32"), (Reg(f"{r}#1"), Imm(0)), text=f"mov.b32 {r}, 0") for r in "abcd"]


def _keep() -> list[Instruction]:
    """Something that reads every register at the end, so that none is folded away."""
    return [Instruction(("nanosleep", "u32"), (Reg(f"{r}#1"),), text=f"nanosleep.u32 {r}") for r in "abcd"]


def _moved(instruction: Instruction, shift: int) -> Instruction:
    if instruction.opcode[0] != "bra":
        return instruction
    (label,) = instruction.operands
    assert isinstance(label, Label)
    return replace(instruction, operands=(Label(label.target + shift),))


def _st(word: str, value: int | str, how: str = "") -> str:
    return f"st{how}.global.u32 [{word}], {value};"


def _ld(register: str, word: str, how: str = "") -> str:
    return f"ld{how}.global.u32 {register}, [{word}];"


def _mp(release: str, acquire: str) -> tuple[str, str]:
    return _st("x", 1) + release, acquire + _ld("b", "x")


def _sb(between: str, how: str = "") -> tuple[str, str]:
    return _st("x", 1, how) + between + _ld("a", "y", how), _st("y", 1, how) + between + _ld("a", "x", how)


def _iriw(between: str, how: str) -> tuple[str, ...]:
    reader = "{}{}{}"
    return (
        _st("x", 1, how),
        reader.format(_ld("a", "x", how), between, _ld("b", "y", how)),
        _st("y", 1, how),
        reader.format(_ld("a", "y", how), between, _ld("b", "x", how)),
    )


def _isa2(release: str, acquire: str, scope: str) -> tuple[str, ...]:
    return (
        _st("x", 1) + _st("y", 1, f".{release}.{scope}"),
        _ld("a", "y", f".{acquire}.{scope}") + _st("z", 1, f".{release}.{scope}"),
        _ld("a", "z", f".{acquire}.{scope}") + _ld("b", "x"),
    )


_REL, _ACQ = ".release.gpu", ".acquire.gpu"
_STALE = {"1a": 1, "1b": 0}
_BOTH_ZERO = {"0a": 0, "1a": 0}
_DISAGREE = {"1a": 1, "1b": 0, "3a": 1, "3b": 0}
_ISA2 = {"1a": 1, "2a": 1, "2b": 0}

TESTS: tuple[Litmus, ...] = (
    # Message passing.
    Litmus("MP, weak", _mp(_st("y", 1), _ld("a", "y")), OWN_BLOCKS, _STALE, True, "PTX ISA 8.10.6: nothing synchronizes"),
    Litmus("MP, relaxed", _mp(_st("y", 1, ".relaxed.gpu"), _ld("a", "y", ".relaxed.gpu")), OWN_BLOCKS, _STALE, True, "Dat3M MP-relaxed"),
    Litmus(
        "MP, release and acquire, gpu",
        _mp(_st("y", 1, _REL), _ld("a", "y", _ACQ)),
        OWN_BLOCKS,
        _STALE,
        False,
        "PTX ISA 8.9.4, 4; Dat3M MP-gpu",
    ),
    Litmus(
        "MP, release and acquire, cta, one block",
        _mp(_st("y", 1, ".release.cta"), _ld("a", "y", ".acquire.cta")),
        SAME_BLOCK,
        _STALE,
        False,
        "Dat3M MP-cta",
    ),
    Litmus(
        "MP, release and acquire, cta, two blocks",
        _mp(_st("y", 1, ".release.cta"), _ld("a", "y", ".acquire.cta")),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.7: cta scope does not include the other thread",
    ),
    Litmus(
        "MP, release cta and acquire gpu, one block",
        _mp(_st("y", 1, ".release.cta"), _ld("a", "y", _ACQ)),
        SAME_BLOCK,
        _STALE,
        False,
        "Dat3M MP-cta-gpu",
    ),
    Litmus(
        "MP, release cta and acquire gpu, two blocks",
        _mp(_st("y", 1, ".release.cta"), _ld("a", "y", _ACQ)),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.7: both scopes must include the other thread",
    ),
    Litmus(
        "MP, release, then relaxed read",
        _mp(_st("y", 1, _REL), _ld("a", "y", ".relaxed.gpu")),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.8: no acquire pattern",
    ),
    Litmus(
        "MP, relaxed write, then acquire",
        _mp(_st("y", 1, ".relaxed.gpu"), _ld("a", "y", _ACQ)),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.8: no release pattern",
    ),
    Litmus(
        "MP, fence.acq_rel.gpu",
        _mp("fence.acq_rel.gpu;" + _st("y", 1, ".relaxed.gpu"), _ld("a", "y", ".relaxed.gpu") + "fence.acq_rel.gpu;"),
        OWN_BLOCKS,
        _STALE,
        False,
        "PTX ISA 8.10.6, litmus test; Dat3M MP-sys-fence",
    ),
    Litmus(
        "MP, fence.release and fence.acquire",
        _mp("fence.release.gpu;" + _st("y", 1, ".relaxed.gpu"), _ld("a", "y", ".relaxed.gpu") + "fence.acquire.gpu;"),
        OWN_BLOCKS,
        _STALE,
        False,
        "PTX ISA 8.8, 3",
    ),
    Litmus(
        "MP, fences the wrong way round",
        _mp("fence.acquire.gpu;" + _st("y", 1, ".relaxed.gpu"), _ld("a", "y", ".relaxed.gpu") + "fence.release.gpu;"),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.8: neither pattern",
    ),
    Litmus(
        "MP, fence.acq_rel.cta, two blocks",
        _mp("fence.acq_rel.cta;" + _st("y", 1, ".relaxed.gpu"), _ld("a", "y", ".relaxed.gpu") + "fence.acq_rel.cta;"),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.9.4, 4: the fences are not morally strong",
    ),
    Litmus(
        "MP, fence.sc.gpu and fence.sc.cta, two blocks",
        _mp("fence.sc.gpu;" + _st("y", 1, ".relaxed.sys"), _ld("a", "y", ".relaxed.sys") + "fence.sc.cta;"),
        OWN_BLOCKS,
        _STALE,
        True,
        "Dat3M MICRO24-Fig4a",
    ),
    Litmus(
        "MP, fence.sc.gpu twice, two blocks",
        _mp("fence.sc.gpu;" + _st("y", 1, ".relaxed.sys"), _ld("a", "y", ".relaxed.sys") + "fence.sc.gpu;"),
        OWN_BLOCKS,
        _STALE,
        False,
        "Dat3M MICRO24-Fig4a-correct",
    ),
    Litmus(
        "MP, fences around a weak flag",
        _mp("fence.acq_rel.gpu;" + _st("y", 1), _ld("a", "y") + "fence.acq_rel.gpu;"),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.8: the patterns need strong accesses",
    ),
    Litmus(
        "MP, relaxed poll, then acquire of the same word",
        (_st("x", 1) + _st("y", 1, _REL), _ld("a", "y", ".relaxed.gpu") + _ld("c", "y", _ACQ) + _ld("b", "x")),
        OWN_BLOCKS,
        _STALE,
        False,
        "PTX ISA 8.8, acquire pattern 2",
    ),
    Litmus(
        "MP, release, then a relaxed write of the same word is read",
        (
            _st("x", 1) + _st("y", 1, ".release.sys") + _st("y", 2, ".relaxed.sys"),
            _ld("a", "y", ".relaxed.sys") + "fence.acq_rel.sys;" + _ld("b", "x"),
        ),
        OWN_BLOCKS,
        {"1a": 2, "1b": 0},
        False,
        "NVIDIA Release_acquire_pattern; PTX ISA 8.8, release pattern 2",
    ),
    Litmus(
        "MP, through a relaxed read-modify-write of a third thread",
        (
            _st("x", 1) + _st("y", 1, _REL),
            "atom.add.relaxed.gpu.global.u32 a, [y], 1;",
            _ld("a", "y", _ACQ) + _ld("b", "x", ".relaxed.gpu"),
        ),
        OWN_BLOCKS,
        {"1a": 1, "2a": 2, "2b": 0},
        False,
        "Dat3M MP+RMW; PTX ISA 8.9.2",
    ),
    Litmus(
        "MP, through a relaxed read and write of a third thread",
        (_st("x", 1) + _st("y", 1, _REL), _ld("a", "y", ".relaxed.gpu") + _st("y", 2, ".relaxed.gpu"), _ld("a", "y", _ACQ) + _ld("b", "x")),
        OWN_BLOCKS,
        {"1a": 1, "2a": 2, "2b": 0},
        True,
        "PTX ISA 8.9.2: only a read-modify-write carries on an observation",
    ),
    Litmus(
        "MP, red and fence.acquire",
        (_st("x", 1) + _st("y", 1, _REL), "red.add.relaxed.gpu.global.u32 [y], 1; fence.acquire.gpu;" + _ld("b", "x")),
        OWN_BLOCKS,
        {"y": 2, "1b": 0},
        True,
        "PTX ISA 8.8: a red forms no acquire pattern",
    ),
    Litmus(
        "MP, bar.sync, one block",
        (_st("x", 1) + "bar.sync 0;", "bar.sync 0;" + _ld("a", "x")),
        SAME_BLOCK,
        {"1a": 0},
        False,
        "PTX ISA 8.9.4, 2",
    ),
    # Store buffering.
    Litmus("SB, weak", _sb(""), OWN_BLOCKS, _BOTH_ZERO, True, "Dat3M SB-weak"),
    Litmus("SB, fence.sc.gpu", _sb("fence.sc.gpu;"), OWN_BLOCKS, _BOTH_ZERO, False, "PTX ISA 8.10.6, litmus test; Dat3M SB+sc-gpu"),
    Litmus("SB, fence.sc.cta, one block", _sb("fence.sc.cta;"), SAME_BLOCK, _BOTH_ZERO, False, "NVIDIA SB_cta; Dat3M SB+sc-cta"),
    Litmus("SB, fence.sc.cta, two blocks", _sb("fence.sc.cta;"), OWN_BLOCKS, _BOTH_ZERO, True, "Dat3M SB+sc-cta-outScope"),
    Litmus("SB, fence.acq_rel", _sb("fence.acq_rel.gpu;", ".relaxed.gpu"), OWN_BLOCKS, _BOTH_ZERO, True, "Dat3M SB+acq_rel-cta"),
    Litmus("SB, membar.gl", _sb("membar.gl;"), OWN_BLOCKS, _BOTH_ZERO, False, "PTX ISA membar: a synonym for fence.sc"),
    Litmus("SB, bar.sync, one block", _sb("bar.sync 0;"), SAME_BLOCK, _BOTH_ZERO, False, "Dat3M SB+bar-const-equal"),
    Litmus("SB, bar.sync, two blocks", _sb("bar.sync 0;"), OWN_BLOCKS, _BOTH_ZERO, True, "Dat3M SB+bar-diff-cta"),
    # Independent reads of independent writes.
    Litmus("IRIW, relaxed", _iriw("", ".relaxed.gpu"), OWN_BLOCKS, _DISAGREE, True, "PTX ISA 8.9.6: coherence is per word"),
    Litmus(
        "IRIW, acquire reads",
        tuple(t.replace("ld.relaxed", "ld.acquire").replace("st.relaxed", "st.release") for t in _iriw("", ".relaxed.gpu")),
        OWN_BLOCKS,
        _DISAGREE,
        True,
        "Lustig et al. 2019: not multi-copy atomic",
    ),
    Litmus(
        "IRIW, fence.acq_rel.gpu",
        _iriw("fence.acq_rel.gpu;", ".relaxed.gpu"),
        OWN_BLOCKS,
        _DISAGREE,
        True,
        "Lustig et al. 2019: needs fence.sc",
    ),
    Litmus(
        "IRIW, fence.sc.gpu",
        _iriw("fence.sc.gpu;", ".relaxed.gpu"),
        OWN_BLOCKS,
        _DISAGREE,
        False,
        "Lustig et al. 2019: fence.sc restores it",
    ),
    Litmus(
        "IRIW, weak with fence.sc.cta and fence.sc.gpu",
        (_st("x", 1), _ld("a", "x") + "fence.sc.cta;" + _ld("b", "y"), _st("y", 1), _ld("a", "y") + "fence.sc.gpu;" + _ld("b", "x")),
        (Place(0), Place(1), Place(1), Place(1)),
        _DISAGREE,
        True,
        "Dat3M IRIW1",
    ),
    # Chains.
    Litmus(
        "ISA2, release and acquire, gpu",
        _isa2("release", "acquire", "gpu"),
        OWN_BLOCKS,
        _ISA2,
        False,
        "PTX ISA 8.9.5: causality is transitive",
    ),
    Litmus(
        "ISA2, first hop at cta scope in one block",
        (_st("x", 1) + _st("y", 1, ".release.cta"), _ld("a", "y", ".acquire.cta") + _st("z", 1, _REL), _ld("a", "z", _ACQ) + _ld("b", "x")),
        (Place(0), Place(0), Place(1)),
        _ISA2,
        False,
        "Dat3M MP-3-transitive",
    ),
    Litmus("ISA2, cta scope, three blocks", _isa2("release", "acquire", "cta"), OWN_BLOCKS, _ISA2, True, "PTX ISA 8.7"),
    Litmus(
        "ISA2, relaxed in the middle",
        (_st("x", 1) + _st("y", 1, _REL), _ld("a", "y", ".relaxed.gpu") + _st("z", 1, _REL), _ld("a", "z", _ACQ) + _ld("b", "x")),
        OWN_BLOCKS,
        _ISA2,
        True,
        "PTX ISA 8.8",
    ),
    Litmus(
        "ISA2, first hop through bar.sync",
        (_st("x", 1) + "bar.sync 0;", "bar.sync 0;" + _st("z", 1, _REL), _ld("a", "z", _ACQ) + _ld("b", "x")),
        (Place(0), Place(0), Place(1)),
        {"2a": 1, "2b": 0},
        False,
        "PTX ISA 8.9.4, 2 with 8.9.5",
    ),
    Litmus(
        "WRC, release and acquire",
        (
            _st("x", 1, ".relaxed.gpu"),
            _ld("a", "x", ".relaxed.gpu") + _st("y", 1, _REL),
            _ld("a", "y", _ACQ) + _ld("b", "x", ".relaxed.gpu"),
        ),
        OWN_BLOCKS,
        {"1a": 1, "2a": 1, "2b": 0},
        False,
        "PTX ISA 8.9.5: observation, then base causality",
    ),
    Litmus(
        "WRC, relaxed",
        (
            _st("x", 1, ".relaxed.gpu"),
            _ld("a", "x", ".relaxed.gpu") + _st("y", 1, ".relaxed.gpu"),
            _ld("a", "y", ".relaxed.gpu") + _ld("b", "x", ".relaxed.gpu"),
        ),
        OWN_BLOCKS,
        {"1a": 1, "2a": 1, "2b": 0},
        True,
        "PTX ISA 8.9.5",
    ),
    # Load buffering.
    Litmus(
        "LB, relaxed",
        (_ld("a", "x", ".relaxed.gpu") + _st("y", 1, ".relaxed.gpu"), _ld("a", "y", ".relaxed.gpu") + _st("x", 1, ".relaxed.gpu")),
        OWN_BLOCKS,
        {"0a": 1, "1a": 1},
        True,
        "Lustig et al. 2019: no order from a read to a later write",
    ),
    Litmus(
        "LB, acquire and release",
        (_ld("a", "x", _ACQ) + _st("y", 1, _REL), _ld("a", "y", _ACQ) + _st("x", 1, _REL)),
        OWN_BLOCKS,
        {"0a": 1, "1a": 1},
        False,
        "PTX ISA 8.10.6, 1",
    ),
    Litmus(
        "LB, true dependencies",
        (_ld("a", "x") + _st("y", "a"), _ld("a", "y") + _st("x", "a")),
        OWN_BLOCKS,
        {"0a": 42, "1a": 42},
        False,
        "PTX ISA 8.10.4, litmus test",
    ),
    # Two writes each.
    Litmus(
        "2+2W, relaxed",
        (_st("x", 1, ".relaxed.gpu") + _st("y", 2, ".relaxed.gpu"), _st("y", 1, ".relaxed.gpu") + _st("x", 2, ".relaxed.gpu")),
        OWN_BLOCKS,
        {"x": 1, "y": 1},
        True,
        "PTX ISA 8.9.6: coherence is per word",
    ),
    Litmus(
        "2+2W, fence.sc",
        (
            _st("x", 1, ".relaxed.gpu") + "fence.sc.gpu;" + _st("y", 2, ".relaxed.gpu"),
            _st("y", 1, ".relaxed.gpu") + "fence.sc.gpu;" + _st("x", 2, ".relaxed.gpu"),
        ),
        OWN_BLOCKS,
        {"x": 1, "y": 1},
        False,
        "PTX ISA 8.10.1, 8.10.2",
    ),
    # One word.
    Litmus(
        "CoRR, relaxed",
        (_st("x", 1, ".relaxed.gpu"), _ld("a", "x", ".relaxed.gpu") + _ld("b", "x", ".relaxed.gpu")),
        OWN_BLOCKS,
        _STALE,
        False,
        "PTX ISA 8.10.5, litmus test",
    ),
    Litmus("CoRR, weak reads", (_st("x", 1, _REL), _ld("a", "x") + _ld("b", "x")), OWN_BLOCKS, _STALE, True, "Dat3M CoRR-weak-weak"),
    Litmus(
        "CoRR, acquire, then weak",
        (_st("x", 1, _REL), _ld("a", "x", _ACQ) + _ld("b", "x")),
        OWN_BLOCKS,
        _STALE,
        False,
        "Dat3M CoRR-acquire-weak",
    ),
    Litmus(
        "CoRR, relaxed at cta scope, two blocks",
        (_st("x", 1, ".relaxed.gpu"), _ld("a", "x", ".relaxed.cta") + _ld("b", "x", ".relaxed.cta")),
        OWN_BLOCKS,
        _STALE,
        True,
        "PTX ISA 8.10.5 with 8.7",
    ),
    Litmus("CoWW", (_st("x", 1) + _st("x", 2),), OWN_BLOCKS, {"x": 1}, False, "PTX ISA 8.10.1"),
    Litmus("CoWR", (_st("x", 1) + _ld("a", "x"),), OWN_BLOCKS, {"0a": 0}, False, "PTX ISA 8.10.6, 2"),
    Litmus("CoRW", (_ld("a", "x") + _st("x", 1),), OWN_BLOCKS, {"0a": 1}, False, "PTX ISA 8.10.6, 1"),
    # Atomicity.
    Litmus(
        "two increments at gpu scope",
        ("atom.inc.gpu.global.u32 a, [x], 100;",) * 2,
        OWN_BLOCKS,
        {"x": 1},
        False,
        "PTX ISA 8.10.3, litmus test 1",
    ),
    Litmus(
        "two increments, one at cta scope, two blocks",
        ("atom.inc.cta.global.u32 a, [x], 100;", "atom.inc.gpu.global.u32 a, [x], 100;"),
        OWN_BLOCKS,
        {"x": 1},
        True,
        "PTX ISA 8.10.3, litmus test 2",
    ),
    Litmus(
        "two increments that return the same",
        ("atom.add.relaxed.gpu.global.u32 a, [x], 1;",) * 2,
        OWN_BLOCKS,
        _BOTH_ZERO,
        False,
        "PTX ISA 8.10.3",
    ),
)
