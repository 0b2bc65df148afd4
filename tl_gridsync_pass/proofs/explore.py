"""Every interleaving of a small grid, with sequentially consistent words.

A state holds the words in memory and, for every thread, where it is and the registers that it still reads.
A step is one memory operation, or the entry of one thread into the barrier; what only concerns a thread's
registers happens with the step before it. Two reductions are used, and both keep every violation:

- A thread that reaches a ``bar.sync`` waits there at once. Arriving there commutes with every step of every
  other thread and can never be undone or prevented, and leaving early is judged by how many threads have
  entered, which only grows; so an early release found in any order is found in this one.
- Threads of a block with equal folded programs are interchangeable, and so are such blocks
  (:mod:`.specialize`); one state stands for all of its permutations.

Checked on every grid:

- *early release*: a thread leaves barrier ``r`` before every thread of its launch has entered it;
- *foreign word*: an access outside the words that the barrier owns, or of another width;
- *trap*: the program traps;
- *no end*: from some reachable state the end cannot be reached, so that no fair schedule ends: a deadlock, a
  lost wake-up or a livelock. Where the end can be reached from every reachable state, every fair schedule ends.

Where the watchdog of a bounded wait stops the grid, that run is over, well but not at its end: the end must be
within reach of every other state without it. What other threads might still do before the grid has stopped is
what they also do while the stopping thread is slow, since it writes no word of the barrier any more.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .harness import TIME_OUT, Grid, Index
from .ptx import Imm, Instruction, Mem, PtxError, Reg, Special, access, is_block_barrier
from .specialize import Node, Program, destinations, is_local, reads_clock, sources, specialize
from .values import compute, cut, read_modify_write

# A thread is (node, values of the registers that are live there), with a third element while it waits at a
# block barrier.
Thread = tuple
Block = tuple[Thread, ...]
State = tuple[tuple[int, ...], tuple[Block, ...]]

# What a clock may show: nothing in a protocol may depend on more than "early" and "late".
CLOCK_READINGS = (0, 1 << 30)
_LOCAL_STEPS = 10_000


class TooManyStates(RuntimeError):
    """The bound on states was reached, so nothing is known about the rest."""


@dataclass(frozen=True)
class Step:
    """One step of one thread: ``block`` and ``thread`` index the exploration's own lists."""

    block: int
    thread: int
    text: str
    detail: str = ""


@dataclass(frozen=True)
class Violation:
    """Why an execution is wrong.

    ``kind`` is ``"early release"``, ``"foreign word"``, ``"trap"`` or ``"no end"``.
    """

    kind: str
    text: str


@dataclass
class Result:
    """What an exploration found.

    Attributes
    ----------
    states, steps : int
        How many states were reached and how many steps between them were taken.
    seconds : float
        Wall time.
    violation : Violation or None
        The one with the shortest trace.
    trace : list of Step
        From the start to the violation.
    final_memories : set
        The words in memory at every end, in the order of ``addresses``.
    stopped : int
        In how many states a watchdog has stopped the grid.
    """

    states: int = 0
    steps: int = 0
    seconds: float = 0.0
    violation: Violation | None = None
    trace: list[Step] = field(default_factory=list)
    final_memories: set[tuple[int, ...]] = field(default_factory=set)
    stopped: int = 0

    @property
    def holds(self) -> bool:
        return self.violation is None


class _Broken(Exception):
    def __init__(self, violation: Violation) -> None:
        super().__init__(violation.text)
        self.violation = violation


class Exploration:
    """The state space of one or more launches that run at once.

    Parameters
    ----------
    grids : sequence of Grid
        The launches.
    memory : mapping
        Address in bytes to the initial value of each 32-bit word that the barrier owns.
    widths : mapping
        Address to bits, for words that are not 32 bits wide.
    allow_early_release : bool
        Go on after an early release instead of reporting it, to see what becomes of the run.
    """

    def __init__(
        self, grids: list[Grid], memory: Mapping[int, int], widths: Mapping[int, int] | None = None, allow_early_release: bool = False
    ) -> None:
        self.grids = grids
        self._allow_early_release = allow_early_release
        self.addresses = tuple(sorted(memory))
        self._position = {address: i for i, address in enumerate(self.addresses)}
        self._widths = {address: (widths or {}).get(address, 32) for address in self.addresses}
        self._initial_memory = tuple(memory[a] for a in self.addresses)
        self.blocks: list[tuple[Grid, Index]] = [(grid, ctaid) for grid in grids for ctaid in grid.block_indices()]
        self.threads: list[list[Index]] = [grid.thread_indices() for grid, _ in self.blocks]
        self._grid_of = [self.grids.index(grid) for grid, _ in self.blocks]
        shapes: dict[tuple, int] = {}
        self._programs: list[Program] = []
        self._program_of: list[list[int]] = []
        for (grid, ctaid), tids in zip(self.blocks, self.threads, strict=True):
            row = []
            for tid in tids:
                folded = specialize(grid, ctaid, tid)
                number = shapes.setdefault(folded.shape(), len(self._programs))
                if number == len(self._programs):
                    self._programs.append(folded)
                row.append(number)
            self._program_of.append(row)
        self._nodes = [p.nodes for p in self._programs]
        self._watched = any(node.instruction.opcode == TIME_OUT for nodes in self._nodes for node in nodes)
        self._thread_classes = [_classes(row) for row in self._program_of]
        self._block_classes = _classes([(self._grid_of[b], tuple(sorted(row))) for b, row in enumerate(self._program_of)])
        # Interchangeable blocks must list their threads in the same order of programs.
        self._block_classes = [c for c in self._block_classes if len({tuple(self._program_of[b]) for b in c}) == 1]
        self._advance = lru_cache(maxsize=None)(self._advance_uncached)

    # ---- running one thread ------------------------------------------------------------------

    def _advance_uncached(self, program: int, node: int, registers: tuple) -> Thread:
        """Run local instructions up to the next one that concerns others."""
        nodes = self._nodes[program]
        values = dict(zip(nodes[node].live, registers, strict=True))
        for _ in range(_LOCAL_STEPS):
            here = nodes[node]
            instruction = here.instruction
            taken = instruction.guard is None or bool(values[instruction.guard.name]) != instruction.negated
            if instruction.opcode[0] == "bra":
                node = here.target if taken else here.next
            elif not taken:
                node = here.next
            elif not is_local(instruction):
                return (node, tuple(values[r] & bits for r, bits in zip(here.live, here.bits, strict=True)))
            else:
                _execute(instruction, values)
                node = here.next
        raise PtxError(f"a thread loops for ever without touching memory at {nodes[node].instruction.text!r}")

    def _resume(self, program: int, node: int, values: dict) -> Thread:
        """Continue after the instruction at ``node`` with its results in ``values``."""
        following = self._nodes[program][node].next
        return self._advance(program, following, tuple(values[r] for r in self._nodes[program][following].live))

    def initial(self) -> State:
        """Where every thread has yet to enter the first barrier."""
        blocks = []
        for row in self._program_of:
            blocks.append(tuple(self._advance(p, 0, ()) for p in row))
        state = (self._initial_memory, tuple(blocks))
        for b in range(len(blocks)):
            state = self._settle(state, b)
        return state

    def _settle(self, state: State, b: int) -> State:
        """Let block ``b`` wait at and pass block barriers, and leave the barrier."""
        memory, blocks = state
        row = self._program_of[b]
        while True:
            threads = list(blocks[b])
            moved = False
            for t, thread in enumerate(threads):
                instruction = self._nodes[row[t]][thread[0]].instruction
                if len(thread) == 2 and is_block_barrier(instruction):
                    threads[t] = (*thread, True)
                    moved = True
                elif instruction.opcode[0] == "leave":
                    self._require_all_entered(blocks, b, t, instruction.operands[0].value)
                    threads[t] = self._resume(row[t], thread[0], dict(zip(self._nodes[row[t]][thread[0]].live, thread[1], strict=True)))
                    moved = True
            if not moved and all(len(thread) == 3 for thread in threads):
                for t, thread in enumerate(threads):
                    threads[t] = self._resume(row[t], thread[0], dict(zip(self._nodes[row[t]][thread[0]].live, thread[1], strict=True)))
                moved = True
            blocks = (*blocks[:b], tuple(threads), *blocks[b + 1 :])
            if not moved:
                return memory, blocks

    def _require_all_entered(self, blocks, b: int, t: int, number: int) -> None:
        if self._allow_early_release:
            return
        missing = []
        for other, block in enumerate(blocks):
            if self._grid_of[other] != self._grid_of[b]:
                continue
            for u, thread in enumerate(block):
                if self._nodes[self._program_of[other][u]][thread[0]].entered <= number:
                    missing.append(self.name(other, u))
        if missing:
            text = (
                f"{self.name(b, t)} leaves barrier {number} before {', '.join(missing)} {'has' if len(missing) == 1 else 'have'} entered it"
            )
            raise _Broken(Violation("early release", text))

    # ---- steps -------------------------------------------------------------------------------

    def steps(self, state: State) -> Iterator[tuple[int, int, State | _Broken, str]]:
        """Every step from ``state``: block, thread, what follows, and a description of its effect."""
        # Looking at the clock concerns nobody else, so it need not be interleaved with anything.
        for b, block in enumerate(state[1]):
            for t, thread in enumerate(block):
                if len(thread) == 2 and reads_clock(self._nodes[self._program_of[b][t]][thread[0]].instruction):
                    yield from self._thread_steps(state, b, t)
                    return
        for b, block in enumerate(state[1]):
            for t, thread in enumerate(block):
                if len(thread) == 3 or (t and block[t - 1] == thread and self._program_of[b][t - 1] == self._program_of[b][t]):
                    continue
                yield from self._thread_steps(state, b, t)

    def _thread_steps(self, state: State, b: int, t: int) -> Iterator[tuple[int, int, State | _Broken, str]]:
        memory, blocks = state
        program = self._program_of[b][t]
        node, registers = blocks[b][t]
        here: Node = self._nodes[program][node]
        instruction = here.instruction
        kind = instruction.opcode[0]
        if kind in ("exit", "ret"):
            return
        if kind == "trap":
            yield b, t, _Broken(Violation("trap", f"{self.name(b, t)} traps")), ""
            return
        outcomes: list[tuple[tuple[int, ...], dict, str]] = []
        values = dict(zip(here.live, registers, strict=True))
        if kind == "enter":
            outcomes.append((memory, values, ""))
        elif reads_clock(instruction):
            for reading in CLOCK_READINGS:
                after = dict(values)
                _execute(instruction, after, reading)
                outcomes.append((memory, after, f"reads {reading}"))
        else:
            try:
                outcomes.append(self._memory_step(instruction, memory, values, b, t))
            except _Broken as broken:
                yield b, t, broken, ""
                return
        for new_memory, after, detail in outcomes:
            moved = self._resume(program, node, after)
            block = (*blocks[b][:t], moved, *blocks[b][t + 1 :])
            try:
                yield b, t, self._settle((new_memory, (*blocks[:b], block, *blocks[b + 1 :])), b), detail
            except _Broken as broken:
                yield b, t, broken, detail

    def _memory_step(self, instruction: Instruction, memory, values: dict, b: int, t: int):
        what = access(instruction)
        operands = instruction.operands
        place = operands[1 if what.kind in ("ld", "atom") else 0]
        assert isinstance(place, Mem)
        address = cut(_read(place.base, values) + place.offset, 64)
        position = self._position.get(address)
        if position is None or self._widths[address] != what.width:
            where = f"{what.width} bits at {address:#x}"
            raise _Broken(
                Violation("foreign word", f"{self.name(b, t)}: {instruction.text!r} touches {where}, which is no word of the barrier")
            )
        old = memory[position]
        after = dict(values)
        new = old
        if what.kind == "st":
            new = cut(_read(operands[1], values), what.width)
        elif what.kind in ("atom", "red"):
            arguments = [_read(o, values) for o in operands[2 if what.kind == "atom" else 1 :]]
            new = read_modify_write(what.operation or "", what.type, old, arguments)
        if what.kind in ("ld", "atom"):
            assert isinstance(operands[0], Reg)
            after[operands[0].name] = old
        detail = f"reads {old:#x}" if what.kind == "ld" else f"writes {new:#x}" if what.kind == "st" else f"{old:#x} becomes {new:#x}"
        changed = memory if new == old else (*memory[:position], new, *memory[position + 1 :])
        return changed, after, f"word {address:#x}: {detail}"

    def text_of(self, state: State, b: int, t: int) -> str:
        """The instruction that a thread is at."""
        return self._nodes[self._program_of[b][t]][state[1][b][t][0]].instruction.text

    def left(self, state: State, b: int) -> list[int]:
        """How many barriers each thread of block ``b`` has left."""
        return [self._nodes[p][thread[0]].left for p, thread in zip(self._program_of[b], state[1][b], strict=True)]

    def name(self, b: int, t: int) -> str:
        """How traces call a thread."""
        grid, ctaid = self.blocks[b]
        return f"{grid.name + ' ' if grid.name else ''}block {ctaid} thread {self.threads[b][t]}"

    def ended(self, state: State) -> bool:
        """Whether every thread has come to its end."""
        return all(
            self._nodes[self._program_of[b][t]][thread[0]].instruction.opcode[0] in ("exit", "ret")
            for b, block in enumerate(state[1])
            for t, thread in enumerate(block)
        )

    def stopped(self, state: State) -> bool:
        """Whether a thread's watchdog has stopped the grid."""
        return any(
            self._nodes[self._program_of[b][t]][thread[0]].instruction.opcode == TIME_OUT
            for b, block in enumerate(state[1])
            for t, thread in enumerate(block)
        )

    # ---- symmetry ----------------------------------------------------------------------------

    def canonical(self, state: State) -> State:
        """The one state that stands for all permutations of interchangeable threads and blocks."""
        memory, blocks = state
        out = list(blocks)
        for b, classes in enumerate(self._thread_classes):
            for members in classes:
                threads = list(out[b])
                for t, thread in zip(members, sorted((threads[t] for t in members), key=_order), strict=True):
                    threads[t] = thread
                out[b] = tuple(threads)
        for members in self._block_classes:
            ordered = sorted((out[b] for b in members), key=lambda block: [_order(t) for t in block])
            for b, block in zip(members, ordered, strict=True):
                out[b] = block
        return memory, tuple(out)

    # ---- the search --------------------------------------------------------------------------

    def run(self, max_states: int = 2_000_000) -> Result:
        """Explore breadth first, so that the trace of a violation is a shortest one.

        Raises
        ------
        TooManyStates
            Beyond ``max_states``.
        """
        started = time.perf_counter()
        result = Result()
        try:
            first = self.canonical(self.initial())
        except _Broken as broken:
            # Nothing has been entered yet, so the first barrier opens on its own.
            result.violation = broken.violation
            result.seconds = time.perf_counter() - started
            return result
        number: dict[State, int] = {first: 0}
        states = [first]
        parent = [-1]
        into: list[list[int]] = [[]]
        ends: list[int] = []
        stopped: list[int] = []
        queue = deque([0])
        while queue:
            index = queue.popleft()
            state = states[index]
            if self.ended(state):
                ends.append(index)
                result.final_memories.add(state[0])
                continue
            if self._watched and self.stopped(state):
                stopped.append(index)
                continue
            for _, _, follows, _ in self.steps(state):
                result.steps += 1
                if isinstance(follows, _Broken):
                    result.violation = follows.violation
                    result.trace, result.violation = self._replay(states, parent, index, broken=True)
                    result.states, result.seconds = len(states), time.perf_counter() - started
                    return result
                key = self.canonical(follows)
                found = number.get(key)
                if found is None:
                    found = number[key] = len(states)
                    if found >= max_states:
                        raise TooManyStates(f"more than {max_states} states")
                    states.append(key)
                    parent.append(index)
                    into.append([])
                    queue.append(found)
                if found != index:
                    into[found].append(index)
        result.stopped = len(stopped)
        stuck = self._first_without_end(len(states), into, ends, stopped)
        if stuck is not None:
            result.trace, _ = self._replay(states, parent, stuck, broken=False)
            result.violation = Violation("no end", self._stuck_text(result.trace, states, parent, stuck))
        result.states, result.seconds = len(states), time.perf_counter() - started
        return result

    @staticmethod
    def _first_without_end(count: int, into: list[list[int]], ends: list[int], stopped: list[int]) -> int | None:
        can_end = [False] * count
        work = list(ends)
        for index in ends:
            can_end[index] = True
        while work:
            for index in into[work.pop()]:
                if not can_end[index]:
                    can_end[index] = True
                    work.append(index)
        over = set(stopped)
        return next((i for i in range(count) if not can_end[i] and i not in over), None)

    def _path(self, parent: list[int], index: int) -> list[int]:
        path = []
        while index >= 0:
            path.append(index)
            index = parent[index]
        return path[::-1]

    def _walk(self, states: list[State], parent: list[int], index: int) -> tuple[State, list[Step]]:
        """The path to state ``index`` with real thread numbers instead of representatives."""
        path = self._path(parent, index)
        here = self.initial()
        trace: list[Step] = []
        for wanted in path[1:]:
            for b, t, follows, detail in self.steps(here):
                if not isinstance(follows, _Broken) and self.canonical(follows) == states[wanted]:
                    trace.append(Step(b, t, self.text_of(here, b, t), detail))
                    here = follows
                    break
            else:
                raise AssertionError("a path that cannot be replayed")
        return here, trace

    def _replay(self, states: list[State], parent: list[int], index: int, broken: bool) -> tuple[list[Step], Violation | None]:
        here, trace = self._walk(states, parent, index)
        if not broken:
            return trace, None
        for b, t, follows, detail in self.steps(here):
            if isinstance(follows, _Broken):
                trace.append(Step(b, t, self.text_of(here, b, t), detail))
                return trace, follows.violation
        raise AssertionError("a violation that cannot be replayed")

    def _stuck_text(self, trace: list[Step], states: list[State], parent: list[int], index: int) -> str:
        here, _ = self._walk(states, parent, index)
        waiting = []
        for b, block in enumerate(here[1]):
            for t in range(len(block)):
                text = self.text_of(here, b, t)
                if not text.startswith("exit"):
                    waiting.append(f"{self.name(b, t)} at {text!r}")
        words = ", ".join(f"word {a:#x} = {v:#x}" for a, v in zip(self.addresses, here[0], strict=True))
        return f"from here the end cannot be reached: {'; '.join(waiting)}; {words}"


def _classes(keys: list) -> list[list[int]]:
    groups: dict = {}
    for i, key in enumerate(keys):
        groups.setdefault(key, []).append(i)
    return [members for members in groups.values() if len(members) > 1]


def _order(thread: Thread) -> tuple:
    return (thread[0], thread[1], len(thread))


def _read(operand, values: dict) -> int:
    return operand.value if isinstance(operand, Imm) else values[operand.name]


def _execute(instruction: Instruction, values: dict, reading: int | None = None) -> None:
    """Run a local instruction, or one that reads a clock which shows ``reading``."""
    names = destinations(instruction)
    if not names:
        return
    if instruction.opcode == ("mov", "constant"):
        values[names[0]] = instruction.operands[1].value  # type: ignore[union-attr]
        return
    arguments: list[Any] = []
    for operand in sources(instruction):
        if isinstance(operand, Special):
            assert reading is not None
            arguments.append(reading)
        elif hasattr(operand, "parts"):
            arguments.append([_read(p, values) for p in operand.parts])
        else:
            arguments.append(_read(operand, values))
    if len(names) > 1:
        for i, name in enumerate(names):
            values[name] = (arguments[0] >> 32 * i) & 0xFFFFFFFF
    else:
        values[names[0]] = compute(instruction, arguments)
