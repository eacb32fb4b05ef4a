"""The kernels of the cluster example, in a module that every worker can import."""

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[2], target="cpu")
def scaled_add(M, N, scale, block_M=32, block_N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            for i, j in T.Parallel(block_M, block_N):
                row, column = by * block_M + i, bx * block_N + j
                C[row, column] = A[row, column] + B[row, column] * scale

    return main


def inputs(params):
    return [torch.ones(256, 256), torch.ones(256, 256)]


def reference(a, b):
    return a + 2.0 * b
