"""Block-sparse attention: a mask says which tiles of keys each tile of queries looks at; the others cost nothing.

What to learn: a loop whose body runs only where a tensor says so. The mask holds one bool for each pair of tiles; the
condition is the same for all threads of the block, so that tile operators may stand below it.

Why so: a sparse mask saves time only where whole tiles are skipped. Rows that see no key at all have a sum of zero, and the
last division leaves zeros there. The maximum starts at a large negative number in place of minus infinity, since the
difference of two infinities would be NaN.

Next: lists of the tiles to visit in place of a mask (``native_sparse_attention``), so that skipped tiles cost no test
either.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def block_sparse_attention(batch, heads, seq_len, dim, block_M=64, block_N=64, dtype="float16"):
    scale = dim**-0.5 * LOG2_E
    shape = (batch, heads, seq_len, dim)
    mask_shape = (batch, heads, T.ceildiv(seq_len, block_M), T.ceildiv(seq_len, block_N))

    @T.prim_func
    def main(
        Q: T.Tensor(shape, dtype),
        K: T.Tensor(shape, dtype),
        V: T.Tensor(shape, dtype),
        mask: T.Tensor(mask_shape, "bool"),
        Output: T.Tensor(shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_M, dim), dtype)
            K_shared = T.alloc_shared((block_N, dim), dtype)
            V_shared = T.alloc_shared((block_N, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            acc = T.alloc_fragment((block_M, dim), "float32")
            row_max = T.alloc_fragment((block_M,), "float32")
            previous_max = T.alloc_fragment((block_M,), "float32")
            rescale = T.alloc_fragment((block_M,), "float32")
            tile_sum = T.alloc_fragment((block_M,), "float32")
            row_sum = T.alloc_fragment((block_M,), "float32")

            T.copy(Q[bz, by, bx * block_M, 0], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            for k in T.Pipelined(T.ceildiv(seq_len, block_N), num_stages=1):
                if mask[bz, by, bx, k]:
                    T.copy(K[bz, by, k * block_N, 0], K_shared)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.if_then_else(k * block_N + j < seq_len, scores[i, j] * scale, -T.infinity("float32"))
                    T.copy(row_max, previous_max)
                    T.reduce_max(scores, row_max, dim=1, clear=False)
                    for i in T.Parallel(block_M):
                        rescale[i] = T.exp2(previous_max[i] - row_max[i])
                    for i, j in T.Parallel(block_M, block_N):
                        scores[i, j] = T.exp2(scores[i, j] - row_max[i])
                    T.reduce_sum(scores, tile_sum, dim=1)
                    for i in T.Parallel(block_M):
                        row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                    for i, j in T.Parallel(block_M, dim):
                        acc[i, j] *= rescale[i]
                    T.copy(scores, weights)
                    T.copy(V[bz, by, k * block_N, 0], V_shared)
                    T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                acc[i, j] = T.if_then_else(row_sum[i] > 0, acc[i, j] / row_sum[i], 0)
            T.copy(acc, Output[bz, by, bx * block_M, 0])

    return main


def main(batch: int = 1, heads: int = 2, seq_len: int = 300, dim: int = 64, block: int = 64) -> None:
    q, k, v = (torch.randn(batch, heads, seq_len, dim, device=DEVICE, dtype=torch.float16) for _ in range(3))
    tiles = -(-seq_len // block)
    mask = torch.rand(batch, heads, tiles, tiles, device=DEVICE) < 0.5
    mask[0, 0, 0] = False
    out = block_sparse_attention(batch, heads, seq_len, dim, block, block)(q, k, v, mask)
    full = mask.repeat_interleave(block, 2).repeat_interleave(block, 3)[:, :, :seq_len, :seq_len]
    scores = (q.float() @ k.float().transpose(2, 3) * dim**-0.5).masked_fill(~full, -torch.inf)
    reference = scores.softmax(dim=3).nan_to_num(0.0) @ v.float()
    torch.testing.assert_close(out.float(), reference, rtol=1e-2, atol=1e-2)
    print("block-sparse attention: matches torch")


if __name__ == "__main__":
    main()
