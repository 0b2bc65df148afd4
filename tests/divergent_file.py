"""A file as ``check`` gets it: kernels at the top level, by several ways of making them. Not a test."""

import tilelang
import tilelang.language as T

print("a user's file may print while it is imported")


@T.prim_func
def hangs(A: T.Tensor((64,), "int32"), n: T.int32):
    with T.Kernel(4, threads=64) as block:
        A[block] = n
        if block < n:
            T.sync_grid()


@tilelang.jit
def fine(size=64):
    @T.prim_func
    def fine(A: T.Tensor((size,), "int32")):
        with T.Kernel(4, threads=64) as block:
            A[block] = 1
            T.sync_grid()

    return fine


@tilelang.jit
def needs_a_size(size, threads=64):
    @T.prim_func
    def needs_a_size(A: T.Tensor((size,), "int32")):
        with T.Kernel(4, threads=threads) as block:
            A[block] = 1
            if A[block + 1] > 0:
                T.sync_grid()

    return needs_a_size
