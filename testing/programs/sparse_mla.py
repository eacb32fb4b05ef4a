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
            queries = T.alloc_shared([block_Q * heads, dim], "float8_e4m3fn")
            tile = T.alloc_shared([block_N, dim], "float8_e4m3fn")
            scales = T.alloc_fragment([block_N], "float32")
            s = T.alloc_fragment([block_N, block_Q * heads], "float32")
            by_query = T.reshape(s, (block_N, block_Q, heads))
            logits = T.alloc_fragment([block_N, block_Q], "float32")
            weights = T.alloc_fragment([block_Q, heads], "float32")
            end = T.alloc_var("int32", init=0)

            row = bx * block_Q
            for i in T.serial(block_Q):
                end = T.max(end, T.min(last[T.min(row + i, seq_len - 1)] + 1, keys))
            T.copy(Q[row * heads, 0], queries)
            T.copy(weight[row, 0], weights)
            for n in T.Pipelined(T.ceildiv(end, block_N), num_stages=2):
                T.copy(K[n * block_N, 0], tile)
                T.copy(K_scale[n * block_N], scales)
                T.gemm(tile, queries, s, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                for i, q, h in T.Parallel(block_N, block_Q, heads):
                    by_query[i, q, h] = T.max(by_query[i, q, h] * scales[i], 0) * weights[q, h]
                T.reduce_sum(by_query, logits, dim=-1, clear=True)
                for q, i in T.Parallel(block_Q, block_N):
                    if row + q < seq_len and n * block_N + i < keys:
                        Logits[row + q, n * block_N + i] = logits[i, q]

    return main


@tilelang.jit(out_idx=[-1])
def sparse_attention(heads, dim, rope, topk, block_N=16, dtype="bfloat16"):
    seq_len, keys = T.dynamic("seq_len"), T.dynamic("keys")
    scale = (dim + rope) ** -0.5 * LOG2_E
    rows = min(-(-heads // 16) * 16, 64)

    @T.prim_func
    def main(
        Q: T.Tensor((seq_len, heads, dim + rope), dtype),
        KV: T.Tensor((keys, dim + rope), dtype),
        chosen: T.Tensor((seq_len, topk), "int32"),
        Output: T.Tensor((seq_len, heads, dim), dtype),
    ):
        with T.Kernel(seq_len, T.ceildiv(heads, rows), threads=128) as (t, by):
            latent = T.alloc_shared((rows, dim), dtype)
            rotary = T.alloc_shared((rows, rope), dtype)
            kv_latent = T.alloc_shared((block_N, dim), dtype)
            kv_rotary = T.alloc_shared((block_N, rope), dtype)
            weights = T.alloc_shared((rows, block_N), dtype)
            used = T.alloc_fragment((block_N,), "bool")
            out = T.alloc_fragment((rows, dim), "float32")
            scores = T.alloc_fragment((rows, block_N), "float32")
            peak, before = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")
            part, total = T.alloc_fragment((rows,), "float32"), T.alloc_fragment((rows,), "float32")

            T.clear(out)
            T.clear(total)
            T.fill(peak, -(2**30))
            T.copy(Q[t, by * rows : (by + 1) * rows, :dim], latent)
            T.copy(Q[t, by * rows : (by + 1) * rows, dim:], rotary)
            for n in T.Pipelined(T.ceildiv(topk, block_N), num_stages=2):
                for j in T.Parallel(block_N):
                    used[j] = chosen[t, n * block_N + j] >= 0
                for j, d in T.Parallel(block_N, dim):
                    kv_latent[j, d] = KV[T.max(chosen[t, n * block_N + j], 0), d]
                for j, d in T.Parallel(block_N, rope):
                    kv_rotary[j, d] = KV[T.max(chosen[t, n * block_N + j], 0), dim + d]
                for i, j in T.Parallel(rows, block_N):
                    scores[i, j] = T.if_then_else(used[j], 0, -T.infinity("float32"))
                T.gemm(latent, kv_latent, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.gemm(rotary, kv_rotary, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(peak, before)
                T.reduce_max(scores, peak, dim=1, clear=False)
                for i, j in T.Parallel(rows, block_N):
                    scores[i, j] = T.exp2((scores[i, j] - peak[i]) * scale)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(rows):
                    before[i] = T.exp2((before[i] - peak[i]) * scale)
                    total[i] = total[i] * before[i] + part[i]
                for i, d in T.Parallel(rows, dim):
                    out[i, d] *= before[i]
                T.copy(scores, weights)
                T.gemm(weights, kv_latent, out, policy=T.GemmWarpPolicy.FullRow)
            for i, d in T.Parallel(rows, dim):
                out[i, d] /= total[i]
            T.copy(out, Output[t, by * rows : (by + 1) * rows, :])

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
