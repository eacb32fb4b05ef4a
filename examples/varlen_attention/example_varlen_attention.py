"""Attention over sequences of different lengths that lie beside each other in one tensor, without padding.

What to learn: sizes that only the data knows. Prefix sums of the lengths say where each sequence begins; blocks behind the
end of their sequence have nothing to do and return; a tile at the end of a sequence reads into the next one, so its scores
are masked and its rows are stored one by one under a condition.

Why so: padding to the longest sequence wastes the work of all shorter ones. The grid is as large as the longest sequence
needs; a block that returns at once costs next to nothing. Queries may be fewer than keys (a prompt that continues a cache):
they are the last.

Next: give each block of a flat grid its sequence and tile from a list made on the host, as ``grouped_gemm`` does.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def varlen_attention(heads, kv_heads, dim, causal=True, block_M=64, block_N=64, dtype="float16"):
    batch, queries, keys = T.dynamic("batch, queries, keys")
    scale = dim**-0.5 * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((queries, heads, dim), dtype),
        K: T.Tensor((keys, kv_heads, dim), dtype),
        V: T.Tensor((keys, kv_heads, dim), dtype),
        starts_q: T.Tensor((batch + 1,), "int32"),
        starts_k: T.Tensor((batch + 1,), "int32"),
        longest: T.int32,
        Output: T.Tensor((queries, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(longest, block_M), heads, batch, threads=128) as (bx, by, bz):
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

            first_q, first_k = starts_q[bz], starts_k[bz]
            length_q, length_k = starts_q[bz + 1] - first_q, starts_k[bz + 1] - first_k
            row = bx * block_M
            if row >= length_q:
                T.thread_return()
            ahead = length_k - length_q  # keys before the first query

            T.copy(Q[first_q + row : first_q + row + block_M, by, :], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            last = T.min(length_k, ahead + row + block_M) if causal else length_k
            for k in T.Pipelined(T.ceildiv(last, block_N), num_stages=2):
                column = k * block_N
                T.copy(K[first_k + column : first_k + column + block_N, by // (heads // kv_heads), :], K_shared)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullRow)
                for i, j in T.Parallel(block_M, block_N):
                    visible = column + j < length_k
                    if causal:
                        visible = visible and column + j <= ahead + row + i
                    scores[i, j] = T.if_then_else(visible, scores[i, j] * scale, -T.infinity("float32"))
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
                T.copy(V[first_k + column : first_k + column + block_N, by // (heads // kv_heads), :], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)
            for i, j in T.Parallel(block_M, dim):
                if row + i < length_q:
                    Output[first_q + row + i, by, j] = T.if_then_else(row_sum[i] > 0, acc[i, j] / row_sum[i], 0)

    return main


def main(
    lengths_q: tuple[int, ...] = (70, 1, 130, 0, 5),
    lengths_k: tuple[int, ...] = (70, 200, 150, 8, 5),
    heads: int = 4,
    kv_heads: int = 2,
    dim: int = 64,
) -> None:
    def tensor(rows, count):
        return torch.randn(rows, count, dim, device=DEVICE, dtype=torch.float16)

    def starts(lengths):
        return torch.tensor([0, *lengths], device=DEVICE).cumsum(0).int()

    q, k, v = tensor(sum(lengths_q), heads), tensor(sum(lengths_k), kv_heads), tensor(sum(lengths_k), kv_heads)
    for causal in (False, True):
        kernel = varlen_attention(heads, kv_heads, dim, causal)
        out = kernel(q, k, v, starts(lengths_q), starts(lengths_k), max(lengths_q))
        expected = []
        for q_part, k_part, v_part in zip(
            *(x.float().split(list(n)) for x, n in ((q, lengths_q), (k, lengths_k), (v, lengths_k)))
        ):
            k_part, v_part = (x.repeat_interleave(heads // kv_heads, 1) for x in (k_part, v_part))
            scores = torch.einsum("ihd,jhd->hij", q_part, k_part) * dim**-0.5
            if causal:
                hidden = torch.ones(scores.shape[1:], dtype=torch.bool, device=DEVICE).triu(len(k_part) - len(q_part) + 1)
                scores = scores.masked_fill(hidden, -torch.inf)
            expected.append(torch.einsum("hij,jhd->ihd", scores.softmax(2), v_part))
        torch.testing.assert_close(out.float(), torch.cat(expected), rtol=1e-2, atol=1e-2)
    print("attention of varying lengths: matches torch")


if __name__ == "__main__":
    main()
