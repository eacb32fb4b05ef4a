"""Attention with a sliding window and a learned sink of each head, in which a part of the weight disappears; grouped queries."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 1, "heads": 4, "groups": 2, "seq_len": 150, "dim": 32, "window": 40}
LARGE = {"sink_attention": {"batch": 1, "heads": 64, "groups": 8, "seq_len": 8192, "dim": 64, "window": 128}}
LOG2_E = 1.44269504


@tilelang.jit(out_idx=[-1])
def sink_attention(batch, heads, groups, seq_len, dim, window=None, block_M=64, block_N=32, dtype="bfloat16"):
    scale = dim**-0.5 * LOG2_E

    @T.macro
    def score_tile(keys, tile, scores, row, column):
        """Scores of a tile of keys, those out of sight at minus infinity before the product is added."""
        for i, j in T.Parallel(block_M, block_N):
            gap = row + i - column - j
            visible = gap >= 0
            if window is not None:
                visible = visible and gap < window
            scores[i, j] = T.if_then_else(visible, 0, -T.infinity("float32"))
        T.gemm(tile, keys, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def to_weights(scores, weights, peak, rescale, part, total):
        """Weights relative to a row's running maximum; a row that has seen no key yet has the maximum 0."""
        T.copy(peak, rescale)
        T.reduce_max(scores, peak, dim=1, clear=False)
        for i in T.Parallel(block_M):
            known = T.if_then_else(peak[i] == -T.infinity("float32"), 0, peak[i])
            rescale[i] = T.exp2((rescale[i] - known) * scale)
        for i, j in T.Parallel(block_M, block_N):
            known = T.if_then_else(peak[i] == -T.infinity("float32"), 0, peak[i])
            scores[i, j] = T.exp2((scores[i, j] - known) * scale)
        T.reduce_sum(scores, part, dim=1)
        for i in T.Parallel(block_M):
            total[i] = total[i] * rescale[i] + part[i]
        T.copy(scores, weights)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, seq_len, dim), dtype),
        K: T.Tensor((batch, heads // groups, seq_len, dim), dtype),
        V: T.Tensor((batch, heads // groups, seq_len, dim), dtype),
        sinks: T.Tensor((heads,), dtype),
        Output: T.Tensor((batch, heads, seq_len, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=128) as (bx, by, bz):
            queries = T.alloc_shared((block_M, dim), dtype)
            keys = T.alloc_shared((block_N, dim), dtype)
            values = T.alloc_shared((block_N, dim), dtype)
            staged = T.alloc_shared((block_M, dim), dtype)
            scores = T.alloc_fragment((block_M, block_N), "float32")
            weights = T.alloc_fragment((block_M, block_N), dtype)
            out = T.alloc_fragment((block_M, dim), "float32")
            peak, rescale = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")
            part, total = T.alloc_fragment((block_M,), "float32"), T.alloc_fragment((block_M,), "float32")

            row, head = bx * block_M, by // groups
            T.annotate_layout({staged: tilelang.layout.make_swizzled_layout(staged)})
            T.copy(Q[bz, by, row, 0], queries)
            T.clear(out)
            T.clear(total)
            T.fill(peak, -T.infinity("float32"))
            first = T.max(0, (row - window) // block_N) if window is not None else 0
            for k in T.Pipelined(first, T.ceildiv(T.min(row + block_M, seq_len), block_N), num_stages=2):
                T.copy(K[bz, head, k * block_N, 0], keys)
                score_tile(keys, queries, scores, row, k * block_N)
                to_weights(scores, weights, peak, rescale, part, total)
                for i, j in T.Parallel(block_M, dim):
                    out[i, j] *= rescale[i]
                T.copy(V[bz, head, k * block_N, 0], values)
                T.gemm(weights, values, out, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                total[i] += T.exp2(T.cast(sinks[by], "float32") * LOG2_E - peak[i] * scale)
            for i, j in T.Parallel(block_M, dim):
                out[i, j] /= total[i]
            T.copy(out, staged)
            T.copy(staged, Output[bz, by, row, 0])

    return main


def check(batch, heads, groups, seq_len, dim, window):
    q = torch.randn(batch, heads, seq_len, dim).bfloat16()
    k, v = (torch.randn(batch, heads // groups, seq_len, dim).bfloat16() for _ in range(2))
    sinks = torch.randn(heads).bfloat16()
    gap = torch.arange(seq_len)[:, None] - torch.arange(seq_len)
    for size in (window, None):
        hidden = (gap < 0) | (gap >= (size or seq_len))
        keys, values = (x.float().repeat_interleave(groups, 1) for x in (k, v))
        scores = (q.float() @ keys.transpose(2, 3) * dim**-0.5).masked_fill(hidden, -torch.inf)
        column = sinks.float()[None, :, None, None].expand(batch, -1, seq_len, 1)
        weights = torch.cat([scores, column], 3).softmax(3)[..., :-1]
        out = sink_attention(batch, heads, groups, seq_len, dim, size)(q, k, v, sinks)
        torch.testing.assert_close(out.float(), weights @ values, rtol=2e-2, atol=2e-2)
