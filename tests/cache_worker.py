"""Run by test_kernel_cache.py in processes of its own: compiles one kernel in several ways with the disk cache on.

    python cache_worker.py WAY... -> for each way the barrier that was compiled, and how many entries the
    disk cache holds afterwards, as one JSON list.

A way that starts with "jit" calls a function under @tilelang.jit, which one release finds on disk by its source.
A process whose ways are all "plain" never imports the plugin.
"""

import json
import sys
from pathlib import Path

import tilelang
import tilelang.language as T
from tvm.target import Target

TARGET = Target({"kind": "cuda", "arch": "sm_90a", "keys": ["cuda", "gpu", "cutedsl"]})


@T.prim_func
def meet(values: T.Tensor((4,), "int32")):
    with T.Kernel(4, threads=(32, 2)) as bx:
        values[bx] = bx
        T.sync_grid()


def jit_function(**options):
    @tilelang.jit(target=TARGET, execution_backend="cutedsl", **options)
    def make():
        return meet

    return make


def build(way: str):
    if way.startswith("jit"):
        return build_by_jit(way.removeprefix("jit "))
    arguments = {"func": meet, "target": TARGET, "execution_backend": "cutedsl"}
    if way in ("plain", "nothing"):
        return tilelang.compile(**arguments)

    import tl_gridsync_pass as gs

    if way in ("launch", "module"):
        return tilelang.compile(**arguments, passes=[gs.GridSyncPass(way)])
    if way == "pass_configs":
        return tilelang.compile(**arguments, pass_configs={"tl_gridsync.enable": True})
    if way == "empty":
        return tilelang.compile(**arguments, passes=[])
    if way == "older":
        return with_another_revision(lambda: tilelang.compile(**arguments, passes=[gs.GridSyncPass()]))
    with gs.enabled():
        return tilelang.compile(**arguments) if way == "process" else tilelang.compile(**arguments, passes=[])


def build_by_jit(way: str):
    if way == "plain":
        return jit_function()()

    import tl_gridsync_pass as gs

    by_configs = jit_function(pass_configs={"tl_gridsync.enable": True})
    if way == "pass_configs":
        return by_configs()
    if way == "older":
        return with_another_revision(by_configs)
    if way == "launch":
        return jit_function(passes=[gs.GridSyncPass()])()
    with gs.enabled():
        return jit_function()()


def with_another_revision(compile_kernel):
    """As if the emission had changed: the revision hashes fewer modules."""
    from tl_gridsync_pass import revision

    modules = revision._EMITTING_MODULES
    revision.emission_revision.cache_clear()
    revision._EMITTING_MODULES = modules[:1]
    try:
        return compile_kernel()
    finally:
        revision._EMITTING_MODULES = modules
        revision.emission_revision.cache_clear()


def barrier_of(kernel) -> str:
    """The barrier in the source that is shown, which must be the one in the module that is launched."""
    names = {"tl.sync_grid()": "stock", 'arrive_and_wait("launch", ': "launch", 'arrive_and_wait("module", ': "module"}
    shown, launched = (
        [name for text, name in names.items() if text in source]
        for source in (kernel.get_kernel_source(), Path(kernel.adapter.pymodule.__file__).read_text())
    )
    assert shown == launched and len(shown) == 1, (shown, launched)
    return shown[0]


def entries() -> int:
    return len([p for p in Path(tilelang.env.TILELANG_CACHE_DIR).rglob("kernel.py") if ".staging" not in p.parts])


if __name__ == "__main__":
    ways = sys.argv[1:]
    results = [(barrier_of(build(way)), entries()) for way in ways]
    assert ("tl_gridsync_pass" in sys.modules) == (not set(ways) <= {"plain", "jit plain"})
    print(json.dumps(results))
