"""Root-mean-square normalisation, with a row that fits in registers and with one that is read in two passes.

What to learn: two kernels for one operation. Where a row fits the registers it is read once; where it does not, it is read
in tiles, twice: for the sum of squares and for the result.

Why so: the operation is bound by memory, so the first kernel moves half as much; the second works for any length, and its
second read may come from the L2 cache. Squares are summed in a fragment and reduced once.

Next: multiply by a weight; the fused residual addition that precedes it in models.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def rms_norm(M, N, block_M=4, dtype="float32", epsilon=1e-6):
    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x_shared = T.alloc_shared((block_M, N), dtype)
            x = T.alloc_fragment((block_M, N), "float32")
            square = T.alloc_fragment((block_M, N), "float32")
            power = T.alloc_fragment((block_M,), "float32")

            T.copy(X[bx * block_M : (bx + 1) * block_M, :], x_shared)
            T.copy(x_shared, x)
            for i, j in T.Parallel(block_M, N):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, power, dim=1)
            for i in T.Parallel(block_M):
                power[i] = T.rsqrt(power[i] / N + epsilon)
            for i, j in T.Parallel(block_M, N):
                x[i, j] *= power[i]
            T.copy(x, x_shared)
            T.copy(x_shared, Y[bx * block_M : (bx + 1) * block_M, :])

    return main


@tilelang.jit(out_idx=[-1])
def rms_norm_two_pass(M, N, block_M=4, block_N=256, dtype="float32", epsilon=1e-6):
    tiles = T.ceildiv(N, block_N)

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_shared((block_M, block_N), dtype)
            square = T.alloc_fragment((block_M, block_N), "float32")
            power = T.alloc_fragment((block_M,), "float32")

            T.clear(square)
            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    square[i, j] += x[i, j] * x[i, j]
            T.reduce_sum(square, power, dim=1)
            for i in T.Parallel(block_M):
                power[i] = T.rsqrt(power[i] / N + epsilon)
            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] *= power[i]
                T.copy(x, Y[bx * block_M, k * block_N])

    return main


def main(M: int = 254, N: int = 1000) -> None:
    x = torch.randn(M, N, device=DEVICE)
    reference = x * torch.rsqrt(x.pow(2).mean(dim=1, keepdim=True) + 1e-6)
    torch.testing.assert_close(rms_norm(M, N)(x), reference, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(rms_norm_two_pass(M, N)(x), reference, rtol=1e-4, atol=1e-5)
    print("RMS norm: matches torch")


if __name__ == "__main__":
    main()
