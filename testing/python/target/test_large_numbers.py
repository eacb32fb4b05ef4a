"""Numbers that a float type does not hold: stored, filled, converted and in arithmetic they are what a conversion gives."""

import torch

import tilelang.language as T
from testing.python.target.every_target import every_target, run

INF = float("inf")


@every_target
def test_numbers_beyond_the_range_of_a_float(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float16"), B: T.Tensor((3, 8), "float32")):
        with T.Kernel(1, threads=32):
            halves = T.alloc_shared((8,), "float16")
            brains = T.alloc_shared((8,), "bfloat16")
            T.fill(halves, -1e9)
            for i in T.Parallel(8):
                brains[i] = T.bfloat16(1e39) if i < 4 else 65519
            for i in T.Parallel(8):
                B[0, i] = T.if_then_else(i < 4, A[i], halves[i])
                B[1, i] = -1e39 if i < 4 else A[i] * 100000
                B[2, i] = brains[i]
            halves[0] = 65519.0
            halves[1] = 100000
            B[0, 0] = halves[0]
            B[0, 1] = halves[1]
            B[1, 0] = A[0] > 1e39
            B[1, 1] = T.float16(T.float32(65520.0))

    got = run(main, target, torch.arange(8.0).half())
    assert got[0].tolist() == [65504, INF, 2, 3, *[-INF] * 4]
    assert got[1].tolist() == [0, INF, -INF, -INF, *[INF] * 4]
    assert got[2].tolist() == [INF] * 4 + [65536] * 4
