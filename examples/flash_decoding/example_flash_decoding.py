"""Flash decoding: one new token attends to a long cache, the cache split over blocks; a second kernel combines the parts.

What to learn: a program of two kernels. With one query a head there is too little work for a block a head: the cache is cut
in parts, each block computes a softmax over its part, and the second kernel combines parts by their logarithms of sums.

Why so: decoding is bound by reading the cache, so as many blocks as possible should read. The query heads that share a key
head are the rows of one tile, padded to 16, so that the product runs on tensor cores. A part may be empty, hence a finite
number in place of minus infinity.

Next: tune ``split`` for the length of the cache; ``mla_decode`` is the same with one compressed head.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit
def flash_decoding(Q, K, V, split: int = 4, block_N: int = 64):
    batch, heads, kv_heads, seq_len, dim = T.const("batch, heads, kv_heads, seq_len, dim")
    Q: T.Tensor((batch, heads, dim), "float16")
    K: T.Tensor((batch, seq_len, kv_heads, dim), "float16")
    V: T.Tensor((batch, seq_len, kv_heads, dim), "float16")
    Output = T.empty((batch, heads, dim), "float16")
    partial = T.empty((batch, heads, split, dim), "float32")
    log_sum = T.empty((batch, heads, split), "float32")

    groups = heads // kv_heads
    rows = T.ceildiv(groups, 16) * 16  # query heads of one key head are the rows of a tile
    part = T.ceildiv(T.ceildiv(seq_len, split), block_N) * block_N
    scale = dim**-0.5 * LOG2_E

    with T.Kernel(split, kv_heads, batch, threads=128) as (bx, by, bz):
        Q_shared = T.alloc_shared((rows, dim), "float16")
        K_shared = T.alloc_shared((block_N, dim), "float16")
        V_shared = T.alloc_shared((block_N, dim), "float16")
        scores = T.alloc_fragment((rows, block_N), "float32")
        weights = T.alloc_fragment((rows, block_N), "float16")
        acc = T.alloc_fragment((rows, dim), "float32")
        row_max = T.alloc_fragment((rows,), "float32")
        previous_max = T.alloc_fragment((rows,), "float32")
        rescale = T.alloc_fragment((rows,), "float32")
        tile_sum = T.alloc_fragment((rows,), "float32")
        row_sum = T.alloc_fragment((rows,), "float32")

        for i, d in T.Parallel(rows, dim):
            Q_shared[i, d] = T.if_then_else(i < groups, Q[bz, by * groups + T.min(i, groups - 1), d], 0)
        T.clear(acc)
        T.clear(row_sum)
        # Far below every score, but finite: a part of the cache may be empty.
        T.fill(row_max, -1e30)
        for k in T.Pipelined(part // block_N, num_stages=2):
            start = bx * part + k * block_N
            T.copy(K[bz, start : start + block_N, by, :], K_shared)
            T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(rows, block_N):
                scores[i, j] = T.if_then_else(start + j < seq_len, scores[i, j] * scale, -T.infinity("float32"))
            T.copy(row_max, previous_max)
            T.reduce_max(scores, row_max, dim=1, clear=False)
            for i in T.Parallel(rows):
                rescale[i] = T.exp2(previous_max[i] - row_max[i])
            for i, j in T.Parallel(rows, block_N):
                scores[i, j] = T.exp2(scores[i, j] - row_max[i])
            T.reduce_sum(scores, tile_sum, dim=1)
            for i in T.Parallel(rows):
                row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
            for i, d in T.Parallel(rows, dim):
                acc[i, d] *= rescale[i]
            T.copy(scores, weights)
            T.copy(V[bz, start : start + block_N, by, :], V_shared)
            T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)

        for i, d in T.Parallel(rows, dim):
            if i < groups:
                partial[bz, by * groups + i, bx, d] = T.if_then_else(row_sum[i] > 0, acc[i, d] / row_sum[i], 0)
        for i in T.Parallel(rows):
            if i < groups:
                log_sum[bz, by * groups + i, bx] = T.if_then_else(row_sum[i] > 0, T.log2(row_sum[i]) + row_max[i], -1e30)

    with T.Kernel(heads, batch, threads=128) as (bx, by):
        acc = T.alloc_fragment((dim,), "float32")
        largest = T.alloc_var("float32", init=-1e30)
        total = T.alloc_var("float32", init=0)

        for s in T.serial(split):
            largest = T.max(largest, log_sum[by, bx, s])
        for s in T.serial(split):
            total = total + T.exp2(log_sum[by, bx, s] - largest)
        T.clear(acc)
        for s in T.serial(split):
            for d in T.Parallel(dim):
                acc[d] += partial[by, bx, s, d] * (T.exp2(log_sum[by, bx, s] - largest) / total)
        for d in T.Parallel(dim):
            Output[by, bx, d] = acc[d]

    return Output


def main(batch: int = 2, heads: int = 8, kv_heads: int = 2, seq_len: int = 777, dim: int = 64) -> None:
    q = torch.randn(batch, heads, dim, device=DEVICE, dtype=torch.float16)
    k = torch.randn(batch, seq_len, kv_heads, dim, device=DEVICE, dtype=torch.float16)
    v = torch.randn(batch, seq_len, kv_heads, dim, device=DEVICE, dtype=torch.float16)
    out = flash_decoding(q, k, v)
    keys, values = (x.float().transpose(1, 2).repeat_interleave(heads // kv_heads, dim=1) for x in (k, v))
    reference = torch.nn.functional.scaled_dot_product_attention(q.float()[:, :, None], keys, values)[:, :, 0]
    torch.testing.assert_close(out.float(), reference, rtol=1e-2, atol=1e-2)
    print("flash decoding: matches torch")


if __name__ == "__main__":
    main()
