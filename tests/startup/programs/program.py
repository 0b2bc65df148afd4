"""A program that knows nothing of the plugin: it compiles one kernel and says which barrier that got.

``python program.py MODE`` compiles in the way that MODE names. Each barrier is printed on a line of its own, as
``barrier: stock``, or ``barrier: launch`` and ``barrier: module`` for the plugin's.
"""

import multiprocessing
import re
import sys
import threading

import tilelang
import tilelang.language as T
from tvm.target import Target

TARGET = Target({"kind": "cuda", "arch": "sm_90a", "keys": ["cuda", "gpu", "cutedsl"]})


def meeting(blocks=2):
    @T.prim_func
    def meeting(values: T.Tensor((blocks,), "int32"), copies: T.Tensor((blocks,), "int32")):
        with T.Kernel(blocks, threads=(32, 2)) as bx:
            values[bx] = bx
            T.sync_grid()
            copies[bx] = values[blocks - 1 - bx]

    return meeting


def barrier_of(kernel):
    source = kernel.get_kernel_source()
    ours = re.search(r'tl_gridsync\.arrive_and_wait\("(\w+)"', source)
    return ours[1] if ours else "stock" if "tl.sync_grid()" in source else "none"


def say(kernel):
    # In one piece: print() writes the end of a line by itself, and TileLang's log in another thread comes between.
    sys.stdout.write(f"barrier: {barrier_of(kernel)}\n")
    sys.stdout.flush()


def compile_one(blocks=2):
    say(tilelang.compile(meeting(blocks), target=TARGET, execution_backend="cutedsl"))


def child():
    compile_one()


def in_process(method):
    process = multiprocessing.get_context(method).Process(target=child)
    process.start()
    process.join(120)
    sys.exit(process.exitcode)


def par_compile():
    kernels = tilelang.par_compile([meeting(2), meeting(3)], target=TARGET, execution_backend="cutedsl", num_workers=2)
    for kernel in kernels:
        say(kernel)


def in_threads():
    threads = [threading.Thread(target=compile_one, args=(blocks,)) for blocks in (2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)


def autotune():
    """The tuner compiles in threads of its own; what it compiled is read from its cache on disk by the test."""
    from tilelang.autotuner import AutoTuner

    tuner = AutoTuner.from_kernel(meeting, configs=[{"blocks": 2}, {"blocks": 3}])
    tuner.set_compile_args(target=TARGET, execution_backend="cutedsl")
    try:
        tuner.run(warmup=1, rep=1, timeout=60)
    except RuntimeError as error:
        # Measuring needs a GPU; compiling does not.
        print(f"tuner: {error}")


if __name__ == "__main__":
    {
        "one": compile_one,
        "spawn": lambda: in_process("spawn"),
        "fork": lambda: in_process("fork"),
        "threads": in_threads,
        "par_compile": par_compile,
        "autotune": autotune,
    }[sys.argv[1] if len(sys.argv) > 1 else "one"]()
