"""Flash attention, forward: causal or not, grouped queries, and any sequence length with one kernel.

What to learn: two products with a softmax between them, none of it stored. The online softmax keeps a running maximum and
sum for each row; when the maximum grows, sum and output so far are scaled down.

Why so: scores of all pairs would be a matrix of sequence length squared. The mask is the initial value of the accumulator,
as ``T.gemm`` adds to it; ``FullRow`` keeps each row in one warp, so that its maximum and sum need no shared memory. The
tutorial's fifth chapter goes through it line by line.

Next: ``flash_decoding`` for one query, ``varlen_attention`` for packed sequences, ``flash_attention_backward`` for
gradients.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def flash_attention(batch, heads, seq_len, dim, groups=1, causal=False, block_M=64, block_N=64, num_stages=2, dtype="float16"):
    """Tensors are (batch, sequence, heads, dim); ``groups`` query heads share a key head; ``seq_len=None`` is dynamic."""
    if seq_len is None:
        seq_len = T.dynamic("seq_len")
    scale = dim**-0.5 * LOG2_E
    q_shape = (batch, seq_len, heads, dim)
    kv_shape = (batch, seq_len, heads // groups, dim)

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Output: T.Tensor(q_shape, dtype),
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

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))

            tiles = T.ceildiv(T.min(seq_len, (bx + 1) * block_M) if causal else seq_len, block_N)
            for k in T.Pipelined(tiles, num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by // groups, :], K_shared)
                for i, j in T.Parallel(block_M, block_N):
                    inside = k * block_N + j < seq_len
                    if causal:
                        inside = inside and bx * block_M + i >= k * block_N + j
                    scores[i, j] = T.if_then_else(inside, 0, -T.infinity("float32"))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

                T.copy(row_max, previous_max)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(previous_max[i] * scale - row_max[i] * scale)
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - row_max[i] * scale)
                T.reduce_sum(scores, tile_sum, dim=1)
                for i in T.Parallel(block_M):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                for i, j in T.Parallel(block_M, dim):
                    acc[i, j] *= rescale[i]

                T.copy(scores, weights)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by // groups, :], V_shared)
                T.gemm(weights, V_shared, acc, policy=T.GemmWarpPolicy.FullRow)

            for i, j in T.Parallel(block_M, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])

    return main


def reference(q, k, v, groups: int, causal: bool):
    q, k, v = (x.float().transpose(1, 2) for x in (q, k, v))
    k, v = (x.repeat_interleave(groups, dim=1) for x in (k, v))
    return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal).transpose(1, 2)


def main(batch: int = 1, heads: int = 4, seq_len: int = 256, dim: int = 64) -> None:
    def check(kernel, length, groups, causal):
        q = torch.randn(batch, length, heads, dim, device=DEVICE, dtype=torch.float16)
        k = torch.randn(batch, length, heads // groups, dim, device=DEVICE, dtype=torch.float16)
        v = torch.randn(batch, length, heads // groups, dim, device=DEVICE, dtype=torch.float16)
        out = kernel(q, k, v)
        torch.testing.assert_close(out.float(), reference(q, k, v, groups, causal), rtol=1e-2, atol=1e-2)

    for groups in (1, 2):
        for causal in (False, True):
            check(flash_attention(batch, heads, seq_len, dim, groups, causal), seq_len, groups, causal)
    dynamic = flash_attention(batch, heads, None, dim, causal=True)
    for length in (seq_len, seq_len - 37, 17):
        check(dynamic, length, 1, True)
    print("flash attention: matches torch")


if __name__ == "__main__":
    main()
