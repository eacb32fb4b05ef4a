"""The gradient of grouped weights: for every group the product of its rows' inputs and gradients, over any number of rows."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"sizes": (40, 0, 70, 5), "N": 72, "K": 48}
LARGE = {"grouped_weight_gradient": {"groups": 32, "N": 4096, "K": 7168}}


@tilelang.jit(out_idx=[-1])
def grouped_weight_gradient(groups, N, K, block_K=64, block_N=64, block_M=32, dtype="bfloat16"):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, K), dtype),
        dY: T.Tensor((M, N), dtype),
        offsets: T.Tensor((groups + 1,), "int32"),
        dW: T.Tensor((groups, K, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(K, block_K), groups, threads=128) as (bx, by, group):
            X_shared = T.alloc_shared((block_M, block_K), dtype)
            dY_shared = T.alloc_shared((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_K, block_N), "float32")
            start = offsets[group]
            end = offsets[group + 1]

            T.clear(acc)
            for m in T.Pipelined(T.ceildiv(end - start, block_M), num_stages=2):
                for i, j in T.Parallel(block_M, block_K):
                    row = start + m * block_M + i
                    X_shared[i, j] = T.if_then_else(row < end, X[row, by * block_K + j], 0)
                T.copy(dY[start + m * block_M, bx * block_N], dY_shared)
                T.gemm(X_shared, dY_shared, acc, transpose_A=True)
            T.copy(acc, dW[group, by * block_K, bx * block_N])

    return main


def check(sizes, N, K):
    ends = torch.tensor([0, *sizes]).cumsum(0)
    x, dy = torch.randn(sum(sizes), K).bfloat16(), torch.randn(sum(sizes), N).bfloat16()
    dw = grouped_weight_gradient(len(sizes), N, K)(x, dy, ends.int())
    expected = torch.stack([a.float().T @ b.float() for a, b in zip(x.split(list(sizes)), dy.split(list(sizes)))])
    torch.testing.assert_close(dw, expected, rtol=1e-3, atol=1e-3)
