"""Softmax over rows of any length: the running maximum and sum are corrected as new columns arrive.

What to learn: an online reduction. Tiles of a row arrive one by one; when the maximum grows, the sum so far is scaled down.
A second loop reads the row again and writes the result.

Why so: finding the maximum first would read the row a third time. ``exp2`` with the factor log2(e) is one instruction on a
GPU. ``T.annotate_safe_value`` makes what lies beyond a row minus infinity, whose exponential is zero. The tutorial's fourth
chapter develops it.

Next: ``cross_entropy`` needs the sum only; keep rows in registers where they fit.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def softmax(M, N, block_M=8, block_N=256, dtype="float32"):
    tiles = T.ceildiv(N, block_N)

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            x = T.alloc_fragment((block_M, block_N), dtype)
            e = T.alloc_fragment((block_M, block_N), "float32")
            tile_max = T.alloc_fragment((block_M,), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")

            T.annotate_safe_value({X: -T.infinity(dtype)})
            T.fill(row_max, -T.infinity("float32"))
            T.clear(row_sum)
            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                T.reduce_max(x, tile_max, dim=1)
                for i in T.Parallel(block_M):
                    tile_max[i] = T.max(tile_max[i], row_max[i])
                for i, j in T.Parallel(block_M, block_N):
                    e[i, j] = T.exp2((x[i, j] - tile_max[i]) * LOG2_E)
                T.reduce_sum(e, tile_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * T.exp2((row_max[i] - tile_max[i]) * LOG2_E) + tile_sum[i]
                    row_max[i] = tile_max[i]

            for k in T.Pipelined(tiles, num_stages=2):
                T.copy(X[bx * block_M, k * block_N], x)
                for i, j in T.Parallel(block_M, block_N):
                    x[i, j] = T.exp2((x[i, j] - row_max[i]) * LOG2_E) / row_sum[i]
                T.copy(x, Y[bx * block_M, k * block_N])

    return main


def main(M: int = 512, N: int = 1000) -> None:
    x = torch.randn(M, N, device=DEVICE) * 4
    y = softmax(M, N)(x)
    torch.testing.assert_close(y, torch.softmax(x, dim=1), rtol=1e-5, atol=1e-6)
    print("softmax: matches torch")


if __name__ == "__main__":
    main()
