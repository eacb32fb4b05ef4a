"""Running sums of rows of any length: a scan of each tile, plus what the tiles before it add up to.

What to learn: a scan over a row of any length. ``T.cumsum`` scans a tile; the last column of each tile is carried into the
next one.

Why so: the tiles of a row depend on each other, so one block walks through them in order; parallelism comes from the rows.
``reverse`` walks from the end.

Next: for few, long rows let each block scan a part and add the sums of the parts before it in a second kernel, as
``radix_sort`` does for its counts.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def cumsum(M, N, reverse=False, block_M=16, block_N=128, dtype="float32"):
    tiles = T.ceildiv(N, block_N)

    @T.prim_func
    def main(X: T.Tensor((M, N), dtype), Y: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(M, block_M), threads=128) as bx:
            tile = T.alloc_shared((block_M, block_N), dtype)
            carry = T.alloc_shared((block_M,), dtype)

            T.clear(carry)
            for step in T.serial(tiles):
                k = tiles - 1 - step if reverse else step
                T.copy(X[bx * block_M, k * block_N], tile)
                T.cumsum(tile, dim=1, reverse=reverse)
                for i, j in T.Parallel(block_M, block_N):
                    tile[i, j] += carry[i]
                T.copy(tile, Y[bx * block_M, k * block_N])
                for i in T.Parallel(block_M):
                    carry[i] = tile[i, 0 if reverse else block_N - 1]

    return main


def main(M: int = 50, N: int = 1000) -> None:
    x = torch.randn(M, N, device=DEVICE)
    torch.testing.assert_close(cumsum(M, N)(x), x.cumsum(dim=1), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(cumsum(M, N, reverse=True)(x), x.flip(1).cumsum(dim=1).flip(1), rtol=1e-4, atol=1e-4)
    print("cumulative sum: matches torch")


if __name__ == "__main__":
    main()
