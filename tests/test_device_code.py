"""PTX and SASS of real cubins: one leader per block, the protocol's own instructions, and no other fence."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

import pytest
import tilelang
import torch
from barrier_kernels import dynamic_reverse
from kernels import CUTEDSL, LAYOUTS, handoff, layout_id, many_blocks, skipping_where, stages, two_kernels

import tl_gridsync_pass as gs
from tl_gridsync_pass import protocol
from tl_gridsync_pass.seams.offline import device_code_of

STATES = ["launch", "module"]
AXES = {32: ("x",), (32, 2): ("x", "y"), (32, 1, 2): ("x", "z"), (16, 2, 2): ("x", "y", "z")}

each_layout = pytest.mark.parametrize("threads", LAYOUTS, ids=layout_id)
each_state = pytest.mark.parametrize("state", STATES)


def instructions(ptx: str) -> list[str]:
    """The instructions of a PTX text, without comments."""
    lines = (re.sub(r"//.*", "", line).strip() for line in ptx.splitlines())
    return [line for line in lines if line.endswith(";")]


def occurrences(statement: protocol.Ptx, ptx: str) -> int:
    """How often ``statement`` stands in ``ptx``, whatever registers and numbers its operands became."""
    pattern = re.sub(r"\\\$\d", r"[%\\w-]+", re.escape(statement.text.strip()))
    return len(re.findall(pattern, ptx))


def ordering(chosen: protocol.Protocol, bounded: bool = False) -> str:
    """The instructions of the protocol's leader that may order something, one a line."""
    return "\n".join(instructions(chosen.arrive.text + (chosen.bounded_wait if bounded else chosen.wait).text))


@each_state
@each_layout
def test_the_ptx_holds_the_protocol_once_for_the_barrier(compiled, threads, state):
    ptx = compiled(handoff, threads, state=state).ptx
    chosen = protocol.PROTOCOLS[state]
    for statement in (*chosen.entry, *chosen.setup, chosen.arrive, chosen.wait):
        assert statement is protocol.WORKSPACE or occurrences(statement, ptx) == 1
    assert occurrences(protocol.WORKSPACE, ptx) >= 1
    assert occurrences(protocol.FIRST_GENERATION, ptx) == (1 if state == "launch" else 0)


@each_state
@each_layout
def test_the_ptx_has_no_ordering_beside_the_protocols(compiled, threads, state):
    """Every instruction with an ordering comes from the protocol; the block barriers around it are two."""
    emitted = instructions(compiled(handoff, threads, state=state).ptx)
    ordered = re.compile(r"\.(release|acquire|acq_rel|sc)\b|^(fence|membar)")
    asked_for = [i for i in ordering(protocol.PROTOCOLS[state]).splitlines() if ordered.search(i)]
    assert len(asked_for) >= 2
    assert len([i for i in emitted if ordered.search(i)]) == len(asked_for)
    assert [i.split()[0] for i in emitted if i.startswith("bar")] == ["bar.sync", "bar.sync"]


@each_state
@each_layout
def test_one_leader_per_block(compiled, threads, state):
    (barrier,) = compiled(handoff, threads, state=state).barriers
    assert barrier.leader_axes == AXES[threads]


@each_layout
def test_the_stock_leader_is_chosen_by_x_alone(compiled, threads):
    (barrier,) = compiled(handoff, threads, state=None).barriers
    assert barrier.leader_axes == ("x",)


@each_state
@each_layout
def test_exactly_the_fences_that_the_protocol_asks_for(compiled, threads, state):
    """On sm_90 a release is MEMBAR.ALL.GPU and an acquire is CCTL.IVALL; nobody but the leader has one.

    Without a call of printf in the kernel: with one, ptxas puts MEMBAR.ALL.CTA before each MEMBAR.ALL.GPU.
    """
    (barrier,) = compiled(handoff, threads, state=state).barriers
    text = ordering(protocol.PROTOCOLS[state])
    releases = len(re.findall(r"\.(?:release|acq_rel)\b", text))
    acquires = len(re.findall(r"\.(?:acquire|acq_rel)\b", text))
    assert sorted(barrier.leader_fences) == sorted(["MEMBAR.ALL.GPU"] * releases + ["CCTL.IVALL"] * acquires)
    assert barrier.block_fences == ()


@each_state
def test_the_watchdog_orders_as_the_plain_barrier_does(compiled, state):
    """Its bounded wait has the same ordering instructions, and the report beyond is the only other code that fences."""
    text = ordering(protocol.PROTOCOLS[state], bounded=True)
    assert text.count("acquire") == ordering(protocol.PROTOCOLS[state]).count("acquire")
    (barrier,) = compiled(handoff, (32, 2), state=state, timeout_ms=500).barriers
    gpu = sorted(fence for fence in barrier.leader_fences if fence in ("MEMBAR.ALL.GPU", "CCTL.IVALL"))[::-1]
    assert gpu == ["MEMBAR.ALL.GPU"] * len(re.findall(r"\.(?:release|acq_rel)\b", text)) + ["CCTL.IVALL"] * (2 if state == "module" else 1)


@each_state
@each_layout
def test_release_comes_before_the_arrival_and_acquire_after_the_poll(compiled, threads, state):
    (barrier,) = compiled(handoff, threads, state=state).barriers
    opcodes = [next(word for word in line.split()[1:] if not word.startswith("@")) for line in barrier.listing]
    arrival = opcodes.index(barrier.arrival[0])
    poll = max(i for i, opcode in enumerate(opcodes) if opcode.startswith("LDG.E.STRONG.GPU"))
    assert opcodes.index("MEMBAR.ALL.GPU") < arrival < poll < max(i for i, opcode in enumerate(opcodes) if opcode == "CCTL.IVALL")
    assert opcodes[0].startswith("BAR.SYNC") and opcodes[-1].startswith("BAR.SYNC")


@each_layout
def test_each_state_counts_where_it_says(compiled, threads):
    counters = {"launch": ("workspace", "REDG.E.ADD.STRONG.GPU"), "module": ("module", "ATOMG.E.ADD.STRONG.GPU")}
    for state, (counter, arrival) in counters.items():
        (barrier,) = compiled(handoff, threads, state=state).barriers
        assert (barrier.counter, barrier.arrival, barrier.polls, barrier.block_barriers) == (counter, (arrival,), 1, 2)


def test_a_grid_of_many_blocks_arrives_with_its_rank(compiled):
    code = compiled(many_blocks, 512)
    (barrier,) = code.barriers
    ranked = protocol.LAUNCH_RANKED
    assert [occurrences(statement, code.ptx) for statement in (ranked.arrive, ranked.pace, ranked.wait)] == [1, 1, 1]
    assert occurrences(protocol.LAUNCH.arrive, code.ptx) == 0
    assert (barrier.leader_axes, barrier.counter, barrier.arrival) == (("x", "y"), "workspace", ("ATOMG.E.ADD.STRONG.GPU",))
    assert sorted(barrier.leader_fences) == ["CCTL.IVALL", "MEMBAR.ALL.GPU"] and barrier.block_fences == ()


def test_a_grid_of_very_many_blocks_has_stripes_and_the_drivers_word_to_fall_back_on(compiled):
    ptx = compiled(many_blocks, 1000).ptx
    striped = protocol.LAUNCH_STRIPED
    ranked = protocol.LAUNCH_RANKED
    for statement in (*striped.entry[1:], *(getattr(p, part) for p in (striped, ranked) for part in ("arrive", "pace", "wait"))):
        assert occurrences(statement, ptx) == 1, statement
    assert re.search(
        rf"__tl_gridsync_stripes\[{protocol.STRIPE_TABLE_BYTES}|__tl_gridsync_stripes\[{protocol.STRIPE_TABLE_BYTES // 8}", ptx
    )


def test_a_dynamic_grid_claims_stripes_only_where_it_is_large():
    """A smaller grid counts in the driver's word, and its stripes may hold another generation: it claims with a null workspace."""
    kernel = tilelang.compile(dynamic_reverse(), target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    with skipping_where(
        "Unsupported argument type: <class 'int'>", "CuTe DSL 4.3 compiles no kernel with a dynamic size for TileLang 0.1.9"
    ):
        ptx = device_code_of(kernel, *[torch.zeros(100, dtype=torch.int32)] * 3, 100).ptx
    (workspace,) = re.findall(r"cas\.b64 %owner, \[%entry\+16384\], 0, (%rd\d+);", ptx)
    chosen = re.search(rf"selp\.b64\s+{workspace}, %rd\d+, 0, (%p\d+);", ptx)
    assert chosen and re.search(rf"setp\.gt\.u32\s+{chosen[1]}, %r\d+, {protocol.STRIPED_ABOVE};", ptx)


@each_state
def test_a_launch_that_is_not_cooperative_is_noticed(compiled, state):
    """With a watchdog it says so as well; without one there is no printf, which would slow every barrier of the kernel."""
    code = compiled(handoff, (32, 2), state=state)
    (barrier,) = code.barriers
    assert barrier.checks_workspace and barrier.traps
    assert "printf" not in code.ptx
    code = compiled(handoff, (32, 2), state=state, timeout_ms=500)
    message = bytes(int(n) for n in re.search(r"printfFormat_0\[\d+\] = \{([\d, ]+)\}", code.ptx)[1].split(","))
    assert b"not launched cooperatively" in message and b"cuLaunchCooperativeKernel" in message


def test_stock_notices_nothing_and_fences_every_thread(compiled):
    (barrier,) = compiled(handoff, (32, 2), state=None).barriers
    assert not barrier.checks_workspace and not barrier.traps
    assert barrier.counter == "module"
    # The helper of 0.1.9 to 0.1.11, the one without a generation, has no such fence.
    helper = Path(find_spec("tilelang.contrib.cutedsl.grid_sync").origin).read_text()
    assert barrier.block_fences.count("MEMBAR.SC.GPU") == helper.count("membar.gl;")


@each_state
def test_many_barriers_in_one_kernel(compiled, state):
    """The serial loop of 5 is unrolled too, by ptxas's front end, so the labels in the PTX texts appear eleven times."""
    code = compiled(stages, state=state)
    assert len(code.kernels) == 1
    emitted = occurrences(protocol.PROTOCOLS[state].arrive, code.ptx)
    assert emitted >= 6
    assert len(code.barriers) == emitted
    assert {barrier.leader_axes for barrier in code.barriers} == {("x", "y")}
    assert len({barrier.address for barrier in code.barriers}) == emitted


@each_state
def test_two_kernels_in_one_module(compiled, state):
    code = compiled(two_kernels, state=state)
    facts = {tuple(barrier.leader_axes for barrier in kernel.barriers) for kernel in code.kernels}
    assert facts == {(("x", "y"),), (("x", "z"), ("x", "z"))}


def test_the_module_state_declares_its_words_once_for_all_kernels_and_barriers(compiled):
    ptx = compiled(two_kernels, state="module").ptx
    declared = re.findall(r"^\.global .*\b(__tl_gridsync_\w+)\[", ptx, flags=re.MULTILINE)
    assert sorted(declared) == ["__tl_gridsync_counter", "__tl_gridsync_generation"]
    assert "__tl_gridsync" not in compiled(two_kernels, state="launch").ptx
