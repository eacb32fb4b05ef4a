"""A gated delta net's step for one token of each sequence, its states in a pool, changed in place."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 3, "heads": 2, "value_heads": 4, "dim_k": 32, "dim_v": 48}
LARGE = {"step": {"heads": 16, "value_heads": 32, "dim_k": 128, "dim_v": 128}}


@tilelang.jit(out_idx=[-1])
def step(heads, value_heads, dim_k, dim_v, block_V=16, threads=64, dtype="bfloat16"):
    batch, slots = T.dynamic("batch"), T.dynamic("slots")

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim_k), dtype),
        K: T.Tensor((batch, heads, dim_k), dtype),
        V: T.Tensor((batch, value_heads, dim_v), dtype),
        A: T.Tensor((batch, value_heads), "float32"),
        beta: T.Tensor((batch, value_heads), dtype),
        A_log: T.Tensor((value_heads,), "float32"),
        bias: T.Tensor((value_heads,), "float32"),
        slot: T.Tensor((batch,), "int32"),
        State: T.Tensor((slots, value_heads, dim_k, dim_v), "float32"),
        Output: T.Tensor((batch, value_heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(dim_v, block_V), value_heads, batch, threads=threads) as (bx, by, bz):
            q = T.alloc_fragment((dim_k,), "float32")
            k = T.alloc_fragment((dim_k,), "float32")
            square = T.alloc_fragment((dim_k,), "float32")
            norm_q = T.alloc_fragment((1,), "float32")
            norm_k = T.alloc_fragment((1,), "float32")
            state = T.alloc_fragment((dim_k, block_V), "float32")
            product = T.alloc_fragment((dim_k, block_V), "float32")
            column = T.alloc_fragment((block_V,), "float32")

            T.copy(Q[bz, by // (value_heads // heads), :], q)
            T.copy(K[bz, by // (value_heads // heads), :], k)
            for i in T.Parallel(dim_k):
                square[i] = q[i] * q[i]
            T.reduce_sum(square, norm_q)
            for i in T.Parallel(dim_k):
                square[i] = k[i] * k[i]
            T.reduce_sum(square, norm_k)
            for i in T.Parallel(dim_k):
                q[i] *= T.rsqrt(norm_q[0] + 1e-6) * dim_k**-0.5
                k[i] *= T.rsqrt(norm_k[0] + 1e-6)
            x = A[bz, by] + bias[by]
            softplus = T.if_then_else(x > 20.0, x, T.log(1.0 + T.exp(x)))
            decay = T.exp(-T.exp(A_log[by]) * softplus)
            strength = T.sigmoid(beta[bz, by].astype("float32"))

            T.copy(State[slot[bz], by, :, bx * block_V : (bx + 1) * block_V], state)
            for i, j in T.Parallel(dim_k, block_V):
                state[i, j] *= decay
                product[i, j] = state[i, j] * k[i]
            T.reduce_sum(product, column, dim=0)
            for j in T.Parallel(block_V):
                column[j] = (V[bz, by, bx * block_V + j] - column[j]) * strength
            for i, j in T.Parallel(dim_k, block_V):
                state[i, j] += k[i] * column[j]
                product[i, j] = state[i, j] * q[i]
            T.reduce_sum(product, column, dim=0)
            T.copy(state, State[slot[bz], by, :, bx * block_V : (bx + 1) * block_V])
            T.copy(column, Output[bz, by, bx * block_V : (bx + 1) * block_V])

    return main


def check(batch, heads, value_heads, dim_k, dim_v):
    q, k = (torch.randn(batch, heads, dim_k).bfloat16() for _ in range(2))
    v, a = torch.randn(batch, value_heads, dim_v).bfloat16(), torch.randn(batch, value_heads)
    beta, a_log, bias = torch.randn(batch, value_heads).bfloat16(), torch.rand(value_heads), torch.randn(value_heads)
    pool, slot = torch.randn(batch + 2, value_heads, dim_k, dim_v), torch.randperm(batch + 2)[:batch].int()
    expected = pool.clone()

    def unit(x):
        x = x.float().repeat_interleave(value_heads // heads, 1)
        return x * torch.rsqrt(x.square().sum(2, keepdim=True) + 1e-6)

    decay = (-a_log.exp() * torch.nn.functional.softplus(a + bias)).exp()
    state = expected[slot.long()] * decay[..., None, None]
    error = v.float() - torch.einsum("bhkv,bhk->bhv", state, unit(k))
    state = state + unit(k)[..., None] * (error * beta.float().sigmoid()[..., None])[:, :, None]
    expected[slot.long()] = state
    out = step(heads, value_heads, dim_k, dim_v)(q, k, v, a, beta, a_log, bias, slot, pool)
    torch.testing.assert_close(pool, expected, rtol=1e-4, atol=1e-4)
    want = torch.einsum("bhkv,bhk->bhv", state, unit(q) * dim_k**-0.5)
    torch.testing.assert_close(out.float(), want, rtol=1e-2, atol=1e-2)
