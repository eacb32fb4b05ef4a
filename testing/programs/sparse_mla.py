"""Sparse multi-latent attention: an indexer in float8 scores all keys, and each query attends to those of given indices."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"seq_len": 12, "keys": 90, "heads": 16, "dim": 64, "rope": 16, "topk": 48, "index_heads": 8, "index_dim": 32}
LARGE = {
    "index_logits": {"heads": 64, "dim": 128},
    "sparse_attention": {"heads": 128, "dim": 512, "rope": 64, "topk": 2048},
}
LOG2_E = 1.44269504


@tilelang.jit
def index_logits(heads, dim, block_N=64, block_Q=4, threads=128):
    seq_len, keys = T.dynamic("seq_len"), T.dynamic("keys")

    @T.prim_func
    def main(
        Q: T.Tensor((seq_len * heads, dim), "float8_e4m3fn"),
        K: T.Tensor((keys, dim), "float8_e4m3fn"),
        K_scale: T.Tensor((keys,), "float32"),
        weight: T.Tensor((seq_len, heads), "float32"),
        last: T.Tensor((seq_len,), "int32"),
        Logits: T.Tensor((seq_len, keys), "float32"),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_Q), threads=threads) as bx:
            q_shared = T.alloc_shared([block_Q * heads, dim], "float8_e4m3fn")
            k_shared = T.alloc_shared([block_N, dim], "float8_e4m3fn")
            k_scale = T.alloc_fragment([block_N], "float32")
            s = T.alloc_fragment([block_N, block_Q * heads], "float32")
            s_reshaped = T.reshape(s, (block_N, block_Q, heads))
            logits = T.alloc_fragment([block_N, block_Q], "float32")
            weights = T.alloc_fragment([block_Q, heads], "float32")
            end = T.alloc_var("int32", init=0)

            row = bx * block_Q
            for i in T.serial(block_Q):
                end = T.max(end, T.min(last[T.min(row + i, seq_len - 1)] + 1, keys))
            T.copy(Q[row * heads, 0], q_shared)
            T.copy(weight[row, 0], weights)
            for n in T.Pipelined(T.ceildiv(end, block_N), num_stages=2):
                T.copy(K[n * block_N, 0], k_shared)
                T.copy(K_scale[n * block_N], k_scale)
                T.gemm(k_shared, q_shared, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                for i, q, h in T.Parallel(block_N, block_Q, heads):
                    s_reshaped[i, q, h] = T.max(s_reshaped[i, q, h] * k_scale[i], 0) * weights[q, h]
                T.reduce_sum(s_reshaped, logits, dim=-1, clear=True)
                for q, i in T.Parallel(block_Q, block_N):
                    if row + q < seq_len and n * block_N + i < keys:
                        Logits[row + q, n * block_N + i] = logits[i, q]

    return main


@tilelang.jit(out_idx=[-1])
def sparse_attention(heads, dim, rope, topk, block_I=16, threads=128, dtype="bfloat16"):
    seq_len, keys = T.dynamic("seq_len"), T.dynamic("keys")
    sm_scale = (dim + rope) ** -0.5 * LOG2_E
    H = T.ceildiv(heads, 16) * 16
    block_H = min(H, 64)

    @T.prim_func
    def main(
        Q: T.Tensor((seq_len, heads, dim + rope), dtype),
        KV: T.Tensor((keys, dim + rope), dtype),
        Indices: T.Tensor((seq_len, topk), "int32"),
        Output: T.Tensor((seq_len, heads, dim), dtype),
    ):
        with T.Kernel(seq_len, T.ceildiv(heads, block_H), threads=threads) as (bx, by):
            Q_shared = T.alloc_shared([block_H, dim], dtype)
            Q_tail = T.alloc_shared([block_H, rope], dtype)
            KV_shared = T.alloc_shared([block_I, dim], dtype)
            K_tail = T.alloc_shared([block_I, rope], dtype)
            mask = T.alloc_fragment([block_I], "bool")
            acc_o = T.alloc_fragment([block_H, dim], "float32")
            acc_s = T.alloc_fragment([block_H, block_I], "float32")
            S_shared = T.alloc_shared([block_H, block_I], dtype)
            sumexp = T.alloc_fragment([block_H], "float32")
            sumexp_i = T.alloc_fragment([block_H], "float32")
            alpha = T.alloc_fragment([block_H], "float32")
            m_i = T.alloc_fragment([block_H], "float32")
            m_i_prev = T.alloc_fragment([block_H], "float32")

            T.fill(acc_o, 0)
            T.fill(sumexp, 0)
            T.fill(m_i, -(2**30))
            T.copy(Q[bx, by * block_H : (by + 1) * block_H, :dim], Q_shared)
            T.copy(Q[bx, by * block_H : (by + 1) * block_H, dim:], Q_tail)
            for i_i in T.Pipelined(T.ceildiv(topk, block_I), num_stages=2):
                for bi_i in T.Parallel(block_I):
                    mask[bi_i] = Indices[bx, i_i * block_I + bi_i] >= 0
                for bi_i, d_i in T.Parallel(block_I, dim):
                    KV_shared[bi_i, d_i] = KV[T.max(Indices[bx, i_i * block_I + bi_i], 0), d_i]
                for bi_i, d_i in T.Parallel(block_I, rope):
                    K_tail[bi_i, d_i] = KV[T.max(Indices[bx, i_i * block_I + bi_i], 0), dim + d_i]
                for h_i, bi_i in T.Parallel(block_H, block_I):
                    acc_s[h_i, bi_i] = T.if_then_else(mask[bi_i], 0, -T.infinity(acc_s.dtype))
                T.gemm(Q_shared, KV_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(Q_tail, K_tail, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(m_i, m_i_prev)
                T.reduce_max(acc_s, m_i, dim=1, clear=False)
                for h_i in T.Parallel(block_H):
                    alpha[h_i] = T.exp2((m_i_prev[h_i] - m_i[h_i]) * sm_scale)
                for h_i, bi_i in T.Parallel(block_H, block_I):
                    acc_s[h_i, bi_i] = T.exp2(acc_s[h_i, bi_i] * sm_scale - m_i[h_i] * sm_scale)
                T.reduce_sum(acc_s, sumexp_i, dim=1)
                for h_i in T.Parallel(block_H):
                    sumexp[h_i] = sumexp[h_i] * alpha[h_i] + sumexp_i[h_i]
                for h_i, d_i in T.Parallel(block_H, dim):
                    acc_o[h_i, d_i] = acc_o[h_i, d_i] * alpha[h_i]
                T.copy(acc_s, S_shared)
                T.gemm(S_shared, KV_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
            for h_i, d_i in T.Parallel(block_H, dim):
                acc_o[h_i, d_i] /= sumexp[h_i]
            T.copy(acc_o, Output[bx, by * block_H : (by + 1) * block_H, :])

    return main


def check(seq_len, keys, heads, dim, rope, topk, index_heads, index_dim):
    iq = torch.randn(seq_len * index_heads, index_dim).to(torch.float8_e4m3fn)
    ik = torch.randn(keys, index_dim).to(torch.float8_e4m3fn)
    scale, weight = torch.rand(keys) + 0.5, torch.rand(seq_len, index_heads)
    last = torch.arange(keys - seq_len, keys).int()
    logits = torch.full((seq_len, keys), -torch.inf)
    index_logits(index_heads, index_dim)(iq, ik, scale, weight, last, logits)
    products = (iq.float() @ ik.float().T).view(seq_len, index_heads, keys) * scale
    expected = (products.relu() * weight[..., None]).sum(1)
    torch.testing.assert_close(logits, expected, rtol=1e-3, atol=1e-3)

    causal = logits.masked_fill(torch.arange(keys) > last[:, None], -torch.inf)
    indices = causal.topk(topk, dim=1).indices.int()
    indices[0, 5:] = -1
    q, kv = torch.randn(seq_len, heads, dim + rope).bfloat16(), torch.randn(keys, dim + rope).bfloat16()
    out = sparse_attention(heads, dim, rope, topk)(q, kv, indices)
    chosen = kv[indices.clamp(min=0).long()].float()
    scores = torch.einsum("shd,sjd->shj", q.float(), chosen) * (dim + rope) ** -0.5
    scores = scores.masked_fill((indices < 0)[:, None], -torch.inf)
    torch.testing.assert_close(out.float(), scores.softmax(2) @ chosen[..., :dim], rtol=2e-2, atol=2e-2)
