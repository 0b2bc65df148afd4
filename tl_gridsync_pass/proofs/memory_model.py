"""The axioms of the PTX memory model, for z3.

Source: PTX ISA, chapter "Memory Consistency Model": the sections named in the comments below. Where the
prose leaves room, the formal model that NVIDIA published with it decides (Lustig, Sahasrabuddhe, Giroux, "A
Formal Analysis of the NVIDIA PTX Memory Consistency Model", ASPLOS 2019, and its Alloy text).

A candidate execution is a set of events with a program order per thread. z3 chooses from which write each
read takes its value, the coherence order and the Fence-SC order. Observation order and base causality order
are the smallest relations that their definitions allow; z3 is told only what must be in them. That is exact:
every axiom forbids something of them, so a larger relation never allows more.

Not modelled, because no barrier uses it: accesses of different sizes that overlap, proxies other than the
generic one, clusters (cluster scope counts as cta scope here), and the end of a kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, permutations
from typing import Any

import z3


@dataclass(frozen=True)
class Place:
    """Where a thread runs: the numbers of its block and its GPU."""

    cta: int
    gpu: int = 0


@dataclass(frozen=True)
class Event:
    """One event of a candidate execution.

    Attributes
    ----------
    kind : str
        ``"R"``, ``"W"``, ``"F"`` (fence), ``"BA"`` and ``"BW"`` (arrival at and return from a block barrier).
    thread : int
        Index of the thread.
    order : str
        ``"weak"``, ``"relaxed"``, ``"acquire"``, ``"release"``; for fences ``"sc"``, ``"acq_rel"``, ``"acquire"``,
        ``"release"``.
    scope : str or None
        None for weak accesses and block barriers.
    location : hashable
        The word accessed, or the instance of the block barrier.
    value : int or z3 term
        32 bits, of a read or write.
    depends : frozenset
        The reads, by index, that this event's value, address or execution depends on.
    partner : int or None
        For the write of a read-modify-write, the index of its read.
    acquires : bool
        False for the read of a ``red``, which forms no acquire pattern.
    label : str
        For witnesses.
    """

    kind: str
    thread: int
    order: str = "weak"
    scope: str | None = None
    location: Any = None
    value: Any = None
    depends: frozenset[int] = frozenset()
    partner: int | None = None
    acquires: bool = True
    label: str = ""

    @property
    def is_memory(self) -> bool:
        return self.kind in ("R", "W")

    @property
    def is_strong(self) -> bool:
        return self.kind == "F" or (self.is_memory and self.order != "weak")


class Model:
    """All executions of a set of events that the axioms allow.

    Parameters
    ----------
    events : sequence of Event
        Events of one thread stand in program order.
    places : sequence of Place
        Where each thread runs.
    initial : mapping
        Location to its initial value; 0 where it is left out.
    thin_air : bool
        Whether to demand 8.10.4 "No thin air". Dependencies are counted generously here, so a proof that needs
        the axiom would be worth less than one without it.
    conditions : sequence of z3 terms
        What the values read must satisfy for the threads to have taken these paths.

    Attributes
    ----------
    solver : z3.Solver
        Holds the axioms; add what an outcome demands and check.
    """

    def __init__(
        self,
        events: Sequence[Event],
        places: Sequence[Place],
        initial: Mapping[Any, int] | None = None,
        thin_air: bool = True,
        conditions: Sequence[Any] = (),
    ) -> None:
        self.events = list(events)
        self.places = list(places)
        self.initial = dict(initial or {})
        self.solver = z3.SolverFor("QF_BV")
        self._n = len(self.events)
        self._thin_air = thin_air
        self.reads = [i for i, e in enumerate(self.events) if e.kind == "R"]
        self.writes = [i for i, e in enumerate(self.events) if e.kind == "W"]
        self._rank_bits = max(1, self._n.bit_length())
        self._declare()
        self._reads_from_axioms()
        self._coherence_order()
        self._observation()
        self._axioms_of_communication()
        self.solver.add(*conditions)
        if self.solver.check() == z3.unsat:
            # Already impossible without any causality: the rest can only forbid more.
            return
        self._base_causality()
        self._axioms_of_causality()

    # ---- vocabulary --------------------------------------------------------------------------

    def before(self, x: int, y: int) -> bool:
        """Program order."""
        return self.events[x].thread == self.events[y].thread and x < y

    def overlap(self, x: int, y: int) -> bool:
        """Whether two memory events access the same word."""
        return self.events[x].location == self.events[y].location

    def morally_strong(self, x: int, y: int) -> bool:
        """8.7 "Morally strong operations"."""
        a, b = self.events[x], self.events[y]
        if x == y or (a.is_memory and b.is_memory and not self.overlap(x, y)):
            return False
        if a.thread == b.thread:
            return True
        return a.is_strong and b.is_strong and self._includes(a, b) and self._includes(b, a)

    def _includes(self, a: Event, b: Event) -> bool:
        """Whether the scope that ``a`` specifies includes the thread of ``b``."""
        here, there = self.places[a.thread], self.places[b.thread]
        if a.scope == "sys":
            return True
        if a.scope == "gpu":
            return here.gpu == there.gpu
        return here == there

    def reads_from(self, write: int | None, read: int) -> Any:
        """Whether ``read`` takes its value from ``write``, or from the initial write for None."""
        return self._rf.get((write, read), z3.BoolVal(False))

    def coherence(self, first: int, second: int) -> Any:
        """Whether one write precedes another in coherence order."""
        return self._co.get((first, second), z3.BoolVal(False))

    def last_value(self, location: Any, value: int) -> Any:
        """Whether ``value`` may be what is left at ``location`` in the end."""
        writes = [w for w in self.writes if self.events[w].location == location]
        if not writes:
            return z3.BoolVal(self.initial.get(location, 0) == value)
        is_last = [_and(*(_not(self.coherence(w, v)) for v in writes if v != w), _term(self.events[w].value) == value) for w in writes]
        return _or(*is_last)

    def _declare(self) -> None:
        self._rf: dict[tuple[int | None, int], Any] = {}
        for r in self.reads:
            for w in [None, *(w for w in self.writes if self.overlap(w, r))]:
                self._rf[w, r] = z3.Bool(f"rf_{'init' if w is None else w}_{r}")
        self._co = {(v, w): z3.Bool(f"co_{v}_{w}") for v, w in permutations(self.writes, 2) if self.overlap(v, w)}
        self._fr = {(r, w): z3.Bool(f"fr_{r}_{w}") for r in self.reads for w in self.writes if self.overlap(r, w)}
        self._obs = {(w, r): z3.Bool(f"obs_{w}_{r}") for w in self.writes for r in self.reads if self.overlap(w, r)}
        self._fences = [i for i, e in enumerate(self.events) if e.kind == "F" and e.order == "sc"]
        self._sc = {(f, g): z3.Bool(f"sc_{f}_{g}") for f, g in permutations(self._fences, 2) if self.morally_strong(f, g)}
        self._rmw = [(e.partner, i) for i, e in enumerate(self.events) if e.partner is not None]

    def _require(self, *axioms: Any) -> None:
        for axiom in axioms:
            z3.Z3_solver_assert(_CONTEXT.ref(), self.solver.solver, axiom.ast)

    # ---- communication -----------------------------------------------------------------------

    def _reads_from_axioms(self) -> None:
        for r in self.reads:
            choices = [(w, variable) for (w, read), variable in self._rf.items() if read == r]
            self._require(_or(*(v for _, v in choices)))
            self._require(*(_or(_not(a), _not(b)) for (_, a), (_, b) in combinations(choices, 2)))
            for w, variable in choices:
                value = self.initial.get(self.events[r].location, 0) if w is None else self.events[w].value
                self._require(_implies(variable, _term(self.events[r].value) == _term(value)))
                for v in self.writes:
                    # 8.9.7 "Communication order": a read precedes every write that follows the one it reads.
                    if self.overlap(v, r) and v != w:
                        later = variable if w is None else _and(variable, self._co[w, v])
                        self._require(_implies(later, self._fr[r, v]))

    def _coherence_order(self) -> None:
        """8.9.6 "Coherence order": partial, and total among morally strong writes."""
        for (v, w), variable in self._co.items():
            if v < w:
                self._require(_or(_not(variable), _not(self._co[w, v])))
                if self.morally_strong(v, w):
                    self._require(_or(variable, self._co[w, v]))
            for u in self.writes:
                if u not in (v, w) and self.overlap(u, v):
                    self._require(_implies(_and(variable, self._co[w, u]), self._co[v, u]))

    def _observation(self) -> None:
        """8.9.2 "Observation order": a morally strong read of the value, or through a read-modify-write."""
        for (w, r), variable in self._obs.items():
            if self.morally_strong(w, r):
                self._require(_implies(self._rf[w, r], variable))
            for z_read, z_write in self._rmw:
                if z_write != w and z_read != r and self.overlap(z_read, r):
                    self._require(_implies(_and(self._obs[w, z_read], self._obs[z_write, r]), variable))

    # ---- causality ---------------------------------------------------------------------------

    def release_patterns(self) -> list[tuple[int, int]]:
        """8.8 "Release and acquire patterns": (first operation, write) of every release pattern."""
        out = []
        for i, e in enumerate(self.events):
            if e.kind == "W" and e.order == "release":
                out += [(i, i), *((i, w) for w in self.writes if self.before(i, w) and self.overlap(i, w) and self.events[w].is_strong)]
            elif e.kind == "F" and e.order in ("release", "acq_rel", "sc"):
                out += [(i, w) for w in self.writes if self.before(i, w) and self.events[w].is_strong]
        return out

    def acquire_patterns(self) -> list[tuple[int, int]]:
        """8.8 "Release and acquire patterns": (read, last operation) of every acquire pattern."""
        out = []
        for i, e in enumerate(self.events):
            earlier = [r for r in self.reads if self.before(r, i) and self.events[r].is_strong and self.events[r].acquires]
            if e.kind == "R" and e.order == "acquire":
                out += [(i, i), *((r, i) for r in earlier if self.overlap(r, i))]
            elif e.kind == "F" and e.order in ("acquire", "acq_rel", "sc"):
                out += [(r, i) for r in earlier]
        return out

    def _base_causality(self) -> None:
        """8.9.4 "Memory synchronization" and 8.9.5 "Causality order"."""
        edges: dict[tuple[int, int], list[Any]] = {}
        for first, write in self.release_patterns():
            for read, last in self.acquire_patterns():
                if (write, read) in self._obs and self.morally_strong(first, last):
                    edges.setdefault((first, last), []).append(self._obs[write, read])
        for pair, variable in self._sc.items():
            edges.setdefault(pair, []).append(variable)
        always = [[self.before(x, y) or self._same_block_barrier(x, y) for y in range(self._n)] for x in range(self._n)]
        for k in range(self._n):
            via = [y for y in range(self._n) if always[k][y]]
            for x in range(self._n):
                if always[x][k]:
                    for y in via:
                        always[x][y] = True
        self._always = always
        # A chain is a sequence of synchronizing edges with program order and block barriers around them. So
        # it is enough to know, for every source and every target of such edges, whether a chain that starts
        # with an edge from the one may end with an edge into the other.
        sources, targets = sorted({u for u, _ in edges}), sorted({v for _, v in edges})
        self._chain = {(u, v): z3.Bool(f"chain_{u}_{v}") for u in sources for v in targets}
        for (u, v), reasons in edges.items():
            edge = z3.Bool(f"edge_{u}_{v}")
            self._require(*(_implies(reason, edge) for reason in reasons))
            self._require(_implies(edge, self._chain[u, v]))
            for middle in targets:
                if middle == u or always[middle][u]:
                    self._require(*(_implies(_and(self._chain[w, middle], edge), self._chain[w, v]) for w in sources))
        self._sources_after = [tuple(u for u in sources if x == u or always[x][u]) for x in range(self._n)]
        self._targets_before = [tuple(v for v in targets if v == y or always[v][y]) for y in range(self._n)]
        self._chains: dict[tuple, Any] = {}

    def _same_block_barrier(self, x: int, y: int) -> bool:
        a, b = self.events[x], self.events[y]
        return a.kind == "BA" and b.kind == "BW" and a.location == b.location

    def base_causality(self, x: int, y: int) -> Any:
        """Whether ``x`` precedes ``y`` in base causality order."""
        if self._always[x][y]:
            return z3.BoolVal(True)
        key = (self._sources_after[x], self._targets_before[y])
        if key not in self._chains:
            self._chains[key] = _or(*(self._chain[u, v] for u in key[0] for v in key[1]))
        return self._chains[key]

    def causality(self, x: int, y: int) -> Any:
        """8.9.5 "Causality order": base causality, or an observation followed by base causality."""
        observed = [_and(self._obs[x, r], self.base_causality(r, y)) for r in self.reads if (x, r) in self._obs]
        return _or(self.base_causality(x, y), *observed)

    # ---- axioms ------------------------------------------------------------------------------

    def _axioms_of_communication(self) -> None:
        for r, w in self._rmw:
            # 8.10.3 "Atomicity".
            for v in self.writes:
                if v != w and self.overlap(v, w) and self.morally_strong(r, v) and self.morally_strong(v, w):
                    self._require(_not(_and(self._fr[r, v], self._co[v, w])))
        if self._thin_air:
            self._no_thin_air()
        # 8.10.5 "Sequential consistency per location".
        memory = self.reads + self.writes
        edges = [(x, y, z3.BoolVal(True)) for x in memory for y in memory if self.before(x, y) and self.overlap(x, y)]
        for relation in (self._rf, self._co, self._fr):
            edges += [(x, y, variable) for (x, y), variable in relation.items() if x is not None and self.morally_strong(x, y)]
        self._acyclic("loc", edges)

    def _axioms_of_causality(self) -> None:
        add = self._require
        for (v, w), variable in self._co.items():
            # 8.10.1 "Coherence".
            add(_implies(self.causality(v, w), variable))
        for (f, g), variable in self._sc.items():
            # 8.9.3 "Fence-SC order" and 8.10.2 "Fence-SC".
            if f < g:
                add(variable != self._sc[g, f])
            add(_implies(self.causality(f, g), variable))
        self._acyclic("sc", [(f, g, variable) for (f, g), variable in self._sc.items()])
        # 8.10.6 "Causality".
        for (source, r), variable in self._rf.items():
            if source is not None:
                add(_not(_and(variable, self.causality(r, source))))
        for (r, w), variable in self._fr.items():
            add(_not(_and(variable, self.causality(w, r))))

    def _no_thin_air(self) -> None:
        """8.10.4 "No thin air"."""
        edges = [(w, r, variable) for (w, r), variable in self._rf.items() if w is not None]
        edges += [(r, i, z3.BoolVal(True)) for i, e in enumerate(self.events) for r in e.depends]
        edges += [(r, w, z3.BoolVal(True)) for r, w in self._rmw]
        self._acyclic("thin", edges)

    def _acyclic(self, name: str, edges: list[tuple[int, int, Any]]) -> None:
        rank = {x: z3.BitVec(f"{name}_{x}", self._rank_bits) for edge in edges for x in edge[:2]}
        for x, y, condition in edges:
            self._require(_implies(condition, z3.ULT(rank[x], rank[y])))

    # ---- answers -----------------------------------------------------------------------------

    def possible(self, *outcome: Any) -> bool:
        """Whether some execution has all of ``outcome``.

        Raises
        ------
        RuntimeError
            Where z3 gives up.
        """
        self.solver.push()
        self.solver.add(*outcome)
        answer = self.solver.check()
        self._witness = self.solver.model() if answer == z3.sat else None
        self.solver.pop()
        if answer == z3.unknown:
            raise RuntimeError(f"z3 gave up: {self.solver.reason_unknown()}")
        return answer == z3.sat

    def witness(self) -> list[str]:
        """The execution that the last :meth:`possible` found: each event, and where each read's value is from."""
        if self._witness is None:
            raise ValueError("no execution was found")
        lines = []
        for i, event in enumerate(self.events):
            line = f"thread {event.thread}: {event.label or event.kind}"
            if event.kind == "R":
                source = next(w for (w, r), v in self._rf.items() if r == i and z3.is_true(self._witness.eval(v, model_completion=True)))
                line += f"  <- {'initial value' if source is None else self.events[source].label or source}"
            lines.append(line)
        return lines


# z3's own functions look at every argument's sort, which takes longer than the solving does. What they are given here is
# Boolean and of one context.
_CONTEXT = z3.main_ctx()


def _and(*terms: Any) -> Any:
    return z3.BoolRef(z3.Z3_mk_and(_CONTEXT.ref(), len(terms), _array(terms)), _CONTEXT)


def _or(*terms: Any) -> Any:
    return z3.BoolRef(z3.Z3_mk_or(_CONTEXT.ref(), len(terms), _array(terms)), _CONTEXT)


def _not(term: Any) -> Any:
    return z3.BoolRef(z3.Z3_mk_not(_CONTEXT.ref(), term.ast), _CONTEXT)


def _implies(condition: Any, term: Any) -> Any:
    return z3.BoolRef(z3.Z3_mk_implies(_CONTEXT.ref(), condition.ast, term.ast), _CONTEXT)


def _array(terms: tuple[Any, ...]) -> Any:
    return (z3.Ast * len(terms))(*(term.ast for term in terms))


def _term(value: Any) -> Any:
    return z3.BitVecVal(value, 32) if isinstance(value, int) else value
