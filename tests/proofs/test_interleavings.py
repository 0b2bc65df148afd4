"""Every interleaving of the shipped barriers, and the ones that must fail."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tl_gridsync_pass.proofs import mutants, report, safety, stock, trace
from tl_gridsync_pass.proofs.explore import Exploration, TooManyStates
from tl_gridsync_pass.proofs.harness import Grid, Harness, require_inert
from tl_gridsync_pass.proofs.ptx import PtxError
from tl_gridsync_pass.protocol import (
    LAUNCH,
    LAUNCH_RANKED,
    LAUNCH_STRIPED,
    MODULE,
    PROTOCOLS,
    STRIPE_BYTES,
    STRIPE_TABLE_BYTES,
    STRIPES,
    Protocol,
    Ptx,
)

SHIPPED = pytest.mark.parametrize("protocol", [LAUNCH, LAUNCH_RANKED, MODULE], ids=lambda p: p.name)
SHIPPED_AND_TWO_STRIPES = pytest.mark.parametrize(
    "protocol", [LAUNCH, LAUNCH_RANKED, MODULE, safety.with_two_stripes()], ids=lambda p: p.name
)


@pytest.mark.parametrize(
    ("protocol", "shape"),
    [(p, shape) for p in PROTOCOLS.values() for shape in safety.shapes_for(p)],
    ids=lambda x: getattr(x, "name", str(x)),
)
def test_shipped_barrier_holds(protocol, shape):
    question = safety.one_launch(Harness(protocol), *shape, safety.rounds_for(protocol, shape[0]))
    result = question.exploration().run()
    assert result.violation is None, trace.render(question, result)
    # Every thread takes at least its three entries, so a search that stopped short would show.
    threads = len(question.grids[0].block_indices()) * len(question.grids[0].thread_indices())
    assert result.steps > result.states > safety.rounds_for(protocol, shape[0]) * threads


@pytest.mark.parametrize("shape", safety.TWO_STRIPES_SHAPES, ids=str)
def test_striped_barrier_with_two_stripes_holds(shape):
    question = safety.one_launch(Harness(safety.with_two_stripes()), *shape)
    result = question.exploration().run()
    assert result.violation is None, trace.render(question, result)
    # Three rounds leave the counts at zero and the generation at three, in both stripes.
    assert result.final_memories == {(3 << 30, 3 << 30, 0, 0)}


def test_striped_barrier_with_one_generation_bit_would_hang():
    """A stripe flips twice before a block of the other has polled it."""
    (mutant,) = [m for m in mutants.mutants() if m.name == "launch, striped: generation of one bit"]
    result = safety.one_launch(mutant.harness, (4, 1, 1), (1, 1, 1), rounds=2).exploration().run()
    assert result.violation.kind == "no end"


@SHIPPED_AND_TWO_STRIPES
def test_the_watchdog_stops_the_grid_or_the_barrier_holds(protocol):
    for shape in (((2, 1, 1), (1, 2, 1)), ((3, 1, 1), (1, 1, 1))):
        question = safety.one_launch(Harness(protocol, bounded=True), *shape)
        result = question.exploration().run()
        assert result.violation is None, trace.render(question, result)
        assert result.stopped and result.final_memories


def test_the_watchdog_of_four_stripes():
    result = safety.one_launch(Harness(LAUNCH_STRIPED, bounded=True), (4, 1, 1), (1, 1, 1), rounds=1).exploration().run()
    assert result.violation is None
    assert result.stopped and result.final_memories


@pytest.mark.parametrize("bounded", [False, True])
@pytest.mark.parametrize(("count", "taken"), [(1, 0), (1, 2), (2, 0), (2, 1), (2, 2)])
def test_launches_that_ask_for_one_slot_of_the_table(count, taken, bounded):
    """Each gets a slot of its own, for all its blocks alike, and where there is none left they count in the driver's word."""
    question = safety.launches_in_one_slot(count, slots=2, taken=taken, bounded=bounded)
    result = question.exploration().run()
    assert result.violation is None, trace.render(question, result)
    addresses = [address for address, _ in question.memory]
    for words in result.final_memories:
        memory = dict(zip(addresses, words, strict=True))
        owners = [memory[safety.owner_of(slot)] for slot in range(2)]
        for grid in question.grids:
            counted = memory[grid.workspace + 4]
            assert owners.count(grid.workspace) + (counted == 1 << 31) == 1
            assert counted in (0, 1 << 31)
        assert sum(owner > 0x1000 for owner in owners) == min(count, 2 - taken)


def test_a_full_table_of_128_slots():
    """With the shipped claim, not a smaller table: both blocks look at all slots and use the driver's word."""
    grid = safety.grid_of(Harness(LAUNCH_STRIPED), (2, 1, 1), (1, 1, 1), rounds=1)
    memory = {safety.owner_of(slot): 64 * (slot + 1) for slot in range(128)} | {grid.workspace + 4: 0}
    result = safety.Question("full", (grid,), tuple(sorted(memory.items()))).exploration().run()
    assert result.violation is None
    assert {words[0] for words in result.final_memories} == {1 << 31}


@SHIPPED
@pytest.mark.parametrize("shape", [((2, 1, 1), (1, 2, 1)), ((3, 1, 1), (1, 1, 1))], ids=str)
def test_split_arrive_and_wait_hold(protocol, shape):
    question = safety.one_launch(Harness(protocol, split=True), *shape)
    result = question.exploration().run()
    assert result.violation is None, trace.render(question, result)


@SHIPPED_AND_TWO_STRIPES
def test_next_launch_finds_the_words_ready(protocol):
    results = list(safety.launches_in_turn(Harness(protocol), (3, 1, 1), (1, 1, 1), count=3))
    assert len(results) >= 3
    for question, result in results:
        assert result.violation is None, trace.render(question, result)


def test_generation_may_wrap_around():
    question = safety.one_launch(Harness(MODULE), (3, 1, 1), (1, 1, 1), initial=[0, 2**32 - 2])
    result = question.exploration().run()
    assert result.violation is None, trace.render(question, result)
    assert result.final_memories == {(0, 1)}


@pytest.mark.parametrize("protocol", [LAUNCH, LAUNCH_RANKED], ids=lambda p: p.name)
def test_two_launches_at_once_on_words_of_their_own_hold(protocol):
    question = safety.two_launches(Harness(protocol), (2, 1, 1), (2, 1, 1), shared=False)
    result = question.exploration().run()
    assert result.violation is None, trace.render(question, result)


def test_the_pause_changes_nothing():
    result = safety.one_launch(Harness(LAUNCH_RANKED, paced=True), (2, 1, 1), (2, 1, 1)).exploration().run()
    assert result.violation is None


def test_a_pause_that_does_more_is_refused():
    with pytest.raises(PtxError, match="more than let time pass"):
        require_inert(Ptx("{ .reg .b32 %a; ld.relaxed.gpu.global.u32 %a, [$0]; }", inputs=("word",)))


@pytest.mark.parametrize(("title", "question"), report.refuted(), ids=[title for title, _ in report.refuted()])
def test_barriers_that_must_fail_do(title, question):
    result = question.exploration().run()
    assert result.violation is not None
    assert result.violation.kind == ("no end" if "0.1.9" in title else "early release")
    text = trace.render(question, result)
    assert len(text.splitlines()) == len(result.trace) + 2
    assert "$" not in text


def test_stock_barrier_is_right_where_threadidx_x_names_one_leader():
    for blocks, threads in (((2, 1, 1), (2, 1, 1)), ((3, 1, 1), (2, 1, 1))):
        assert safety.one_launch(stock.harness(stock.COUNTER_AND_GENERATION), blocks, threads).exploration().run().holds


def test_counterexample_is_a_shortest_one():
    # Both threads of block 0 enter, read the generation and add; the last resets and advances; the other sees it.
    question = safety.one_launch(stock.harness(stock.COUNTER_AND_GENERATION), (2, 1, 1), (1, 2, 1), rounds=1)
    assert len(question.exploration().run().trace) == 9


def test_sum_story_tells_how_1_3_comes_about():
    story = trace.sum_story().splitlines()
    assert story[-1] == "  sums = [1, 3], and [3, 3] is right"
    assert any("reads values = [1, 0]: sum 1" in line for line in story)


def test_sum_story_needs_a_counterexample():
    with pytest.raises(ValueError, match="no counterexample"):
        trace.sum_story(Harness(LAUNCH))


def _by_hand(text: str, rounds: int = 1, **around) -> Exploration:
    protocol = Protocol("by hand", (), (), Ptx(text, inputs=("counter",)), None, Ptx(""), Ptx(""), None)
    harness = Harness(protocol, **around)
    return Exploration([Grid(harness, (2, 1, 1), (1, 1, 1), addresses={"counter": 64}, rounds=rounds)], {64: 0})


def test_finds_a_trap():
    assert _by_hand("trap;").run().violation.kind == "trap"


def test_finds_a_livelock():
    result = _by_hand(
        "{ .reg .b32 %a; .reg .pred %p; AGAIN: atom.relaxed.gpu.global.xor.b32 %a, [$0], 1; setp.ne.u32 %p, %a, 7; @%p bra AGAIN; }"
    ).run()
    assert result.violation.kind == "no end"


def test_finds_a_foreign_word_and_a_wrong_width():
    assert _by_hand("st.relaxed.gpu.global.u32 [$0+4], 1;").run().violation.kind == "foreign word"
    assert _by_hand("st.relaxed.gpu.global.u64 [$0], 1;").run().violation.kind == "foreign word"


def test_refuses_a_register_that_may_be_unset():
    with pytest.raises(PtxError, match="before it is written"):
        _by_hand("{ .reg .b32 %a; st.relaxed.gpu.global.u32 [$0], %a; }")


def test_bounds_the_search():
    exploration = safety.one_launch(Harness(LAUNCH), (3, 1, 1), (1, 1, 1)).exploration()
    with pytest.raises(TooManyStates):
        exploration.run(max_states=50)


def test_symmetry_keeps_the_answer():
    """Without the reduction there are more states and the same finds."""
    for question in (
        safety.one_launch(Harness(LAUNCH), (3, 1, 1), (1, 2, 1), rounds=2),
        safety.one_launch(stock.harness(stock.COUNTER_AND_GENERATION), (2, 1, 1), (1, 2, 1), rounds=1),
        safety.one_launch(replace(Harness(MODULE), block_barrier_before=False), (2, 1, 1), (2, 1, 1), rounds=1),
    ):
        reduced = question.exploration().run()
        full = question.exploration()
        full.canonical = lambda state: state
        unreduced = full.run()
        assert (reduced.violation is None) == (unreduced.violation is None)
        assert len(reduced.trace) == len(unreduced.trace)
        assert reduced.violation is not None or unreduced.states > reduced.states
        assert reduced.final_memories == unreduced.final_memories or reduced.violation is not None


def test_all_blocks_of_a_launch_find_the_same_slot():
    """Each block counts itself in the slot that it found, and waits for three."""
    wait = "{ .reg .b32 %a; .reg .pred %p; POLL: ld.relaxed.gpu.global.u32 %a, [$0]; setp.ne.u32 %p, %a, 3; @%p bra POLL; }"
    count = Ptx("red.relaxed.gpu.global.add.u32 [$0], 1;", inputs=("stripes",))
    protocol = Protocol("claim", LAUNCH_STRIPED.entry[:2], (), count, None, Ptx(wait, inputs=("stripes",)), Ptx(""), None)
    grid = safety.grid_of(Harness(protocol), (3, 1, 1), (1, 1, 1), rounds=1)
    words = safety.words_of(grid)
    widths = {address: 64 for address, name in words.items() if name == "owner"}
    result = Exploration([grid], dict.fromkeys(words, 0), widths).run()
    assert result.violation is None
    assert {memory[-1] for memory in result.final_memories} == {grid.workspace}


def test_every_slot_of_the_table_has_words_of_its_own():
    """One block claims each slot in turn; an access to any word but the slot's would be a violation."""
    count = Ptx("red.relaxed.gpu.global.add.u32 [$0], 1;", inputs=("stripes",))
    wait = "{ .reg .b32 %a; ld.relaxed.gpu.global.u32 %a, [$0+STRIPE]; }".replace("STRIPE", str(STRIPE_BYTES * (STRIPES - 1)))
    protocol = Protocol("claim", LAUNCH_STRIPED.entry[:2], (), count, None, Ptx(wait, inputs=("stripes",)), Ptx(""), None)
    table = safety.grid_of(Harness(protocol), (1, 1, 1), (1, 1, 1), rounds=1)
    taken: set[int] = set()
    for slot in range(128):
        grid = replace(table, workspace=table.workspace + 64 * slot)
        words = safety.words_of(grid)
        assert len(words) == STRIPES + 1 and taken.isdisjoint(words)
        taken.update(words)
        widths = {address: 64 for address, name in words.items() if name == "owner"}
        result = Exploration([grid], dict.fromkeys(words, 0), widths).run()
        assert result.violation is None
        assert [dict(zip(sorted(words), memory, strict=True))[min(words)] for memory in result.final_memories] == [1]
    first, last = min(taken), max(taken)
    # The owners are 64 bits wide.
    assert last + 8 - first == STRIPE_TABLE_BYTES


def test_first_generation_of_another_stripe_would_hang():
    """What the striped protocol must not do: a stripe flips before the blocks of the others have started."""
    everyone = next(s for s in LAUNCH_STRIPED.entry if s.output == "first_word")
    first = replace(everyone, text=everyone.text.replace("cvt.u64.u32 %own, $3;", "mov.u64 %own, 0;"))
    assert first != everyone
    protocol = replace(LAUNCH_STRIPED, entry=tuple(first if s == everyone else s for s in LAUNCH_STRIPED.entry))
    result = safety.one_launch(Harness(protocol), (4, 1, 1), (1, 1, 1), rounds=1).exploration().run()
    assert result.violation.kind == "no end"
