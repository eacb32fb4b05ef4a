"""A cache of keys and values in int8 with a scale a row: appending new tokens, and attention of one token that reads it."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 2, "heads": 4, "kv_heads": 2, "dim": 32, "capacity": 80}
LARGE = {
    "append": {"kv_heads": 8, "dim": 128, "capacity": 32768},
    "decode": {"heads": 32, "kv_heads": 8, "dim": 128, "capacity": 32768},
}


@tilelang.jit
def append(kv_heads, dim, capacity):
    batch = T.dynamic("batch")

    @T.prim_func
    def main(
        New: T.Tensor((batch, kv_heads, dim), "bfloat16"),
        length: T.Tensor((batch,), "int32"),
        Cache: T.Tensor((batch, kv_heads, capacity, dim), "int8"),
        Scale: T.Tensor((batch, kv_heads, capacity), "float32"),
    ):
        with T.Kernel(kv_heads, batch, threads=32) as (h, b):
            x = T.alloc_fragment((dim,), "float32")
            amax = T.alloc_fragment((1,), "float32")
            T.copy(New[b, h, :], x)
            T.reduce_absmax(x, amax)
            scale = T.max(amax[0], 1e-8) / 127
            at = length[b]
            if at < capacity:
                Scale[b, h, at] = scale
                for i in T.Parallel(dim):
                    Cache[b, h, at, i] = T.cast(T.round(x[i] / scale), "int8")

    return main


@tilelang.jit(out_idx=[-1])
def decode(heads, kv_heads, dim, capacity, block_N=32, dtype="bfloat16"):
    batch = T.dynamic("batch")
    group = heads // kv_heads
    rows = max(16, group)
    scale = dim**-0.5 * 1.44269504

    @T.prim_func
    def main(
        Q: T.Tensor((batch, kv_heads, group, dim), dtype),
        K: T.Tensor((batch, kv_heads, capacity, dim), "int8"),
        V: T.Tensor((batch, kv_heads, capacity, dim), "int8"),
        K_scale: T.Tensor((batch, kv_heads, capacity), "float32"),
        V_scale: T.Tensor((batch, kv_heads, capacity), "float32"),
        lengths: T.Tensor((batch,), "int32"),
        Output: T.Tensor((batch, kv_heads, group, dim), dtype),
    ):
        with T.Kernel(kv_heads, batch, threads=128) as (h, b):
            q = T.alloc_shared((rows, dim), dtype)
            k_int8 = T.alloc_shared((block_N, dim), "int8")
            v_int8 = T.alloc_shared((block_N, dim), "int8")
            k = T.alloc_shared((block_N, dim), dtype)
            v = T.alloc_shared((block_N, dim), dtype)
            k_scale = T.alloc_shared((block_N,), "float32")
            v_scale = T.alloc_shared((block_N,), "float32")
            s = T.alloc_fragment((rows, block_N), "float32")
            p = T.alloc_shared((rows, block_N), dtype)
            o = T.alloc_fragment((rows, dim), "float32")
            m = T.alloc_fragment((rows,), "float32")
            m_new = T.alloc_fragment((rows,), "float32")
            total = T.alloc_fragment((rows,), "float32")
            part = T.alloc_fragment((rows,), "float32")

            for i, j in T.Parallel(rows, dim):
                q[i, j] = T.if_then_else(i < group, Q[b, h, i, j], 0)
            T.fill(o, 0)
            T.fill(total, 0)
            T.fill(m, -1e30)
            for n in T.Pipelined(T.ceildiv(lengths[b], block_N), num_stages=2):
                T.copy(K[b, h, n * block_N, 0], k_int8)
                T.copy(V[b, h, n * block_N, 0], v_int8)
                T.copy(K_scale[b, h, n * block_N], k_scale)
                T.copy(V_scale[b, h, n * block_N], v_scale)
                for i, j in T.Parallel(block_N, dim):
                    k[i, j] = T.cast(k_int8[i, j], dtype)
                    v[i, j] = v_int8[i, j] * v_scale[i]
                T.clear(s)
                T.gemm(q, k, s, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(rows, block_N):
                    s[i, j] = T.if_then_else(n * block_N + j < lengths[b], s[i, j] * k_scale[j] * scale, -1e30)
                T.copy(m, m_new)
                T.reduce_max(s, m_new, clear=False)
                for i, j in T.Parallel(rows, block_N):
                    s[i, j] = T.exp2(s[i, j] - m_new[i])
                T.reduce_sum(s, part)
                for i in T.Parallel(rows):
                    total[i] = total[i] * T.exp2(m[i] - m_new[i]) + part[i]
                for i, j in T.Parallel(rows, dim):
                    o[i, j] *= T.exp2(m[i] - m_new[i])
                T.copy(m_new, m)
                T.copy(s, p)
                T.gemm(p, v, o, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(rows, dim):
                if i < group:
                    Output[b, h, i, j] = o[i, j] / total[i]

    return main


def check(batch, heads, kv_heads, dim, capacity):
    lengths = torch.tensor([capacity - 7 * i - 10 for i in range(batch)]).int()
    k, v = (torch.randint(-127, 128, (batch, kv_heads, capacity, dim)).to(torch.int8) for _ in range(2))
    k_scale, v_scale = (torch.rand(batch, kv_heads, capacity) / 100 for _ in range(2))
    new = torch.randn(batch, kv_heads, dim).bfloat16()
    append(kv_heads, dim, capacity)(new, lengths, k, k_scale)
    for b, at in enumerate(lengths.tolist()):
        torch.testing.assert_close(k[b, :, at].float() * k_scale[b, :, at, None], new[b].float(), rtol=0, atol=0.02)
    lengths = lengths + 1
    q = torch.randn(batch, kv_heads, heads // kv_heads, dim).bfloat16()
    out = decode(heads, kv_heads, dim, capacity)(q, k, v, k_scale, v_scale, lengths)
    scores = torch.einsum("bhgd,bhnd->bhgn", q.float(), k.float() * k_scale[..., None]) * dim**-0.5
    scores = scores.masked_fill(torch.arange(capacity) >= lengths[:, None, None, None], -torch.inf)
    torch.testing.assert_close(out.float(), scores.softmax(3) @ (v.float() * v_scale[..., None]), rtol=2e-2, atol=2e-2)
