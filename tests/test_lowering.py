"""The rewrite on IR, against IR written by hand."""

import inspect

import pytest
import tilelang
import tilelang.language as T
from ir_builders import BARRIER, block_sync, function, lowered, module, sync_grid
from kernels import CUTEDSL, skipping_where, stages

import tl_gridsync_pass as gs
from tl_gridsync_pass.tvm_compat import tir, tvm
from tl_gridsync_pass.verify.ir_facts import contains_grid_barrier

X, Y, Z = "threadIdx.x", "threadIdx.y", "threadIdx.z"


def assert_lowers(statements, extents, guarded, state="launch"):
    before = module(function(statements, extents))
    expected = module(function(statements, extents, lowered(guarded, state)))
    tvm.ir.assert_structural_equal(gs.GridSyncPass(state=state)(before), expected)


@pytest.mark.parametrize("state", ["launch", "module"])
def test_emits_the_guarded_barrier(state):
    assert_lowers([1, BARRIER, 2], {X: 32, Y: 2, Z: 2}, (X, Y, Z), state)


@pytest.mark.parametrize(
    ("extents", "guarded"),
    [
        ({X: 32}, (X,)),
        ({X: 32, Y: 1, Z: 1}, (X,)),
        ({X: 32, Y: 2, Z: 1}, (X, Y)),
        ({X: 32, Y: 1, Z: 2}, (X, Z)),
        ({X: 16, Y: 2, Z: 2}, (X, Y, Z)),
        ({X: 1, Y: 64, Z: 1}, (Y,)),
        ({X: 1, Y: 1, Z: 64}, (Z,)),
        ({X: 1, Y: 1, Z: 1}, ()),
        ({X: 1}, ()),
        ({X: None, Y: 1, Z: 1}, (X,)),
        ({X: 32, Y: None, Z: 1}, (X, Y)),
        ({X: 1, Y: None, Z: None}, (Y, Z)),
    ],
    ids=str,
)
def test_guards_the_axes_whose_extent_is_not_known_to_be_one(extents, guarded):
    assert_lowers([BARRIER], extents, guarded)


def test_the_order_of_the_bindings_does_not_matter():
    before = module(function([BARRIER], {Z: 2, X: 32, Y: 2}))
    after = gs.GridSyncPass()(before)
    tvm.ir.assert_structural_equal(after, module(function([BARRIER], {Z: 2, X: 32, Y: 2}, lowered((X, Y, Z)))))


@pytest.mark.parametrize(
    ("grid", "blocks"),
    [
        ({"blockIdx.x": 1}, 1),
        ({"blockIdx.x": 3, "blockIdx.y": 5, "blockIdx.z": 2}, 30),
        ({"blockIdx.x": None}, 0),
        ({"blockIdx.x": 3, "blockIdx.y": None}, 0),
    ],
    ids=str,
)
def test_names_the_number_of_blocks_where_it_is_known(grid, blocks):
    before = module(function([BARRIER], {X: 32}, grid=grid))
    expected = module(function([BARRIER], {X: 32}, lowered((X,), blocks=blocks), grid=grid))
    tvm.ir.assert_structural_equal(gs.GridSyncPass()(before), expected)


def test_a_watchdog_is_given_its_limit_and_the_kernels_name():
    before = module(function([BARRIER], {X: 32}, name="watched"))
    expected = module(function([BARRIER], {X: 32}, lowered((X,), watchdog=(250, "watched")), name="watched"))
    tvm.ir.assert_structural_equal(gs.GridSyncPass(timeout_ms=250)(before), expected)


def test_a_barrier_is_guarded_by_the_threads_of_its_own_kernel():
    def two_launches(first, second):
        bodies = [function([BARRIER], {X: 32, Y: 2}, first).body, function([BARRIER], {X: 1, Z: 2}, second).body]
        return module(tir.PrimFunc([], tir.SeqStmt(bodies)).with_attr("global_symbol", "two"))

    after = gs.GridSyncPass()(two_launches(sync_grid, sync_grid))
    tvm.ir.assert_structural_equal(after, two_launches(lowered((X, Y)), lowered((Z,))))


def test_rewrites_every_function_and_leaves_the_others_as_the_same_objects():
    before = module(
        function([1, BARRIER], {X: 32, Y: 2}, name="first"),
        function([1, 2], {X: 32}, name="without"),
        function([BARRIER, ("serial", 3, [BARRIER])], {X: 1, Z: 2}, name="second"),
    )
    after = gs.GridSyncPass()(before)
    expected = module(
        function([1, BARRIER], {X: 32, Y: 2}, lowered((X, Y)), name="first"),
        function([1, 2], {X: 32}, name="without"),
        function([BARRIER, ("serial", 3, [BARRIER])], {X: 1, Z: 2}, lowered((Z,)), name="second"),
    )
    tvm.ir.assert_structural_equal(after, expected)
    assert after["without"].same_as(before["without"])


def test_does_not_change_its_input():
    functions = [1, BARRIER], {X: 32, Y: 2}
    before = module(function(*functions))
    gs.GridSyncPass()(before)
    tvm.ir.assert_structural_equal(before, module(function(*functions)))


def test_keeps_attributes_of_functions_and_module():
    func = function([BARRIER], {X: 32}).with_attr("use_cooperative_groups", 1)
    before = tvm.IRModule({"kernel": func}, attrs=tvm.ir.make_node("ir.DictAttrs", of_somebody="kept"))
    after = gs.GridSyncPass()(before)
    assert after["kernel"].attrs["use_cooperative_groups"] == 1
    assert after.attrs["of_somebody"] == "kept"


def test_a_module_without_barrier_is_the_same_object():
    before = module(function([1, ("serial", 4, [2])], {X: 32, Y: 2}))
    assert gs.GridSyncPass()(before).same_as(before)


def test_a_second_run_changes_nothing():
    once = gs.GridSyncPass()(module(function([BARRIER], {X: 32, Y: 2})))
    assert gs.GridSyncPass()(once).same_as(once)


def test_a_barrier_inside_an_expression_is_an_error():
    value = sync_grid()[0].value
    inside = tir.Evaluate(tir.call_extern("handle", "use", value))
    before = module(function([BARRIER], {X: 32}, lambda _: [block_sync(), inside], name="nested"))
    assert contains_grid_barrier(before["nested"])
    with pytest.raises(gs.GridSyncLoweringError, match=r"kernel 'nested'.*inside an expression.*statement of its own"):
        gs.GridSyncPass()(before)


@pytest.mark.parametrize("extents", [{}, {"cthread": 2}], ids=["no threads", "another kind of thread"])
def test_a_barrier_outside_of_any_thread_binding_is_an_error(extents):
    before = module(function([BARRIER], extents, name="unbound"))
    with pytest.raises(gs.GridSyncLoweringError, match=r"kernel 'unbound'.*outside of any thread binding.*passes="):
        gs.GridSyncPass()(before)


def test_runs_on_the_device_module_that_tilelang_makes():
    with tvm.target.Target(CUTEDSL):
        device = tilelang.lower(stages(), target=CUTEDSL, passes=[]).device_mod
    after = gs.GridSyncPass()(device)
    calls = []
    tir.stmt_functor.post_order_visit(
        after["stages_kernel"].body,
        lambda node: calls.append(node) if isinstance(node, tir.Call) and "arrive_and_wait" in str(node) else None,
    )
    assert len(calls) == 4
    assert not contains_grid_barrier(after["stages_kernel"])


def test_dynamic_block_size_through_tilelang():
    @T.prim_func
    def dynamic(values: T.Tensor((4,), "int32"), rows: T.int32):
        with T.Kernel(4, threads=(32, rows)) as bx:
            values[bx] = bx
            T.sync_grid()

    with tvm.target.Target(CUTEDSL):
        device = tilelang.lower(dynamic, target=CUTEDSL, passes=[]).device_mod
    text = gs.GridSyncPass()(device).script()
    assert "if tx == 0 and ty == 0:" in text


@pytest.mark.skipif(
    "cluster_dims" not in inspect.signature(T.Kernel).parameters, reason="the T.Kernel of this TileLang has no cluster_dims"
)
def test_clusters_are_refused_with_a_reason():
    @T.prim_func
    def clustered(values: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=64, cluster_dims=(2, 1, 1)) as bx:
            values[bx] = bx
            T.sync_grid()

    with pytest.raises(gs.GridSyncLoweringError, match=r"'clustered_kernel' uses T.sync_grid\(\) and cluster_dims=\(2, 1, 1\)"):
        tilelang.compile(clustered, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])


def test_programmatic_dependent_launch_gives_way_to_the_cooperative_one():
    """TileLang's launcher has one or the other; the dependent kernel's own instructions stay and wait for nothing."""

    @T.prim_func
    def dependent(values: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            T.pdl_sync()
            values[bx] = bx
            T.sync_grid()
            T.pdl_trigger()

    with skipping_where("Unresolved call", "TileLang 0.1.9 prints no T.pdl_sync for the CuTeDSL target"):
        tilelang.lower(dependent, target=CUTEDSL, passes=[])
    tilelang.disable_cache()
    try:
        kernel = tilelang.compile(dependent, target=CUTEDSL, execution_backend="cutedsl", passes=[gs.GridSyncPass()])
    finally:
        tilelang.enable_cache()
    launcher = kernel.adapter.lib_generator.launcher_cpp_code
    assert "cuLaunchCooperativeKernel(" in launcher and "PROGRAMMATIC_STREAM_SERIALIZATION" not in launcher
