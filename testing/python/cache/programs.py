"""Programs that the end-to-end tests compile, written as a user writes them."""

import torch

import tilelang
import tilelang.language as T

SCALE = 2.0


def scaled(x):
    return x * SCALE


@tilelang.jit(out_idx=[2], target="cpu")
def add(M, N, block=32, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block), T.ceildiv(M, block), threads=128) as (bx, by):
            for i, j in T.Parallel(block, block):
                C[by * block + i, bx * block + j] = A[by * block + i, bx * block + j] + scaled(B[by * block + i, bx * block + j])

    return main


@tilelang.jit(out_idx=[1], target="cpu")
def negate(block, dtype="float32"):
    m = T.dynamic("m")

    @T.prim_func
    def main(A: T.Tensor((m, 64), dtype), C: T.Tensor((m, 64), dtype)):
        with T.Kernel(T.ceildiv(m, block), threads=64) as bx:
            for i, j in T.Parallel(block, 64):
                C[bx * block + i, j] = -A[bx * block + i, j]

    return main


def program(N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), C: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, 32), threads=32) as bx:
            for i in T.Parallel(32):
                C[bx * 32 + i] = A[bx * 32 + i] + 1.0

    return main


def check_add(kernel, scale):
    a, b = torch.randn(64, 64), torch.randn(64, 64)
    torch.testing.assert_close(kernel(a, b), a + b * scale)
