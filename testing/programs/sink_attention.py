"""Attention with a sliding window and a learned sink of each head, in which a part of the weight disappears; grouped queries."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 1, "heads": 4, "groups": 2, "seq_len": 150, "dim": 32, "window": 40}
LARGE = {"sink_attention": {"batch": 1, "heads": 64, "groups": 8, "seq_len": 8192, "dim": 64, "window": 128}}
LOG2_E = 1.44269504


@tilelang.jit(out_idx=[-1])
def sink_attention(batch, heads, groups, seq_len, dim, window=None, block_M=64, block_N=32, threads=128, dtype="bfloat16"):
    scale = (1.0 / dim) ** 0.5 * LOG2_E
    head_kv = heads // groups
    q_shape = [batch, heads, seq_len, dim]
    kv_shape = [batch, head_kv, seq_len, dim]

    @T.macro
    def MMA0(K, Q_shared, K_shared, acc_s, k, bx, by, bz):
        T.copy(K[bz, by // groups, k * block_N : (k + 1) * block_N, :], K_shared)
        for i, j in T.Parallel(block_M, block_N):
            q_idx = bx * block_M + i
            k_idx = k * block_N + j
            if window is not None:
                acc_s[i, j] = T.if_then_else(
                    q_idx >= k_idx and q_idx < k_idx + window and k_idx < seq_len, 0, -T.infinity(acc_s.dtype)
                )
            else:
                acc_s[i, j] = T.if_then_else(q_idx >= k_idx, 0, -T.infinity(acc_s.dtype))
        T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)

    @T.macro
    def Softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum):
        T.copy(scores_max, scores_max_prev)
        T.fill(scores_max, -T.infinity("float32"))
        T.reduce_max(acc_s, scores_max, dim=1, clear=False)
        for i in T.Parallel(block_M):
            scores_max[i] = T.max(scores_max[i], scores_max_prev[i])
            scores_max[i] = T.if_then_else(scores_max[i] == -T.infinity("float32"), 0, scores_max[i])
        for i in T.Parallel(block_M):
            scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
        for i, j in T.Parallel(block_M, block_N):
            acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
        T.reduce_sum(acc_s, scores_sum, dim=1)
        for i in T.Parallel(block_M):
            logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
        T.copy(acc_s, acc_s_cast)

    @T.prim_func
    def main(
        Q: T.Tensor(q_shape, dtype),
        K: T.Tensor(kv_shape, dtype),
        V: T.Tensor(kv_shape, dtype),
        Sinks: T.Tensor([heads], dtype),
        Output: T.Tensor(q_shape, dtype),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim], dtype)
            K_shared = T.alloc_shared([block_N, dim], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            O_shared = T.alloc_shared([block_M, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], "float32")
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], "float32")
            scores_max = T.alloc_fragment([block_M], "float32")
            scores_max_prev = T.alloc_fragment([block_M], "float32")
            scores_scale = T.alloc_fragment([block_M], "float32")
            scores_sum = T.alloc_fragment([block_M], "float32")
            logsum = T.alloc_fragment([block_M], "float32")
            sinks = T.alloc_fragment([block_M], dtype)

            T.annotate_layout({O_shared: tilelang.layout.make_swizzled_layout(O_shared)})
            T.copy(Q[bz, by, bx * block_M : (bx + 1) * block_M, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity("float32"))
            for i in T.Parallel(block_M):
                sinks[i] = Sinks[by]

            end = T.min(T.ceildiv(seq_len, block_N), T.ceildiv((bx + 1) * block_M, block_N))
            start = T.max(0, (bx * block_M - window) // block_N) if window is not None else 0
            for k in T.Pipelined(start, end, num_stages=2):
                MMA0(K, Q_shared, K_shared, acc_s, k, bx, by, bz)
                Softmax(acc_s, acc_s_cast, scores_max, scores_max_prev, scores_scale, scores_sum, logsum)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                T.copy(V[bz, by // groups, k * block_N : (k + 1) * block_N, :], V_shared)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for i in T.Parallel(block_M):
                logsum[i] += T.exp2(sinks[i] * 1.44269504 - scores_max[i] * scale)
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, O_shared)
            T.copy(O_shared, Output[bz, by, bx * block_M : (bx + 1) * block_M, :])

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
