"""The split barrier: what it lowers to, what it compiles to, and every misuse."""

import re

import pytest
import tilelang
import tilelang.language as T
from ir_builders import BARRIER, block_sync, function, module, sync_grid
from kernels import CUDA, CUTEDSL
from split_kernels import split_rounds
from test_device_code import instructions, occurrences

import tl_gridsync_pass as gs
from tl_gridsync_pass import protocol, sass
from tl_gridsync_pass.language import grid_arrive, grid_wait
from tl_gridsync_pass.lowering import verify_and_lower
from tl_gridsync_pass.options import GridSyncOptions
from tl_gridsync_pass.seams import offline
from tl_gridsync_pass.seams.device_ir import device_module
from tl_gridsync_pass.split_phase import PHASE_ATTR
from tl_gridsync_pass.tvm_compat import tir, tvm
from tl_gridsync_pass.verify import Severity, find

X, Y = "threadIdx.x", "threadIdx.y"
STATES = ("launch", "module")


def marked(phase: str):
    return lambda axes: [tir.AttrStmt(tir.IntImm("int32", 0), PHASE_ATTR, tir.StringImm(phase), sync_grid(axes)[0])]


def phases(*made):
    """A maker that gives each BARRIER of a description its own statements, in turn."""
    left = iter(made)
    return lambda axes: next(left)(axes)


def call(name: str, state: str, *more):
    def make(axes):
        guard = tir.And(tir.EQ(axes[X], tir.IntImm("int32", 0)), tir.EQ(axes[Y], tir.IntImm("int32", 0)))
        made = tir.call_extern("handle", f"tl_gridsync::{name}", tir.StringImm(state), tir.IntImm("int32", 4), *more)
        guarded = tir.IfThenElse(guard, tir.Evaluate(made), None)
        return [block_sync(), guarded] if name == "arrive" else [guarded, block_sync()]

    return make


@pytest.mark.parametrize("timeout_ms", [0, 500])
@pytest.mark.parametrize("state", STATES)
def test_each_phase_becomes_its_call_under_the_guard_with_the_block_barrier_it_needs(state, timeout_ms):
    statements, extents = [1, BARRIER, 2, BARRIER, 3], {X: 32, Y: 2}
    more = [tir.IntImm("int32", 500), tir.StringImm("kernel")] if timeout_ms else []
    before = module(function(statements, extents, phases(marked("arrive"), marked("wait"))))
    expected = module(function(statements, extents, phases(call("arrive", state, *more), call("wait", state, *more))))
    tvm.ir.assert_structural_equal(gs.GridSyncPass(state, timeout_ms=timeout_ms)(before), expected)


def test_on_the_cuda_backend_each_phase_is_a_full_barrier():
    before = module(function([BARRIER, 1, BARRIER], {X: 32, Y: 2}, phases(marked("arrive"), marked("wait"))))
    text = str(verify_and_lower(before, GridSyncOptions(backends="cutedsl,cuda"), backend="cuda"))
    assert text.count("tl_gridsync_arrive_and_wait") == 2 and text.count("tvm_storage_sync") == 4


A, W, F = "arrive", "wait", "full"


def make(phase: str):
    return sync_grid if phase == F else marked(phase)


MISUSES = {
    "wait alone": ([BARRIER], [W], r"grid_wait\(\) has no grid_arrive\(\) before it"),
    "arrive alone": ([BARRIER, 1], [A], r"grid_arrive\(\) has no grid_wait\(\)"),
    "the wrong way round": ([BARRIER, BARRIER], [W, A], r"grid_wait\(\) has no grid_arrive\(\)"),
    "arrive twice": ([BARRIER, 1, BARRIER, BARRIER], [A, A, W], r"stands after another one"),
    "wait twice": ([BARRIER, BARRIER, BARRIER], [A, W, W], r"grid_wait\(\) has no grid_arrive\(\)"),
    "a full barrier between": ([BARRIER, BARRIER, BARRIER], [A, F, W], r"T\.sync_grid\(\) stands between"),
    "a full barrier in a loop between": ([BARRIER, ("serial", 3, [BARRIER]), BARRIER], [A, F, W], r"in a loop or branch between"),
    "wait in a loop": ([BARRIER, ("serial", 3, [BARRIER])], [A, W], r"in a loop or branch between"),
    "wait in an unrolled loop": ([BARRIER, ("unrolled", 3, [BARRIER])], [A, W], r"in a loop or branch between"),
    "wait in a branch": ([BARRIER, ("if", [BARRIER])], [A, W], r"in a loop or branch between"),
    "arrive in a branch": ([("if", [BARRIER]), BARRIER], [A, W], r"grid_arrive\(\) has no grid_wait\(\)"),
    "arrive in a loop": ([("serial", 3, [BARRIER]), BARRIER], [A, W], r"grid_arrive\(\) has no grid_wait\(\)"),
    "arrive and wait in two branches": ([("if else", [BARRIER], [BARRIER])], [A, W], r"grid_arrive\(\) has no grid_wait\(\)"),
    "a pair in a loop inside another pair": (
        [BARRIER, ("serial", 2, [BARRIER, BARRIER]), BARRIER],
        [A, A, W, W],
        r"in a loop or branch between",
    ),
    "a phase that nobody knows": ([BARRIER], ["depart"], r"unknown phase 'depart'"),
}


@pytest.mark.parametrize("misuse", MISUSES)
def test_misuse_is_refused(misuse):
    statements, barriers, message = MISUSES[misuse]
    before = module(function(statements, {X: 32}, phases(*map(make, barriers)), name="misused"))
    with pytest.raises(gs.GridSyncLoweringError, match=rf"'misused'.*{message}"):
        gs.GridSyncPass(verify="off")(before)


RIGHT = {
    "in a loop": ([("serial", 3, [BARRIER, 1, BARRIER])], [A, W]),
    "in a branch": ([("if", [BARRIER, BARRIER])], [A, W]),
    "in both branches": ([("if else", [BARRIER, BARRIER], [BARRIER, BARRIER])], [A, W, A, W]),
    "with full barriers around": ([BARRIER, BARRIER, 1, BARRIER, BARRIER], [F, A, W, F]),
    "with a loop of work between": ([BARRIER, ("serial", 3, [1, ("if", [2])]), BARRIER], [A, W]),
    "twice in a row": ([BARRIER, BARRIER, BARRIER, BARRIER], [A, W, A, W]),
    "under another attribute": ([("attr", [BARRIER]), BARRIER], [A, W]),
}


@pytest.mark.parametrize("use", RIGHT)
def test_right_use_is_not_refused(use):
    statements, barriers = RIGHT[use]
    before = module(function(statements, {X: 32}, phases(*map(make, barriers))))
    text = str(gs.GridSyncPass(verify="off")(before))
    counts = [text.count(f'"tl_gridsync::{name}"') for name in ("arrive", "wait", "arrive_and_wait")]
    assert counts == [barriers.count(A), barriers.count(W), barriers.count(F)]


def with_exit(op: str, inside_loop: bool):
    exits = tir.Evaluate(tir.Call("void", tvm.ir.Op.get(op), []))
    leaves = tir.For(tir.Var("j", "int32"), 0, 3, tir.ForKind.SERIAL, exits) if inside_loop else exits
    body = tir.SeqStmt([*marked(A)({}), leaves, *marked(W)({})])
    loop = tir.For(tir.Var("i", "int32"), 0, 3, tir.ForKind.SERIAL, body)
    thread = tir.IterVar(None, tir.Var("tx", "int32"), tir.IterVar.ThreadIndex, X)
    return tvm.IRModule({"leaving": tir.PrimFunc([], tir.AttrStmt(thread, "thread_extent", tir.IntImm("int32", 32), loop))})


@pytest.mark.parametrize(("name", "inside_loop", "refused"), [("break", False, True), ("break", True, False), ("return", True, True)])
def test_a_way_out_between_the_phases_is_refused(name, inside_loop, refused):
    ops = {"break": ("tirx.break_loop", "tl.loop_break", "tir.break_loop"), "return": ("tirx.thread_return", "tir.thread_return")}
    op = next(op for op in ops[name] if op in tvm.ir.Op.list_op_names())
    before = with_exit(op, inside_loop)
    if not refused:
        gs.GridSyncPass(verify="off")(before)
        return
    with pytest.raises(gs.GridSyncLoweringError, match=f"'leaving' a {name} stands between"):
        gs.GridSyncPass(verify="off")(before)


@pytest.mark.parametrize("late", ["arrive", "wait"])
def test_each_phase_must_be_reached_by_all_threads(late):
    @T.prim_func
    def divergent(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            A[bx] = 1
            if late == "arrive":
                if bx > 0:
                    grid_arrive()
            else:
                grid_arrive()
            if late == "wait":
                if bx > 0:
                    grid_wait()
            else:
                grid_wait()

    errors = [d for d in find(device_module(divergent, CUTEDSL)) if d.severity == Severity.ERROR]
    assert [d.rule.name for d in errors] == ["grid-divergent"] and errors[0].barrier == (1 if late == "arrive" else 2)


def test_without_the_plugin_they_are_two_full_barriers():
    source = tilelang.lower(split_rounds(4), target=CUDA, passes=[]).kernel_source
    assert source.count("cooperative_groups::this_grid().sync()") == 2


@pytest.mark.parametrize("state", STATES)
def test_the_source_shows_both_phases(compiled, state):
    lines = [line.strip() for line in compiled(split_rounds, 4, state=state).source.splitlines()]
    guard = "if (threadIdx.x == 0) and (threadIdx.y == 0):"
    arrives, waits = (lines.index(f'tl_gridsync.{name}("{state}", 4)') for name in ("arrive", "wait"))
    assert lines[arrives - 2 : arrives] == ["tl.sync_threads()", guard] and lines[arrives + 1] != "tl.sync_threads()"
    assert lines[waits - 1] == guard and lines[waits - 2] != "tl.sync_threads()" and lines[waits + 1] == "tl.sync_threads()"
    assert lines.count("tl.sync_threads()") == 2
    assert any(line == "@tl_gridsync.cooperative" for line in lines)


# One round: more would be unrolled, and every text stand there as often.
ONE_ROUND = ((32, 2), 1)


def protocol_of(state: str, blocks: int) -> protocol.Protocol:
    return protocol.MODULE if state == "module" else protocol.LAUNCH_STRIPED if blocks > protocol.STRIPED_ABOVE else protocol.LAUNCH


@pytest.mark.parametrize("blocks", [4, 512, 1000])
@pytest.mark.parametrize("state", STATES)
def test_the_ptx_arrives_before_the_work_and_waits_after_it(compiled, state, blocks):
    ptx = compiled(split_rounds, blocks, *ONE_ROUND, state=state).ptx
    chosen = protocol_of(state, blocks)
    (arrives,), (waits,) = places(chosen.arrive, ptx)[:1], places(chosen.wait, ptx)
    between = ptx[arrives:waits]
    assert re.search(r"\bld\.global\.[bu]32", between) and re.search(r"\bst\.global\.[bu]32", between)
    assert chosen.pace is None or occurrences(chosen.pace, ptx) == 0
    barriers = [i for i in instructions(ptx) if i.startswith("bar")]
    assert [b.split()[0] for b in barriers] == ["bar.sync", "bar.sync"]


def places(statement: protocol.Ptx, ptx: str) -> list[int]:
    """Where ``statement`` stands in ``ptx``, whatever registers and numbers its operands became."""
    pattern = re.sub(r"\\\$\d", r"[%\\w-]+", re.escape(statement.text.strip()))
    return [match.end() for match in re.finditer(pattern, ptx)]


@pytest.mark.parametrize("state", STATES)
def test_the_sass_arrives_before_the_work_and_polls_after_it(state):
    """One release and one acquire for a round; between them the kernel's own loads and stores, and no block barrier."""
    passes = [gs.GridSyncPass(state)]
    kernel = tilelang.compile(split_rounds(4, *ONE_ROUND), target=CUTEDSL, execution_backend="cutedsl", passes=passes)
    ops = opcodes(sass.disassemble(offline.cubin_of(kernel)))
    (arrives,) = [i for i, op in enumerate(ops) if op.startswith(("REDG.E.ADD.STRONG", "ATOMG.E.ADD.STRONG"))]
    acquires = max(i for i, op in enumerate(ops) if op == "CCTL.IVALL")
    polls = [i for i, op in enumerate(ops[:acquires]) if i > arrives and op.startswith("LDG.E.STRONG.GPU")]
    between = ops[arrives : polls[0]]
    assert "LDG.E" in between and "STG.E" in between
    assert not any(op.startswith("BAR") for op in between)
    assert ops.count("MEMBAR.ALL.GPU") == (2 if state == "module" else 1)


def opcodes(listing: str) -> list[str]:
    """The opcode of each instruction in nvdisasm's output, in order."""
    return re.findall(r"/\*[0-9a-f]{4,}\*/\s+(?:@!?U?P\w+ )?([A-Z][\w.]+)", listing)


def test_the_watchdog_is_in_the_wait(compiled):
    code = compiled(split_rounds, 4, *ONE_ROUND, timeout_ms=500)
    assert 'tl_gridsync.wait("launch", 4, 500, "split_rounds_kernel")' in code.source
    assert occurrences(protocol.LAUNCH.bounded_wait, code.ptx) == 1 and occurrences(protocol.LAUNCH.wait, code.ptx) == 0
    assert "__tl_gridsync_report" in code.ptx


def test_full_and_split_barriers_share_what_lives_as_long_as_the_kernel(compiled):
    ptx = compiled(split_rounds, 4, *ONE_ROUND, 50, True).ptx
    assert occurrences(protocol.FIRST_GENERATION, ptx) == 1 and occurrences(protocol.ADDEND, ptx) == 1
    assert occurrences(protocol.ARRIVE, ptx) == 2 and occurrences(protocol.WAIT, ptx) == 2
