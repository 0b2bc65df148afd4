"""The slice leaves nothing out: the analysis finds the same, to the letter, with it and without it."""

from __future__ import annotations

import pytest
from generated_calls import Sprinkler
from generated_kernels import block_barrier, const, functions
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ir_builders import BARRIER, function
from kernels import CAST_IN_LOOP, PIPELINE_IN_LOOP, skipping_where
from test_verify_catalogue import ALL, device_functions
from verify_catalogue import device_function, grid_barrier

from tl_gridsync_pass.tvm_compat import tir, tvm
from tl_gridsync_pass.verify import uniformity
from tl_gridsync_pass.verify.launch import launch_axes
from tl_gridsync_pass.verify.pointers import Pointers
from tl_gridsync_pass.verify.proof import Prover
from tl_gridsync_pass.verify.relevance import Relevance
from tl_gridsync_pass.verify.uniformity import Uniformity

pytestmark = pytest.mark.skipif(not hasattr(tir, "AllocBuffer"), reason="generates the IR that TileLang has since 0.1.10")
thorough = settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))


class Everything:
    """In place of Relevance: every statement bears on a barrier."""

    def __init__(self, _func: tir.PrimFunc, _pointers: Pointers) -> None:
        self.inert: dict[int, bool] = {}


def analysed(func: tir.PrimFunc) -> Uniformity:
    with Prover(launch_axes(func)) as prover:
        return Uniformity(func, prover)


def found(func: tir.PrimFunc) -> list:
    """All that the analysis says about each barrier."""
    analysis = analysed(func)
    barriers = [*analysis.barriers.items(), *analysis.block_barriers.items()]
    return [
        (key, b.number, b.location, b.repeated, [(cause, [str(note) for note in cause.variation.why]) for cause in b.causes])
        for key, b in barriers
    ]


def assert_the_same(func: tir.PrimFunc) -> None:
    with_slice = found(func)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(uniformity, "Relevance", Everything)
        assert with_slice == found(func), str(func)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_the_catalogue(case):
    with skipping_where(*CAST_IN_LOOP), skipping_where(*PIPELINE_IN_LOOP):
        functions_of_case = device_functions(case).functions
    for func in functions_of_case.values():
        assert_the_same(func)


@given(functions())
@thorough
def test_random_kernels(func):
    assert_the_same(func)


@given(functions(), st.integers(0, 2**32))
@thorough
def test_random_kernels_with_calls(func, seed):
    assert_the_same(Sprinkler(func, seed).sprinkled())


def test_a_vote_whose_result_no_barrier_depends_on_still_orders_shared_memory():
    shared, unused = (tir.decl_buffer((1,), "int32", name, scope=scope) for name, scope in (("S", "shared.dyn"), ("unused", "local.var")))
    first = [const(0)]

    def body(_tx, _bx):
        vote = tir.Call("int32", tvm.ir.Op.get("tl.syncthreads_or"), [const(1)])
        guarded = tir.IfThenElse(tir.LT(tir.BufferLoad(shared, first), const(2)), grid_barrier(), None)
        stores = [tir.BufferStore(shared, const(1), first), tir.BufferStore(unused, vote, first)]
        return tir.SeqStmt([tir.AllocBuffer(shared), tir.AllocBuffer(unused), *stores, guarded])

    func = device_function("vote", body)
    assert_the_same(func)
    # Every thread has written the same 1 before the vote.
    assert [barrier.causes for barrier in analysed(func).barriers.values()] == [[]]


def test_a_read_that_no_barrier_depends_on_still_races_with_a_later_store():
    shared, unused = (tir.decl_buffer((1,), "int32", name, scope=scope) for name, scope in (("S", "shared.dyn"), ("unused", "local.var")))
    first = [const(0)]

    def body(_tx, _bx):
        read = tir.BufferLoad(shared, first)
        stores = [tir.BufferStore(shared, const(1), first), block_barrier(), tir.BufferStore(unused, read, first)]
        again = [tir.BufferStore(shared, const(2), first), block_barrier()]
        guarded = tir.IfThenElse(tir.LT(read, const(3)), grid_barrier(), None)
        return tir.SeqStmt([tir.AllocBuffer(shared), tir.AllocBuffer(unused), *stores, *again, guarded])

    func = device_function("race", body)
    assert_the_same(func)
    (barrier,) = analysed(func).barriers.values()
    assert ["other threads may be writing" in note.text for cause in barrier.causes for note in cause.variation.why] == [True]


def test_warp_specialisation_is_seen_where_nothing_else_in_it_matters():
    def body(tx, _bx):
        scope = tir.AttrStmt(
            tvm.runtime.convert([4, 4]), "kWarpSpecializationScope", const(0), tir.Evaluate(tir.call_extern("handle", "work"))
        )
        return tir.IfThenElse(tir.LT(tx, const(4)), tir.SeqStmt([scope, grid_barrier()]), None)

    func = device_function("specialised", body)
    assert_the_same(func)
    (barrier,) = analysed(func).barriers.values()
    assert [cause.warp_specialized for cause in barrier.causes] == [True]


def test_an_address_is_no_work_between_two_barriers():
    memory = tir.decl_buffer((1,), "int32", "G")

    def body(_tx, _bx):
        address = tir.Bind(tir.Var("p", "handle"), tir.address_of(tir.BufferLoad(memory, [const(0)])))
        return tir.SeqStmt([grid_barrier(), address, grid_barrier()])

    func = device_function("address", body, [memory.data])
    assert_the_same(func)
    assert [barrier.repeated for barrier in analysed(func).barriers.values()] == [False, True]


def test_a_call_is_shown_with_what_its_arguments_stand_for():
    x = tir.decl_buffer((1,), "int32", "x", scope="local.var")
    made_up, loaded = tir.Var("cse_v1", "int32"), tir.BufferLoad(x, [const(0)])

    def body(tx, _bx):
        call = tir.Evaluate(tir.call_extern("handle", "f", tir.address_of(loaded), made_up))
        guarded = tir.IfThenElse(tir.LT(loaded, const(3)), grid_barrier(), None)
        return tir.SeqStmt([tir.AllocBuffer(x), tir.Bind(made_up, tx + const(7)), call, guarded])

    func = device_function("shown", body)
    assert_the_same(func)
    (barrier,) = analysed(func).barriers.values()
    assert "tx + 7" in barrier.causes[0].variation.why[0].text


def test_statements_that_no_barrier_depends_on_are_left_out():
    func = function([1, ("if", [2, 3]), BARRIER, ("serial", 4, [5, BARRIER])], {"threadIdx.x": 32})
    seen: list = []
    tir.stmt_functor.post_order_visit(func.body, seen.append)
    branches = [node for node in seen if isinstance(node, tir.IfThenElse)]
    work = [node for node in seen if isinstance(node, tir.Evaluate) and isinstance(node.value.op, tvm.ir.Op) and len(node.value.args) == 2]
    assert len(branches) == 1 and [int(node.value.args[1]) for node in work] == [1, 2, 3, 5]
    left_out = [work[0], branches[0], work[3]]
    assert Relevance(func, Pointers(func)).inert == {hash(node): True for node in left_out}
