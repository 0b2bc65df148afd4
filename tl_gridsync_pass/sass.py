"""What a compiled kernel really runs at each grid barrier: facts read from the SASS of its cubin.

The cubin is disassembled with the nvdisasm that CuTe DSL depends on (package nvidia-cuda-nvdisasm), else
with one on PATH. A grid barrier is found by its shape: a stretch of code between two block barriers that
holds a strong atomic followed by a loop that polls with a strong load. The leader test is what decides,
inside that stretch, whether the atomic runs; which thread indices it reads is found by following the
predicate's definitions back through the control-flow graph to the S2R instructions. Checked with the
code that ptxas 13 makes for sm_90a.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from importlib import metadata
from pathlib import Path

from .errors import GridSyncError

# %envreg1 and %envreg2, the address of the driver's cooperative-launch workspace, on sm_90: at a fixed place, or
# counted from the cluster's size, as the assembler of CuTe DSL 4.3 has it.
_WORKSPACE_HIGH = re.compile(r"c\[0x0\]\[(0x44|UR\d+\+0x254)\]")
_WORKSPACE_LOW = re.compile(r"c\[0x0\]\[(0x48|UR\d+\+0x258)\]")
_MODULE_CONSTANT_BANK = "c[0x4]"

_FENCES = ("MEMBAR", "CCTL.IVALL")
_WITHOUT_RESULT = frozenset(
    "ST STG STS STL STAS RED REDG REDS BRA EXIT RET CALL BAR MEMBAR CCTL BSSY BSYNC BPT WARPSYNC NANOSLEEP KILL".split()
)
_ENDS = ("EXIT", "RET", "BPT", "KILL")
_MEMORY = re.compile(r"(LD|LDG|LDS|LDL|LDSM|LDGSTS|ST|STG|STS|STL|ATOM|ATOMG|ATOMS|RED|REDG)(\.|$)")

_FUNCTION = re.compile(r"^\.text\.(\S+):$")
_LABEL = re.compile(r"^(\.L_\S+):$")
_INSTRUCTION = re.compile(r"^/\*([0-9a-f]+)\*/\s+(?:@(!?U?P\w+)\s+)?([A-Z][\w.]*)\s*(.*?)\s*;")
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_REGISTER = re.compile(r"\b(U?R)(\d+)(\.64)?")
_PREDICATE = re.compile(r"\bU?P\d+\b")


@dataclass(frozen=True)
class Instruction:
    """One SASS instruction: its address in bytes, guard predicate (``"!P0"``, or empty), opcode and operands."""

    address: int
    guard: str
    opcode: str
    operands: tuple[str, ...]

    def __str__(self) -> str:
        guard = f"@{self.guard} " if self.guard else ""
        return f"/*{self.address:04x}*/ {guard}{self.opcode} {', '.join(self.operands)}".rstrip()


@dataclass(frozen=True)
class GridBarrier:
    """One grid barrier of a kernel.

    Attributes
    ----------
    address : int
        Where the arrival's atomic stands, in bytes from the start of the kernel.
    leader_axes : tuple[str, ...]
        The thread indices that the leader test reads, of ``"x"``, ``"y"``, ``"z"``.
    arrival : tuple[str, ...]
        The opcodes of the atomics before the poll loop.
    counter : str
        Where the arrivals are counted: ``"workspace"`` (the driver's, one per cooperative launch), ``"module"``
        (a global variable of the CUDA module) or ``"other"``.
    polls : int
        How many strong loads are polled in a loop.
    leader_fences, block_fences : tuple[str, ...]
        The MEMBAR.* and CCTL.IVALL that only the leader runs, and those that every thread runs, in program order.
    checks_workspace : bool
        Whether the arrival depends on a test of the address of the driver's workspace.
    traps : bool
        Whether it can stop the grid with a trap.
    block_barriers : int
        How many BAR.SYNC the barrier is made of, its first and last included.
    listing : tuple[str, ...]
        The barrier's instructions.
    """

    address: int
    leader_axes: tuple[str, ...]
    arrival: tuple[str, ...]
    counter: str
    polls: int
    leader_fences: tuple[str, ...]
    block_fences: tuple[str, ...]
    checks_workspace: bool
    traps: bool
    block_barriers: int
    listing: tuple[str, ...] = field(repr=False, compare=False)


@dataclass(frozen=True)
class KernelSass:
    """One kernel of a cubin with its grid barriers, in program order."""

    name: str
    barriers: tuple[GridBarrier, ...]


def kernels_in(cubin: Path) -> tuple[KernelSass, ...]:
    """The kernels of the file ``cubin`` with their grid barriers.

    Raises
    ------
    GridSyncError
        Where there is no nvdisasm, or it cannot read the file.
    """
    return parse(disassemble(cubin))


def nvdisasm() -> Path:
    """The disassembler: the one of the package nvidia-cuda-nvdisasm, else the one on PATH.

    Raises
    ------
    GridSyncError
        Where there is neither.
    """
    try:
        files = metadata.files("nvidia-cuda-nvdisasm") or []
    except metadata.PackageNotFoundError:
        files = []
    for file in files:
        if file.name in ("nvdisasm", "nvdisasm.exe") and Path(file.locate()).is_file():
            return Path(file.locate())
    on_path = shutil.which("nvdisasm")
    if on_path is None:
        raise GridSyncError(
            "tl_gridsync: no nvdisasm to read SASS with. Run `pip install nvidia-cuda-nvdisasm`, or put the CUDA toolkit's on PATH."
        )
    return Path(on_path)


def disassemble(cubin: Path) -> str:
    """nvdisasm's listing of the code sections of ``cubin``; raises as :func:`kernels_in` does."""
    tool = nvdisasm()
    done = subprocess.run([str(tool), "-c", str(cubin)], capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise GridSyncError(f"tl_gridsync: {tool} cannot read {cubin}: {done.stderr.strip() or f'exit status {done.returncode}'}")
    return done.stdout


def parse(listing: str) -> tuple[KernelSass, ...]:
    """The kernels of a listing that ``nvdisasm -c`` printed."""
    kernels = []
    name = ""
    instructions: list[Instruction] = []
    labels: dict[str, int] = {}
    for line in [*(text.strip() for text in listing.splitlines()), ".text.:"]:
        if line == ".text.:" or _FUNCTION.match(line):
            if instructions:
                kernels.append(KernelSass(name, tuple(_ControlFlow(instructions, labels).grid_barriers())))
            function = _FUNCTION.match(line)
            name, instructions, labels = function[1] if function else "", [], {}
        elif label := _LABEL.match(line):
            labels[label[1]] = len(instructions)
        elif found := _INSTRUCTION.match(line):
            operands = tuple(operand.strip() for operand in found[4].split(",")) if found[4] else ()
            instructions.append(Instruction(int(found[1], 16), found[2] or "", found[3], operands))
    return tuple(kernels)


class _ControlFlow:
    """The control-flow graph of one kernel, one node an instruction."""

    def __init__(self, instructions: list[Instruction], labels: dict[str, int]) -> None:
        self.code = instructions
        self.after = [self._successors(i, labels) for i in range(len(instructions))]
        self.before: list[list[int]] = [[] for _ in instructions]
        for i, targets in enumerate(self.after):
            for target in targets:
                self.before[target].append(i)

    def _successors(self, i: int, labels: dict[str, int]) -> list[int]:
        instruction = self.code[i]
        kind = instruction.opcode.split(".")[0]
        following = [i + 1] if i + 1 < len(self.code) else []
        if kind in _ENDS:
            return following if instruction.guard else []
        if kind != "BRA":
            return following
        target = _TARGET.search(instruction.operands[-1])
        targets = [labels[target[1]]] if target else []
        conditional = instruction.guard or instruction.opcode != "BRA" or len(instruction.operands) > 1
        return sorted({*targets, *following}) if conditional else targets

    def grid_barriers(self) -> Iterator[GridBarrier]:
        """Every grid barrier, in program order."""
        found: set[int] = set()
        for start in [-1, *(i for i in range(len(self.code)) if _is_block_barrier(self.code[i]))]:
            stretch = self._until_block_barrier(self.after[start] if start >= 0 else [0])
            polls = [i for i in stretch if _is_strong(self.code[i], "LD") and i in self._reach(self.after[i], stretch)]
            # A compare-and-swap takes a place, of the launches or of a lock: an arrival adds.
            adds = [i for i in stretch if _is_strong(self.code[i], "ATOM", "RED") and ".CAS" not in self.code[i].opcode]
            atomics = [i for i in adds if self._reach([i], stretch) & set(polls)]
            if polls and atomics and not found & set(atomics):
                found.update(atomics)
                yield self._describe(start, stretch, atomics, polls)

    def _describe(self, start: int, stretch: set[int], atomics: list[int], polls: list[int]) -> GridBarrier:
        axes: set[str] = set()
        tested: set[str] = set()
        leader_edges: set[tuple[int, int]] = set()
        for i in stretch:
            inside = [target for target in self.after[i] if self._reach([target], stretch) & set(atomics)]
            if len(inside) < len(self.after[i]) and inside:
                origins = self._origins(i, _guards(self.code[i]))
                reads = _thread_axes(origins)
                axes |= reads
                tested |= origins
                leader_edges |= {(i, target) for target in inside if reads}
        for i in atomics:
            axes |= _thread_axes(self._origins(i, _guards(self.code[i])))

        entry = self.after[start] if start >= 0 else [0]
        everyone = self._reach(entry, stretch, leader_edges) if axes else set()
        tail = self._fencing_tail(stretch)
        block = [i for i in sorted(everyone | tail) if not (i in stretch and _thread_axes(self._origins(i, _guards(self.code[i]))))]
        leader = [i for i in sorted(stretch) if i not in block]
        body = sorted({*stretch, *tail, *([start] if start >= 0 else [])})
        address_sources = {s for i in atomics for s in self._origins(i, _address_registers(self.code[i]))}
        return GridBarrier(
            address=self.code[atomics[0]].address,
            leader_axes=tuple(sorted(axes)),
            arrival=tuple(self.code[i].opcode for i in sorted(atomics)),
            counter=_counter(address_sources),
            polls=len(polls),
            leader_fences=self._fences(leader),
            block_fences=self._fences(block),
            checks_workspace=_holds_workspace(tested),
            traps=any(self.code[i].opcode.startswith("BPT.TRAP") for i in stretch),
            block_barriers=sum(_is_block_barrier(self.code[i]) for i in body),
            listing=tuple(str(self.code[i]) for i in body),
        )

    def _fences(self, where: Collection[int]) -> tuple[str, ...]:
        return tuple(self.code[i].opcode for i in where if self.code[i].opcode.startswith(_FENCES))

    def _until_block_barrier(self, entry: list[int]) -> set[int]:
        """What can run from ``entry`` up to and including the next block barriers."""
        reached, todo = set(), list(entry)
        while todo:
            i = todo.pop()
            if i not in reached:
                reached.add(i)
                todo += [] if _is_block_barrier(self.code[i]) else self.after[i]
        return reached

    def _fencing_tail(self, stretch: set[int]) -> set[int]:
        """A fence and one more block barrier that follow a stretch with no other access to memory between."""
        tail: set[int] = set()
        for end in (i for i in stretch if _is_block_barrier(self.code[i])):
            following = self._until_block_barrier(self.after[end])
            ends_at_barrier = any(_is_block_barrier(self.code[i]) for i in following)
            if self._fences(following) and ends_at_barrier and not any(_MEMORY.match(self.code[i].opcode) for i in following):
                tail |= following
        return tail

    def _reach(self, entry: list[int], within: set[int], without: Collection[tuple[int, int]] = ()) -> set[int]:
        """What can run from ``entry`` on inside ``within``, not through its block barriers or the edges ``without``."""
        reached, todo = set(), [i for i in entry if i in within]
        while todo:
            i = todo.pop()
            if i not in reached:
                reached.add(i)
                if not _is_block_barrier(self.code[i]):
                    todo += [target for target in self.after[i] if target in within and (i, target) not in without]
        return reached

    def _origins(self, at: int, names: Collection[str]) -> set[str]:
        """The special registers and constants that the values of ``names`` before instruction ``at`` come from."""
        origins: set[str] = set()
        seen: set[tuple[int, str]] = set()
        todo = [(i, name) for i in self.before[at] for name in names]
        while todo:
            i, name = todo.pop()
            if (i, name) in seen:
                continue
            seen.add((i, name))
            instruction = self.code[i]
            results, sources = _results_and_sources(instruction)
            if name not in results:
                todo += [(j, name) for j in self.before[i]]
                continue
            origins |= {operand for operand in instruction.operands if operand.startswith(("SR_", "c["))}
            reads = sources | _guards(instruction) | ({name} if instruction.guard else set())
            todo += [(j, read) for j in self.before[i] for read in reads]
        return origins


def _is_block_barrier(instruction: Instruction) -> bool:
    return instruction.opcode.startswith("BAR.SYNC") or instruction.opcode.startswith("BAR.RED")


def _is_strong(instruction: Instruction, *kinds: str) -> bool:
    return instruction.opcode.startswith(kinds) and ".STRONG.GPU" in instruction.opcode


def _guards(instruction: Instruction) -> set[str]:
    operands = " ".join(instruction.operands) if instruction.opcode.startswith("BRA") else ""
    return set(_PREDICATE.findall(f"{instruction.guard} {operands}"))


def _address_registers(instruction: Instruction) -> set[str]:
    """The registers of the last bracket of the address, ``[R16.64+0x4]``; the one before it is a descriptor."""
    address = next(operand for operand in instruction.operands if "[" in operand)
    return _registers(address.rpartition("[")[2])


def _registers(text: str) -> set[str]:
    names = set()
    for kind, number, wide in _REGISTER.findall(text):
        names |= {f"{kind}{int(number) + k}" for k in range(2 if wide else 1)}
    return names


def _results_and_sources(instruction: Instruction) -> tuple[set[str], set[str]]:
    """The registers and predicates that an instruction writes, and those that it reads, by SASS's operand order."""
    opcode, operands = instruction.opcode, list(instruction.operands)
    results: set[str] = set()
    if opcode.startswith("R2P"):
        return {f"P{k}" for k in range(7)}, _registers(" ".join(operands[1:]))
    if opcode.split(".")[0] not in _WITHOUT_RESULT:
        sets_predicates = "SETP" in opcode or "PLOP3" in opcode
        # A comparison writes two predicates, and what follows them is read.
        most = 2 if sets_predicates else len(operands)
        while operands and len(instruction.operands) - len(operands) < most and re.fullmatch(r"U?P(T|\d+)", operands[0]):
            results |= set(_PREDICATE.findall(operands.pop(0)))
        if operands and not sets_predicates and re.fullmatch(r"U?R(\d+|Z)(\.64)?", operands[0]):
            results |= _wide(operands.pop(0), opcode)
            # A carry or a vote comes out right after the register.
            while operands and opcode.startswith(("IADD3", "UIADD3", "LEA", "ULEA", "VOTE")) and re.fullmatch(r"U?P(T|\d+)", operands[0]):
                results |= set(_PREDICATE.findall(operands.pop(0)))
                if opcode.startswith("VOTE"):
                    break
    sources = " ".join(operands)
    predicates = {f"P{k}" for k in range(7)} if opcode.startswith("P2R") else set(_PREDICATE.findall(sources))
    return results, _registers(sources) | predicates


def _wide(register: str, opcode: str) -> set[str]:
    found = _REGISTER.match(register)
    if found is None:
        return set()
    two_words = ".64" in opcode or ".WIDE" in opcode or (opcode.startswith("CS2R") and ".32" not in opcode)
    words = 4 if ".128" in opcode else 2 if two_words else 1
    return {f"{found[1]}{int(found[2]) + k}" for k in range(words)}


def _thread_axes(origins: Collection[str]) -> set[str]:
    return {origin[-1].lower() for origin in origins if origin.startswith("SR_TID.")}


def _holds_workspace(operands: Collection[str]) -> bool:
    return all(any(half.fullmatch(operand) for operand in operands) for half in (_WORKSPACE_HIGH, _WORKSPACE_LOW))


def _counter(origins: Collection[str]) -> str:
    if _holds_workspace(origins):
        return "workspace"
    return "module" if any(origin.startswith(_MODULE_CONSTANT_BANK) for origin in origins) else "other"
