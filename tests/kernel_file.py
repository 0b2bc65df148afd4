"""A user's file with kernels, for the commands that take one. It does not mention the plugin."""

import tilelang
import tilelang.language as T

print("a user's file may print while it is imported")


@T.prim_func
def two_barriers(values: T.Tensor((64,), "int32")):
    with T.Kernel(2, threads=(32, 2)) as bx:
        tx = T.get_thread_binding(0)
        values[tx] = bx
        T.sync_grid()
        values[tx] = values[tx] + 1
        T.sync_grid()
        values[tx] = values[tx] + 2


@T.prim_func
def no_barrier(values: T.Tensor((64,), "int32")):
    with T.Kernel(2, threads=32) as bx:
        values[T.get_thread_binding(0)] = bx


@tilelang.jit
def with_defaults(width=64):
    rows = T.dynamic("rows")

    @T.prim_func
    def one_barrier(values: T.Tensor((rows, width), "float16"), addend: T.int32):
        with T.Kernel(2, threads=32) as bx:
            tx = T.get_thread_binding(0)
            values[bx, tx] = T.cast(addend, "float16")
            T.sync_grid()
            values[bx, tx] = values[1 - bx, tx] + T.cast(1, "float16")

    return one_barrier


@tilelang.jit
def needs_a_width(width):
    @T.prim_func
    def one_barrier(values: T.Tensor((width,), "int32")):
        with T.Kernel(2, threads=32) as bx:
            values[bx] = bx
            T.sync_grid()

    return one_barrier
