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
            scores = T.alloc_fragment([block_M, block_N], "float32")
            weights = T.alloc_fragment([block_M, block_N], dtype)
            result = T.alloc_fragment([block_M, dim], "float32")
            peak = T.alloc_fragment([block_M], "float32")
            before = T.alloc_fragment([block_M], "float32")
            rescale = T.alloc_fragment([block_M], "float32")
            part = T.alloc_fragment([block_M], "float32")
            total = T.alloc_fragment([block_M], "float32")

            T.copy(Q[bz, bx * block_M : (bx + 1) * block_M, by, :], Q_shared)
            T.fill(result, 0)
            T.fill(total, 0)
            T.fill(peak, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv((bx + 1) * block_M, block_N), num_stages=num_stages):
                T.copy(K[bz, k * block_N : (k + 1) * block_N, by, :], K_shared[:, :dim])
                T.copy(K_rope[bz, k * block_N : (k + 1) * block_N, :], K_shared[:, dim:])
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.if_then_else(bx * block_M + i >= k * block_N + j, 0, -T.infinity(scores.dtype))
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(V[bz, k * block_N : (k + 1) * block_N, by, :], V_shared)
                T.copy(peak, before)
                T.reduce_max(scores, peak, dim=1, clear=False)
                for i in T.Parallel(block_M):
                    rescale[i] = T.exp2(before[i] * scale - peak[i] * scale)
                for i, j in T.Parallel(block_M, dim):
                    result[i, j] *= rescale[i]
                for i, j in T.Parallel(block_M, block_N):
                    scores[i, j] = T.exp2(scores[i, j] * scale - peak[i] * scale)
                T.copy(scores, weights)
                T.gemm(weights, V_shared, result, policy=T.GemmWarpPolicy.FullRow)
                T.reduce_sum(scores, part, dim=1)
                for i in T.Parallel(block_M):
                    total[i] = total[i] * rescale[i] + part[i]
            for i, j in T.Parallel(block_M, dim):
                result[i, j] /= total[i]
            T.copy(result, Output[bz, bx * block_M : (bx + 1) * block_M, by, :])
            for i in T.Parallel(block_M):
                total[i] = T.log2(total[i]) + peak[i] * scale
            T.copy(total, LSE[bz, by, bx * block_M : (bx + 1) * block_M])

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
            weights_t = T.alloc_fragment([block_M, block_N], "float32")
            grads_t = T.alloc_fragment([block_M, block_N], "float32")
            weights_half = T.alloc_fragment([block_M, block_N], dtype)
            grads_half = T.alloc_fragment([block_M, block_N], dtype)
            grads_shared = T.alloc_shared([block_M, block_N], dtype)
            dv = T.alloc_fragment([block_M, dim], "float32")
            dk = T.alloc_fragment([block_M, dim + rope], "float32")
            dq = T.alloc_fragment([block_N, dim + rope], "float32")

            T.copy(K[bz, by * block_M : (by + 1) * block_M, bx, :], K_shared[:, :dim])
            T.copy(K_rope[bz, by * block_M : (by + 1) * block_M, :], K_shared[:, dim:])
            T.copy(V[bz, by * block_M : (by + 1) * block_M, bx, :], V_shared)
            T.clear(dv)
            T.clear(dk)
            first = T.floordiv(by * block_M, block_N)
            last = T.ceildiv(seq_len, block_N)
            for k in T.Pipelined(first, last, num_stages=1):
                T.copy(Q[bz, k * block_N : (k + 1) * block_N, bx, :], q)
                T.clear(weights_t)
                T.gemm(K_shared, q, weights_t, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(LSE[bz, bx, k * block_N : (k + 1) * block_N], lse_shared)
                for i, j in T.Parallel(block_M, block_N):
                    weights_t[i, j] = T.exp2(weights_t[i, j] * scale - lse_shared[j])
                for i, j in T.Parallel(block_M, block_N):
                    visible = by * block_M + i <= k * block_N + j and k * block_N + j < seq_len
                    weights_t[i, j] = T.if_then_else(visible, weights_t[i, j], 0)
                T.copy(dO[bz, k * block_N : (k + 1) * block_N, bx, :], do)
                T.clear(grads_t)
                T.gemm(V_shared, do, grads_t, transpose_B=True, policy=T.GemmWarpPolicy.FullRow)
                T.copy(weights_t, weights_half)
                T.gemm(weights_half, do, dv, policy=T.GemmWarpPolicy.FullRow)
                T.copy(Delta[bz, bx, k * block_N : (k + 1) * block_N], delta_shared)
                for i, j in T.Parallel(block_M, block_N):
                    grads_half[i, j] = weights_t[i, j] * (grads_t[i, j] - delta_shared[j]) * sm_scale
                T.gemm(grads_half, q, dk, policy=T.GemmWarpPolicy.FullRow)
                T.copy(grads_half, grads_shared)
                T.clear(dq)
                T.gemm(grads_shared, K_shared, dq, transpose_A=True)
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
