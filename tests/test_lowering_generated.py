"""The rewrite on generated nestings: every barrier is rewritten and every other statement is left as it was."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from ir_builders import BARRIER, function, lowered, module

import tl_gridsync_pass as gs
from tl_gridsync_pass.tvm_compat import tvm
from tl_gridsync_pass.verify.ir_facts import contains_grid_barrier

AXES = ("threadIdx.x", "threadIdx.y", "threadIdx.z")


def nested(statements):
    bodies = st.lists(statements, min_size=1, max_size=4)
    return st.one_of(
        st.tuples(st.sampled_from(["serial", "unrolled"]), st.integers(1, 5), bodies),
        st.tuples(st.just("if"), bodies),
        st.tuples(st.just("if else"), bodies, bodies),
        st.tuples(st.just("attr"), bodies),
    )


statement = st.recursive(st.one_of(st.just(BARRIER), st.integers(0, 99)), nested, max_leaves=25)
kernel = st.lists(statement, min_size=1, max_size=6)
extents = st.fixed_dictionaries({axis: st.one_of(st.just(1), st.integers(2, 32), st.none()) for axis in AXES})


def barriers_in(statements) -> int:
    count = 0
    for entry in statements:
        if entry == BARRIER:
            count += 1
        elif isinstance(entry, tuple):
            count += sum(barriers_in(part) for part in entry if isinstance(part, list))
    return count


@settings(max_examples=300, deadline=None)
@given(st.lists(st.tuples(kernel, extents), min_size=1, max_size=3), st.sampled_from(["launch", "module"]))
def test_every_barrier_is_rewritten_and_nothing_else(kernels, state):
    before = module(*(function(body, threads, name=f"k{i}") for i, (body, threads) in enumerate(kernels)))
    # The rewriting alone: some of these barriers stand where not all blocks come.
    after = gs.GridSyncPass(state=state, verify="off")(before)

    expected = module(
        *(
            function(body, threads, lowered(tuple(a for a in AXES if threads[a] != 1), state), name=f"k{i}")
            for i, (body, threads) in enumerate(kernels)
        )
    )
    tvm.ir.assert_structural_equal(after, expected)
    for i, (body, _) in enumerate(kernels):
        assert not contains_grid_barrier(after[f"k{i}"])
        assert str(after[f"k{i}"]).count("arrive_and_wait") == barriers_in(body)
    assert after.same_as(before) == all(barriers_in(body) == 0 for body, _ in kernels)
