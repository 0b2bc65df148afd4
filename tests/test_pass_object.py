"""GridSyncPass as an object: a registered TVM pass that is frozen, comparable and readable."""

from __future__ import annotations

import pytest
import tvm_ffi
from ir_builders import BARRIER, function, lowered, module

import tl_gridsync_pass as gs
from tl_gridsync_pass.lowering import PASS_NAME
from tl_gridsync_pass.tvm_compat import tir, tvm

X, Y = "threadIdx.x", "threadIdx.y"


def test_repr_can_be_evaluated():
    assert repr(gs.GridSyncPass()) == "GridSyncPass(state='launch', timeout_ms=0, verify='error', backends='cutedsl')"
    other = gs.GridSyncPass(state="module", timeout_ms=5)
    assert eval(repr(other), {"GridSyncPass": gs.GridSyncPass}) == other


def test_equality_and_hash_follow_the_options():
    assert gs.GridSyncPass() == gs.GridSyncPass(state="launch")
    assert gs.GridSyncPass() != gs.GridSyncPass(state="module")
    assert gs.GridSyncPass() != gs.GridSyncPass(timeout_ms=1)
    assert gs.GridSyncPass() != "GridSyncPass(state='launch')"
    assert len({gs.GridSyncPass(), gs.GridSyncPass("launch"), gs.GridSyncPass("module")}) == 2
    assert hash(gs.GridSyncPass()) == hash(gs.GridSyncPass("launch"))


def test_is_frozen():
    entry = gs.GridSyncPass()
    for name in ("options", "state", "other"):
        with pytest.raises(AttributeError, match="frozen"):
            setattr(entry, name, "module")
    assert entry.options == gs.GridSyncOptions(state="launch")
    with pytest.raises(AttributeError):
        entry.options.state = "module"


def test_from_options_gives_the_same_pass():
    assert gs.GridSyncPass.from_options(gs.GridSyncOptions(state="module")) == gs.GridSyncPass("module")


def test_unknown_state_is_an_error_that_lists_the_known_ones():
    with pytest.raises(gs.GridSyncOptionError, match=r"state='kernel' is unknown.*'launch', 'module'"):
        gs.GridSyncPass(state="kernel")


@pytest.mark.parametrize("timeout", [-1, 3_600_001, 1.5, True, "10"])
def test_a_timeout_that_cannot_be_kept_is_an_error(timeout):
    with pytest.raises(gs.GridSyncOptionError, match="timeout_ms=.* must be a whole number of milliseconds"):
        gs.GridSyncPass(timeout_ms=timeout)


def test_is_a_registered_tvm_pass():
    entry = gs.GridSyncPass()
    assert isinstance(entry, tvm.transform.Pass)
    assert entry.info.name == PASS_NAME == "tl_gridsync.LowerGridSync"


def test_the_ffi_global_function_makes_the_pass():
    make = tvm_ffi.get_global_func("tl_gridsync.LowerGridSync")
    before = module(function([BARRIER], {X: 32, Y: 2}))
    for arguments, state in (((), "launch"), (("module",), "module")):
        after = make(*arguments)(before)
        tvm.ir.assert_structural_equal(after, module(function([BARRIER], {X: 32, Y: 2}, lowered((X, Y), state))))
    with pytest.raises(gs.GridSyncOptionError, match="state='other' is unknown"):
        make("other")


def test_runs_inside_sequential_between_other_passes():
    sequential = tvm.transform.Sequential([tir.transform.Simplify(), gs.GridSyncPass(), tir.transform.Simplify()])
    after = sequential(module(function([1, BARRIER], {X: 32, Y: 2})))
    tvm.ir.assert_structural_equal(after, module(function([1, BARRIER], {X: 32, Y: 2}, lowered((X, Y)))))


def test_can_be_disabled_like_any_pass_inside_sequential():
    before = module(function([BARRIER], {X: 32}))
    with tvm.transform.PassContext(disabled_pass=[PASS_NAME]):
        after = tvm.transform.Sequential([gs.GridSyncPass()])(before)
    tvm.ir.assert_structural_equal(after, before)
    assert str(after).count("arrive_and_wait") == 0


def test_stays_usable_after_the_python_object_is_gone():
    sequential = tvm.transform.Sequential([gs.GridSyncPass("module")])
    after = sequential(module(function([BARRIER], {X: 32})))
    tvm.ir.assert_structural_equal(after, module(function([BARRIER], {X: 32}, lowered((X,), "module"))))
