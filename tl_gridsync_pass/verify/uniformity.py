"""The uniformity analysis: under which conditions, loops and exits each grid barrier is reached.

It runs through a structured device function once in program order, loops until they settle, and keeps for
every value how it varies over the threads (:mod:`.variation`). A statement is reached by all threads of all
blocks equally often if every condition and trip count around it, and every exit that may have been taken
before it, is the same for all of them. By induction over the program all threads then take the same path,
which is why a value that is the same for all at one moment is so at every later one until it is changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from ..tvm_compat import dtype_of, source_line, tir
from . import ir_facts
from .diagnostics import Location, Note
from .expression_text import expression_text
from .launch import threads_per_block
from .pointers import Pointers
from .proof import Prover, rewrite
from .relevance import Relevance
from .state import REST, Cause, Cell, State, join_cells
from .variation import UNIFORM, Level, Variation, join_all

_WARP = 32
_INDEX_TYPES = ("int32", "int64", "bool")
# A loop settles after as many rounds as the lattice is high times the variables in a chain; far below this.
_MAX_ROUNDS = 1000


class Barrier:
    """What was found out about one grid barrier.

    Attributes
    ----------
    number : int
        From 1, in program order.
    location : Location or None
    causes : list[Cause]
        What it depends on that is not proved the same for all threads of the grid; outermost first.
    repeated : bool
        Whether nothing that needs a barrier lies between the previous grid barrier and this one.
    """

    def __init__(self, number: int, location: Location | None) -> None:
        self.number = number
        self.location = location
        self.causes: list[Cause] = []
        self.repeated = False

    def add(self, causes: list[Cause]) -> None:
        """Remember causes, each statement's once and at its worst."""
        seen = {(cause.kind, cause.key): i for i, cause in enumerate(self.causes)}
        for cause in causes:
            at = seen.get((cause.kind, cause.key))
            if at is None:
                self.causes.append(cause)
            elif cause.variation.level >= self.causes[at].variation.level:
                self.causes[at] = cause


class Uniformity:
    """The analysis of one device function.

    Attributes
    ----------
    barriers : dict[int, Barrier]
        The grid barriers.
    block_barriers : dict[int, Barrier]
        The block barriers that some threads of a block may not reach. They matter because a grid barrier
        holds two block barriers, and one that is missed pairs up with those.
    """

    def __init__(self, func: tir.PrimFunc, prover: Prover) -> None:
        self.axes = prover.axes
        self.prover = prover
        self.pointers = Pointers(func)
        self._inert = Relevance(func, self.pointers).inert
        self.threads = threads_per_block(self.axes)
        self.barriers: dict[int, Barrier] = {}
        self.block_barriers: dict[int, Barrier] = {}
        self._axis_of = {hash(axis.var): axis for axis in self.axes}
        # How each bound variable varies, and what it stands for where that is an index expression.
        self._vars: dict[int, Variation] = {}
        self._values: dict[int, object] = {}
        self._texts: dict[int, object] = {}
        self._loop_vars: set[int] = set()
        # Objects on which threads race, so that a load may see different values. Grows until nothing is new.
        self._racy: set[int] = set()
        self._frames: list[Cause] = []
        self._split_phase = 0
        # Loops are visited until they settle, and printing what is in them takes a fifth of the analysis.
        self._printed: dict[int, tuple[object, str]] = {}
        self._loops = 0
        self._assume_uniform_parameters(func)
        while True:
            known = len(self._racy)
            self.barriers.clear()
            self.block_barriers.clear()
            self._visit(func.body, State())
            if len(self._racy) == known:
                break

    def _assume_uniform_parameters(self, func: tir.PrimFunc) -> None:
        for param in func.params:
            self._vars[hash(param)] = UNIFORM

    # Statements

    def _visit(self, stmt: object, state: State) -> State:
        works = self._inert.get(hash(stmt))
        if works is not None:
            if type(stmt).__name__ == "Bind":
                self._texts[hash(stmt.var)] = stmt.value
            state.worked = state.worked or works
            return state
        handler = getattr(self, f"_visit_{type(stmt).__name__}", None)
        if handler is not None:
            return handler(stmt, state)
        body = getattr(stmt, "body", None)
        return state if body is None else self._visit(body, state)

    def _visit_SeqStmt(self, stmt, state):
        for inner in stmt.seq:
            state = self._visit(inner, state)
        return state

    def _visit_AttrStmt(self, stmt, state):
        if str(stmt.attr_key) in ir_facts.WARP_SPECIALIZE_ATTRS:
            for i in reversed(range(len(self._frames))):
                if self._frames[i].kind == "if" and self._frames[i].variation.thread == Level.INDEX:
                    self._frames[i] = replace(self._frames[i], warp_specialized=True)
                    break
        if str(stmt.attr_key) == ir_facts.PHASE_ATTR:
            # An arrive and its wait are one barrier in two parts.
            state.worked = True
            self._split_phase += 1
            try:
                return self._visit(stmt.body, state)
            finally:
                self._split_phase -= 1
        return self._visit(stmt.body, state)

    def _visit_AllocBuffer(self, stmt, state):
        key = hash(stmt.buffer.data)
        initial = ir_facts.initial_value(stmt)
        if initial is not None:
            self._store_cell(key, _first(stmt.buffer), self._evaluate(initial, state), self._index_value(initial, state), state)
        elif str(stmt.buffer.scope()) == "local.var":
            # The code generator starts these at zero.
            self._store_cell(key, _first(stmt.buffer), UNIFORM, tir.const(0, stmt.buffer.dtype), state)
        body = getattr(stmt, "body", None)
        return state if body is None else self._visit(body, state)

    def _visit_Bind(self, stmt, state):
        key = hash(stmt.var)
        varies = self._proved(stmt.value, state)[0] if dtype_of(stmt.value) in _INDEX_TYPES else self._evaluate(stmt.value, state)
        if not _made_up(str(stmt.var.name)):
            varies = varies.because(Note(f"`{stmt.var.name}` is set to `{self._text(stmt.value)}`", _location(stmt)))
        self._vars[key] = varies
        value = self._index_value(stmt.value, state, allow_loops=True)
        if value is None:
            self._values.pop(key, None)
        else:
            self._values[key] = value
        self._texts[key] = stmt.value
        body = getattr(stmt, "body", None)
        return state if body is None else self._visit(body, state)

    _visit_LetStmt = _visit_Bind

    def _visit_BufferStore(self, stmt, state):
        index = join_all(self._evaluate(i, state) for i in stmt.indices)
        # Proved here and not where it is used: by then what it was made of may have changed.
        worth_it = ir_facts.scope_of(stmt.buffer.data) != "global" and dtype_of(stmt.value) in _INDEX_TYPES
        value = self._proved(stmt.value, state)[0] if worth_it else self._evaluate(stmt.value, state)
        note = Note(f"`{stmt.buffer.name}` is set to `{self._text(stmt.value)}`", _location(stmt))
        known = self._index_value(stmt.value, state)
        self._store(stmt.buffer.data, self._constant_index(stmt.indices, state), value.because(note), index, known, state)
        return state

    def _visit_Evaluate(self, stmt, state):
        call = stmt.value
        if ir_facts.is_grid_barrier(call):
            return self._barrier(stmt, state)
        name = ir_facts.op_name(call) if isinstance(call, tir.Call) else ""
        if name in ir_facts.EXIT_NAMES:
            return self._exit(stmt, ir_facts.EXIT_NAMES[name], state)
        if isinstance(call, tir.Call) and ir_facts.is_block_barrier(call):
            missed = [c for c in self._divergence(state) if c.variation.thread != Level.UNIFORM]
            if missed:
                number = len(self.block_barriers) + 1
                self.block_barriers.setdefault(hash(stmt), Barrier(number, _location(stmt))).add(missed)
        self._evaluate(call, state)
        return state

    def _visit_IfThenElse(self, stmt, state):
        cause = self._condition("if", stmt, stmt.condition, state)
        before = state.copy()
        with self._under(cause):
            then = self._visit(stmt.then_case, state)
        if stmt.else_case is None:
            return then.join(before)
        with self._under(cause):
            otherwise = self._visit(stmt.else_case, before)
        return then.join(otherwise)

    def _visit_For(self, stmt, state):
        if stmt.thread_binding is not None:
            return self._visit(stmt.body, state)
        step = getattr(stmt, "step", None)
        key = hash(stmt.loop_var)
        start, extent = (self._index_value(e, state, allow_loops=True) for e in (stmt.min, stmt.extent))
        if start is not None and extent is not None and step is None:
            self.prover.bind_loop(stmt.loop_var, start, extent)
        self._loop_vars.add(key)

        def head(at: State) -> Cause:
            first = self._proved(stmt.min, at)[0].join(UNIFORM if step is None else self._proved(step, at)[0])
            self._vars[key] = first.because(Note(f"`{stmt.loop_var.name}` starts at `{self._text(stmt.min)}`", _location(stmt)))
            cause = self._condition("for", stmt, stmt.extent, at)
            return cause if step is None else replace(cause, variation=cause.variation.join(self._proved(step, at)[0]))

        return self._loop(stmt, state, head)

    def _visit_While(self, stmt, state):
        return self._loop(stmt, state, lambda at: self._condition("while", stmt, stmt.condition, at))

    def _loop(self, stmt, state, head):
        self._loops += 1
        depth = self._loops
        try:
            for _ in range(_MAX_ROUNDS):
                cause = head(state)
                with self._under(cause):
                    end = self._visit(stmt.body, state.copy())
                end.leave(("continue",), depth)
                joined = state.join(end)
                if joined.same_as(state):
                    break
                state = joined
            else:
                raise RuntimeError(f"tl_gridsync: the uniformity analysis of a loop over {getattr(stmt, 'loop_var', stmt)} does not settle")
        finally:
            self._loops -= 1
        joined.leave(("break",), depth)
        return joined

    def _visit_SBlockRealize(self, stmt, state):
        return self._visit(stmt.block.body, state)

    _visit_BlockRealize = _visit_SBlockRealize

    # Barriers and exits

    def _barrier(self, stmt, state):
        barrier = self.barriers.setdefault(hash(stmt), Barrier(len(self.barriers) + 1, _location(stmt)))
        barrier.add(self._divergence(state))
        barrier.repeated = not state.worked
        control = self._control(state)
        # One phase alone orders nothing between blocks that was written or read between the two phases, and what
        # was before them is not told from it; the next full barrier orders both.
        self._order(state, block=control.thread == Level.UNIFORM, grid=control.uniform and not self._split_phase)
        state.worked = False
        return state

    def _order(self, state: State, block: bool, grid: bool = False) -> None:
        """A barrier that everyone concerned reaches ends what was in flight before it."""

        def open_still(key: int) -> bool:
            scope = ir_facts.scope_of(self.pointers.vars[key])
            return not (block if scope == "shared" else grid)

        state.stored = frozenset(filter(open_still, state.stored))
        state.loaded = frozenset(filter(open_still, state.loaded))

    def _exit(self, stmt, kind: str, state: State) -> State:
        depth = 0 if kind == "return" else self._loops
        frames = [c for c in self._frames if kind == "return" or c.depth >= depth]
        # Those who left or skipped earlier miss this exit. That matters only where they come back.
        absent = [c for c in state.exits.values() if _comes_back(c, kind, depth)]
        varying = [c for c in [*frames, *absent] if not c.variation.uniform]
        if varying:
            worst = max(varying, key=lambda c: c.variation.level)
            taken = replace(
                worst,
                kind=kind,
                key=hash(stmt),
                variation=join_all(c.variation for c in varying),
                location=_location(stmt) or worst.location,
                depth=depth,
            )
            state.exits = {**state.exits, taken.key: taken}
        return state

    def _divergence(self, state: State) -> list[Cause]:
        return [c for c in [*self._frames, *state.exits.values()] if not c.variation.uniform]

    def _control(self, state: State) -> Variation:
        return join_all(c.variation for c in self._divergence(state))

    @contextmanager
    def _under(self, cause: Cause) -> Iterator[None]:
        self._frames.append(cause)
        try:
            yield
        finally:
            self._frames.pop()

    def _condition(self, kind: str, stmt: object, expr: object, state: State) -> Cause:
        self._evaluate(expr, state)
        variation, example = self._proved(expr, state)
        location = _location(stmt)
        if location is None and isinstance(expr, tir.Var) and hash(expr) in self._texts:
            location = next((note.location for note in self._vars[hash(expr)].why if note.location), None)
        # An exit out of a loop crosses the frames inside that loop: those of the loop's own depth and deeper.
        return Cause(
            kind, hash(stmt), variation, self._text(expr), example, location, depth=self._loops if kind == "if" else self._loops - 1
        )

    # Expressions

    def _text(self, expr: object) -> str:
        known = self._printed.get(hash(expr))
        if known is None:
            text = expression_text(expr, lambda var: self._texts.get(hash(var)) if _made_up(str(var.name)) else None)
            # With the expression, so that no other one gets its hash.
            known = self._printed[hash(expr)] = (expr, text)
        return known[1]

    def _proved(self, expr: object, state: State) -> tuple[Variation, str | None]:
        """How ``expr`` varies once everything that can be proved about it is, and an example where it does."""
        plain = self._evaluate(expr, state)
        if plain.level != Level.INDEX:
            return plain, None
        resolved = self.prover.simplify(self._resolve(expr, state))
        left = self._leaves(resolved, state)
        best = plain.at_most(left.thread, left.block)
        if best.level != Level.INDEX:
            return best, None
        data = self._leaves(resolved, state, indices=False)
        verdict = self.prover.verdict(resolved, self._same_for_all_loops())
        thread = min(best.thread, data.thread) if verdict.same_in_block else best.thread
        block = min(best.block, data.block) if verdict.same_in_grid else best.block
        return Variation(thread, block, best.why), verdict.example if data.uniform else None

    def _same_for_all_loops(self) -> set[int]:
        return {key for key in self._loop_vars if self._vars[key].uniform}

    def _resolve(self, expr: object, state: State) -> object:
        """``expr`` with bound variables and stored elements replaced by the index expressions that they hold."""

        def replace_node(node: object) -> object | None:
            if isinstance(node, tir.Var):
                return self._values.get(hash(node))
            if isinstance(node, tir.BufferLoad):
                return self._stored_value(node, state)
            return self._arithmetic(node)

        return rewrite(expr, replace_node)

    def _arithmetic(self, call: object) -> object | None:
        """A call as plain arithmetic, which the analyser understands better, or None."""
        name, args = ir_facts.op_name(call), list(call.args)
        if len(args) == 2 and isinstance(args[1], tir.IntImm) and dtype_of(args[0]) in ("int32", "int64"):
            constant = int(args[1])
            if name == "shift_right" and 0 <= constant < 31:
                return tir.FloorDiv(args[0], tir.const(1 << constant, args[0].dtype))
            if name == "shift_left" and 0 <= constant < 31:
                return tir.Mul(args[0], tir.const(1 << constant, args[0].dtype))
            # Two's complement: the low bits are the remainder, of negative numbers too.
            if name == "bitwise_and" and constant >= 0 and constant & (constant + 1) == 0 and constant < 2**31 - 1:
                return tir.FloorMod(args[0], tir.const(constant + 1, args[0].dtype))
        if name in ir_facts.THREAD_NUMBERS and all(isinstance(a, tir.IntImm) for a in args):
            return self._thread_number(name, [int(a) for a in args])
        return None

    def _thread_number(self, name: str, args: list[int]) -> object | None:
        linear, stride = tir.const(0, "int32"), 1
        for axis in sorted((a for a in self.axes if a.is_thread), key=lambda a: a.tag):
            if axis.constant is None:
                return None
            linear, stride = linear + axis.var * stride, stride * axis.constant
        warp = args[0] if args and name != "tl_shuffle_elect" else _WARP
        if name == "get_lane_idx":
            return tir.FloorMod(linear, tir.const(warp, "int32"))
        if name in ("get_warp_idx", "get_warp_idx_sync"):
            return tir.FloorDiv(linear, tir.const(warp, "int32"))
        if name == "get_warp_group_idx":
            return tir.FloorDiv(linear, tir.const(warp * (args[1] if len(args) > 1 else 4), "int32"))
        return None

    def _index_value(self, expr: object, state: State, allow_loops: bool = False) -> object | None:
        """``expr`` as an expression of indices, parameters and constants; None where it holds anything else."""
        if dtype_of(expr) not in _INDEX_TYPES:
            return None
        resolved = self._resolve(expr, state)
        plain = True

        def visit(node: object) -> None:
            nonlocal plain
            if (
                isinstance(node, tir.BufferLoad)
                or (isinstance(node, tir.Call) and not ir_facts.is_pure(node))
                or (isinstance(node, tir.Call) and ir_facts.op_name(node) in ir_facts.THREAD_NUMBERS)
            ):
                plain = False
            elif isinstance(node, tir.Var):
                key = hash(node)
                if key in self._loop_vars:
                    # A loop variable means another value in every round, so it may not outlive the round.
                    plain = plain and allow_loops
                elif key not in self._axis_of and not self._vars.get(key, UNIFORM).uniform:
                    plain = False
                elif key in self._texts:
                    plain = plain and allow_loops

        tir.stmt_functor.post_order_visit(tir.Evaluate(resolved), visit)
        return resolved if plain else None

    def _leaves(self, expr: object, state: State, indices: bool = True) -> Variation:
        """The join over what ``expr`` is made of; without ``indices``, over everything but thread and block indices."""
        if isinstance(expr, tir.Var):
            axis = self._axis_of.get(hash(expr))
            if axis is None:
                return self._vars.get(hash(expr), UNIFORM)
            return self._index_variation(axis) if indices else UNIFORM
        if isinstance(expr, tir.BufferLoad):
            return self._load(expr, state, record=False)
        if isinstance(expr, tir.Call) and not self._is_arithmetic(expr):
            return self._evaluate(expr, state, record=False)
        return join_all(self._leaves(child, state, indices) for child in ir_facts.children(expr))

    def _is_arithmetic(self, call: object) -> bool:
        return ir_facts.is_pure(call) and ir_facts.op_name(call) not in ir_facts.THREAD_NUMBERS

    def _index_variation(self, axis) -> Variation:
        if axis.constant == 1:
            return UNIFORM
        why = (Note(f"`{axis.var.name}` is {axis.tag}"),)
        return Variation(thread=Level.INDEX, why=why) if axis.is_thread else Variation(block=Level.INDEX, why=why)

    def _evaluate(self, expr: object, state: State, record: bool = True) -> Variation:
        """How ``expr`` varies; with ``record``, what evaluating it does is done to ``state``."""
        if isinstance(expr, tir.Var):
            axis = self._axis_of.get(hash(expr))
            return self._vars.get(hash(expr), UNIFORM) if axis is None else self._index_variation(axis)
        if isinstance(expr, tir.BufferLoad):
            return self._load(expr, state, record)
        if isinstance(expr, tir.Call):
            return self._call(expr, state, record)
        if isinstance(expr, tir.Let):
            self._vars[hash(expr.var)] = self._evaluate(expr.value, state, record)
            return self._evaluate(expr.body, state, record)
        return join_all(self._evaluate(child, state, record) for child in ir_facts.children(expr))

    def _call(self, call: object, state: State, record: bool) -> Variation:
        name = ir_facts.op_name(call)
        if name in ir_facts.POINTER_MAKERS:
            return UNIFORM
        args = join_all(self._evaluate(a, state, record) for a in call.args)
        if name in ir_facts.THREAD_NUMBERS:
            varies = self.threads != 1
            return Variation(thread=Level.INDEX, why=(Note(f"`{self._text(call)}` differs from thread to thread"),)) if varies else UNIFORM
        if ir_facts.is_pure(call):
            return args
        if record:
            self._effect(call, state)
        if name in ir_facts.BLOCK_VOTES and self._control(state).thread == Level.UNIFORM:
            return args.at_most(thread=Level.UNIFORM)
        note = Note(f"`{self._text(call)}` is not known at compile time")
        if name in ir_facts.WARP_VOTES:
            if args.thread == Level.UNIFORM or (
                self.threads is not None and self.threads <= _WARP and self._control(state).thread == Level.UNIFORM
            ):
                return args.at_most(thread=Level.UNIFORM)
            return Variation(Level.UNKNOWN, args.block, (note, *args.why[:1]))
        return Variation(Level.UNKNOWN, max(Level.UNKNOWN, args.block), (note, *args.why[:1]))

    def _effect(self, call: object, state: State) -> None:
        name = ir_facts.op_name(call)
        if ir_facts.is_block_barrier(call):
            if self._control(state).thread == Level.UNIFORM:
                self._order(state, block=True)
            if name == "tvm_storage_sync":
                return
        state.worked = True
        result = Variation(Level.UNKNOWN, Level.UNKNOWN, (Note(f"`{self._text(call)}` writes it"),))
        for data in self.pointers.written_by(call):
            if ir_facts.is_asynchronous(call):
                self._racy.update(self.pointers.overlapping(hash(data)))
            self._store(data, REST, result, UNIFORM, None, state)
            for key in [k for k in state.cells if k[0] in self.pointers.overlapping(hash(data))]:
                state.cells[key] = join_cells(state.cells[key], Cell(result))

    # Memory

    def _constant_index(self, indices, state: State) -> tuple[int, ...] | None:
        simplified = [self.prover.simplify(self._resolve(i, state)) if dtype_of(i) in ("int32", "int64") else i for i in indices]
        return tuple(int(i) for i in simplified) if all(isinstance(i, tir.IntImm) for i in simplified) else REST

    def _stored_value(self, load: object, state: State) -> object | None:
        data = load.buffer.data
        index = self._constant_index(load.indices, state)
        cell = state.cells.get((hash(data), index))
        if index is REST or cell is None or ir_facts.scope_of(data) != "local" or (hash(data), REST) in state.cells:
            return None
        return cell.value

    def _load(self, load: object, state: State, record: bool) -> Variation:
        data = load.buffer.data
        key, scope = hash(data), ir_facts.scope_of(data)
        index = join_all(self._evaluate(i, state, record) for i in load.indices)
        at = self._constant_index(load.indices, state)
        if scope == "local":
            return self._content(key, at, state).join(index)
        if record:
            state.worked = True
        note = Note(f"`{self._text(load)}` is loaded from {scope} memory")
        if scope == "global" and not self.pointers.is_written(key):
            return index.at_most(Level.UNKNOWN, Level.UNKNOWN).because(note)
        calm = key not in self._racy and not self.pointers.overlapping(key) & state.stored
        control = self._control(state)
        # What one thread of one block reads for itself need not be what others would read.
        alone = scope == "global" and control.thread != Level.UNIFORM and control.block != Level.UNIFORM
        if calm and record and not alone:
            state.loaded = state.loaded | {key}
        if not calm:
            return Variation(Level.UNKNOWN, Level.UNKNOWN, (Note(f"{note.text} that other threads may be writing"),))
        return self._calm_load(key, scope, at, index.at_most(Level.UNKNOWN, Level.UNKNOWN), state).because(note)

    def _calm_load(self, key: int, scope: str, at: object, index: Variation, state: State) -> Variation:
        """A load that no store races with: everyone who shares the memory and reads one element sees one value."""
        if scope == "global":
            return index
        content = self._content(key, at, state)
        if not any(k[0] in self.pointers.overlapping(key) for k in state.cells):
            content = Variation(block=Level.UNKNOWN)
        # Each block has its own shared memory, so what is in it may differ from block to block.
        return Variation(index.thread, max(index.block, content.block), content.why or index.why)

    def _content(self, key: int, at: object, state: State) -> Variation:
        if at is REST or key in self.pointers.mixed:
            found = [cell for (owner, _), cell in state.cells.items() if owner == key]
        else:
            found = [state.cells[k] for k in ((key, at), (key, REST)) if k in state.cells]
        if not found:
            return Variation(Level.UNKNOWN, Level.UNKNOWN, (Note("it is read before anything is stored in it"),))
        variation = join_all(cell.variation for cell in found)
        elsewhere = [cell.variation for (owner, _), cell in state.cells.items() if owner != key and owner in self.pointers.overlapping(key)]
        # Memory that is reused under another name: what is there now is not known to be what was stored there.
        return variation.join(join_all(elsewhere).at_most(Level.UNKNOWN, Level.UNKNOWN))

    def _store(self, data: tir.Var, at: object, value: Variation, index: Variation, known: object | None, state: State) -> None:
        key, scope = hash(data), ir_facts.scope_of(data)
        self.pointers.vars.setdefault(key, data)
        control = self._control(state)
        own = value
        if not control.uniform:
            cause = next(c for c in self._divergence(state) if c.variation.level == control.level)
            value = value.join(control.because(Note(f"it is set under `{cause.text}`", cause.location)))
        if scope != "local":
            state.worked = True
            overlapping = self.pointers.overlapping(key)
            if overlapping & state.loaded:
                self._racy.update(overlapping)
            several_writers = control.thread != Level.UNIFORM and overlapping & state.stored
            if scope == "shared":
                # Which thread wins is not known, and need not be the same one in every block.
                if several_writers or own.thread != Level.UNIFORM:
                    value = value.at_least(block=Level.UNKNOWN)
            state.stored = state.stored | {key}
        self._store_cell(
            key, REST if key in self.pointers.mixed else at, value.join(index), known if control.uniform else None, state, scope
        )

    def _store_cell(self, key: int, at: object, value: Variation, known: object | None, state: State, scope: str = "local") -> None:
        certain = scope == "local" and at is not REST and self._control(state).uniform
        new = Cell(value, known)
        old = state.cells.get((key, at))
        state.cells[key, at] = new if certain or old is None else join_cells(old, new)


def _comes_back(earlier: Cause, kind: str, depth: int) -> bool:
    """Whether those who took ``earlier`` run code again that those who take the later exit do not."""
    if kind == "return":
        return earlier.kind != "return"
    return kind == "break" and earlier.kind == "continue" and earlier.depth >= depth


def _made_up(name: str) -> bool:
    """Whether a variable is the compiler's own, so that the user does not know it by its name."""
    return name.startswith(("if_condition", "cse_v", "condval", "broadcast_var", "while_condition"))


def _first(buffer: tir.Buffer) -> tuple[int, ...]:
    return (0,) * len(buffer.shape)


def _location(stmt: object) -> Location | None:
    found = source_line(stmt)
    return None if found is None else Location(*found)
