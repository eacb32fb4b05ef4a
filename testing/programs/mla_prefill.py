"""Multi-latent attention over whole prompts: keys of 192 (128 and 64 rotary ones that heads share), values of 128, forward
and backward."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 1, "heads": 2, "seq_len": 100, "dim": 32, "rope": 16}
LARGE = {
    "forward": {"batch": 1, "heads": 128, "seq_len": 8192, "dim": 128, "rope": 64},
    "backward": {"batch": 1, "heads": 128, "seq_len": 8192, "dim": 128, "rope": 64},
    "row_sums": {"batch": 1, "heads": 128, "seq_len": 8192, "dim": 128},
}
LOG2_E = 1.44269504


@tilelang.jit(out_idx=[4, 5])
def forward(batch, heads, seq_len, dim, rope, block_M=64, block_N=64, num_stages=2, threads=128, dtype="bfloat16"):
    scale = (dim + rope) ** -0.5 * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, heads, dim + rope), dtype),
        K: T.Tensor((batch, seq_len, heads, dim), dtype),
        K_rope: T.Tensor((batch, seq_len, rope), dtype),
        V: T.Tensor((batch, seq_len, heads, dim), dtype),
        Output: T.Tensor((batch, seq_len, heads, dim), dtype),
        LSE: T.Tensor((batch, heads, seq_len), "float32"),
    ):
        with T.Kernel(T.ceildiv(seq_len, block_M), heads, batch, threads=threads) as (bx, by, bz):
            Q_shared = T.alloc_shared([block_M, dim + rope], dtype)
            K_shared = T.alloc_shared([block_N, dim + rope], dtype)
            V_shared = T.alloc_shared([block_N, dim], dtype)
            acc_s = T.alloc_fragment([block_M, block_N], "float32")
            acc_s_cast = T.alloc_fragment([block_M, block_N], dtype)
            acc_o = T.alloc_fragment([block_M, dim], "float32")
            scores_max = T.alloc_fragment([block_M], "float32")
            scores_max_prev = T.alloc_fragment([block_M], "float32")
            scores_scale = T.alloc_fragment([block_M], "float32")
            scores_sum = T.alloc_fragment([block_M], "float32")
            logsum = T.alloc_fragment([block_M], "float32")

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(acc_o, 0)
            T.fill(logsum, 0)
            T.fill(scores_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared[:, :dim])
                T.copy(K_rope[bz, k * block_N : (k + 1) * block_N, :], K_shared[:, dim:])
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(acc_s.dtype))
                T.gemm(Q_shared, K_shared, acc_s, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.copy(scores_max, scores_max_prev)
                T.reduce_max(acc_s, scores_max, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    scores_scale[i] = T.exp2(scores_max_prev[i] * scale - scores_max[i] * scale)
                for i, j in T.Parallel(block_M, dim):
                    acc_o[i, j] *= scores_scale[i]
                for i, j in T.Parallel(block_M, block_N):
                    acc_s[i, j] = T.exp2(acc_s[i, j] * scale - scores_max[i] * scale)
                T.copy(acc_s, acc_s_cast)
                T.gemm(acc_s_cast, V_shared, acc_o, policy=T.GemmWarpPolicy.FullRow)
                T.reduce_sum(acc_s, scores_sum, dim=1)
                for i in T.Parallel(block_M):
                    logsum[i] = logsum[i] * scores_scale[i] + scores_sum[i]
            for i, j in T.Parallel(block_M, dim):
                acc_o[i, j] /= logsum[i]
            T.copy(acc_o, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])
            for i in T.Parallel(block_M):
                logsum[i] = T.log2(logsum[i]) + scores_max[i] * scale
            T.copy(logsum, LSE[bz, by, bx * block_M : (bx + 1) * block_M])

    return main


@tilelang.jit(out_idx=[-1])
def row_sums(batch, heads, seq_len, dim, block=64, dtype="bfloat16"):
    shape = [batch, seq_len, heads, dim]

    @T.prim_func
    def main(out: T.Tensor(shape, dtype), dO: T.Tensor(shape, dtype), Delta: T.Tensor([batch, heads, seq_len], "float32")):
        with T.Kernel(heads, T.ceildiv(seq_len, block), batch) as (bx, by, bz):
            o = T.alloc_fragment([block, dim], dtype)
            do = T.alloc_fragment([block, dim], dtype)
            acc = T.alloc_fragment([block, dim], "float32")
            delta = T.alloc_fragment([block], "float32")
            T.copy(out[bz, by * block : (by + 1) * block, bx, :], o)
            T.copy(dO[bz, by * block : (by + 1) * block, bx, :], do)
            for i, j in T.Parallel(block, dim):
                acc[i, j] = o[i, j].astype("float32") * do[i, j]
            T.reduce_sum(acc, delta, 1)
            T.copy(delta, Delta[bz, bx, by * block : (by + 1) * block])

    return main


@tilelang.jit
def backward(batch, heads, seq_len, dim, rope, block_M=64, block_N=32, threads=128, dtype="bfloat16"):
    """Blocks take tiles of keys; the gradients of queries, and of the rotary keys that heads share, are added atomically."""
    sm_scale = (dim + rope) ** -0.5
    scale = sm_scale * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, heads, dim + rope), dtype),
        K: T.Tensor((batch, seq_len, heads, dim), dtype),
        K_rope: T.Tensor((batch, seq_len, rope), dtype),
        V: T.Tensor((batch, seq_len, heads, dim), dtype),
        dO: T.Tensor((batch, seq_len, heads, dim), dtype),
        LSE: T.Tensor((batch, heads, seq_len), "float32"),
        Delta: T.Tensor((batch, heads, seq_len), "float32"),
        dQ: T.Tensor((batch, seq_len, heads, dim + rope), "float32"),
        dK: T.Tensor((batch, seq_len, heads, dim), dtype),
        dK_rope: T.Tensor((batch, seq_len, rope), "float32"),
        dV: T.Tensor((batch, seq_len, heads, dim), dtype),
    ):
        with T.Kernel(heads, T.ceildiv(seq_len, block_M), batch, threads=threads) as (bx, by, bz):
            K_shared = T.alloc_shared([block_M, dim + rope], dtype)
            V_shared = T.alloc_shared([block_M, dim], dtype)
            q = T.alloc_shared([block_N, dim + rope], dtype)
            do = T.alloc_shared([block_N, dim], dtype)
            lse_shared = T.alloc_shared([block_N], "float32")
            delta_shared = T.alloc_shared([block_N], "float32")
            qkT = T.alloc_fragment([block_M, block_N], "float32")
            dsT = T.alloc_fragment([block_M, block_N], "float32")
            qkT_cast = T.alloc_fragment([block_M, block_N], dtype)
            dsT_cast = T.alloc_fragment([block_M, block_N], dtype)
            dsT_shared = T.alloc_shared([block_M, block_N], dtype)
            dv = T.alloc_fragment([block_M, dim], "float32")
            dk = T.alloc_fragment([block_M, dim + rope], "float32")
            dq = T.alloc_fragment([block_N, dim + rope], "float32")

            T.copy(K[bz, by * block_M : (by + 1) * block_M, bx, :], K_shared[:, :dim])
            T.copy(K_rope[bz, by * block_M : (by + 1) * block_M, :], K_shared[:, dim:])
            T.copy(V[bz, by * block_M : (by + 1) * block_M, bx, :], V_shared)
            T.clear(dv)
            T.clear(dk)
            loop_st = T.floordiv(by * block_M, block_N)
            loop_ed = T.ceildiv(seq_len, block_N)
            for k in T.Pipelined(loop_st, loop_ed, num_stages=1):
                T.copy(Q[bz, k * block_N : (k + 1) * block_N, bx, :], q)
                T.clear(qkT)
                T.gemm(K_shared, q, qkT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(LSE[bz, bx, k * block_N : (k + 1) * block_N], lse_shared)
                for i, j in T.Parallel(block_M, block_N):
                    qkT[i, j] = T.exp2(qkT[i, j] * scale - lse_shared[j])
                for i, j in T.Parallel(block_M, block_N):
                    visible = by * block_M + i <= k * block_N + j and k * block_N + j < seq_len
                    qkT[i, j] = T.if_then_else(visible, qkT[i, j], 0)
                T.copy(dO[bz, k * block_N : (k + 1) * block_N, bx, :], do)
                T.clear(dsT)
                T.gemm(V_shared, do, dsT, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(qkT, qkT_cast)
                T.gemm(qkT_cast, do, dv, policy=T.GemmWarpPolicy.FullRow)
                T.copy(Delta[bz, bx, k * block_N : (k + 1) * block_N], delta_shared)
                for i, j in T.Parallel(block_M, block_N):
                    dsT_cast[i, j] = qkT[i, j] * (dsT[i, j] - delta_shared[j]) * sm_scale
                T.gemm(dsT_cast, q, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(dsT_cast, dsT_shared)
                T.clear(dq)
                T.gemm(dsT_shared, K_shared, dq, transpose_A=True)
                for i, j in T.Parallel(block_N, dim + rope):
                    if k * block_N + i < seq_len:
                        T.atomic_add(dQ[bz, k * block_N + i, bx, j], dq[i, j])
            T.copy(dk[:, :dim], dK[bz, by * block_M : (by + 1) * block_M, bx, :])
            for i, j in T.Parallel(block_M, rope):
                if by * block_M + i < seq_len:
                    T.atomic_add(dK_rope[bz, by * block_M + i, j], dk[i, dim + j])
            T.copy(dv, dV[bz, by * block_M : (by + 1) * block_M, bx, :])

    return main


def reference(q, k, k_rope, v):
    keys = torch.cat([k, k_rope[:, :, None].expand(-1, -1, k.shape[2], -1)], dim=3)
    scores = torch.einsum("bihd,bjhd->bhij", q, keys) * q.shape[3] ** -0.5
    hidden = torch.ones(q.shape[1], q.shape[1], dtype=torch.bool).triu(1)
    return torch.einsum("bhij,bjhd->bihd", scores.masked_fill(hidden, -torch.inf).softmax(3), v)


def check(batch, heads, seq_len, dim, rope):
    q = torch.randn(batch, seq_len, heads, dim + rope).bfloat16()
    k, v, do = (torch.randn(batch, seq_len, heads, dim).bfloat16() for _ in range(3))
    k_rope = torch.randn(batch, seq_len, rope).bfloat16()
    wide = [x.float().requires_grad_() for x in (q, k, k_rope, v)]
    expected = reference(*wide)
    expected.backward(do.float())

    out, lse = forward(batch, heads, seq_len, dim, rope)(q, k, k_rope, v)
    torch.testing.assert_close(out.float(), expected.detach(), rtol=2e-2, atol=2e-2)
    delta = row_sums(batch, heads, seq_len, dim)(out, do)
    dq, dk_rope = torch.zeros(q.shape), torch.zeros(k_rope.shape)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    backward(batch, heads, seq_len, dim, rope)(q, k, k_rope, v, do, lse, delta, dq, dk, dk_rope, dv)
    for got, x in zip((dq, dk, dk_rope, dv), wide):
        torch.testing.assert_close(got.float(), x.grad, rtol=3e-2, atol=3e-2)
