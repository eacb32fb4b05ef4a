"""Gated delta net by chunks: a memory that forgets by a gate, and replaces what it held for a key by a new value.

What to learn: a triangular system solved inside of a block. Within a chunk each token's correction depends on those before
it; the matrix that relates them is unit lower triangular, and forward substitution, a row at a time in shared memory,
inverts it. All else is products of tiles, and the state (dim_k, dim_v) stays in registers from chunk to chunk.

Why so: token by token the recurrence has no products for tensor cores at all. With the inverse T, the corrections of a whole
chunk are ``T (v - k S)``, weighted by the gates; chunks are few, so their order costs little, and heads and columns of
values run beside each other in blocks of their own.

Next: move the inverse into a kernel of its own, over all chunks at once; ``testing/programs/gated_delta_decode.py`` is one
token's step.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-2, -1])
def gated_delta_net(batch, heads, seq_len, dim_k, dim_v, chunk=64, block_V=64, dtype="float16"):
    """``gate`` has the logarithms of the decays, ``beta`` how much of the old value a token replaces."""

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, heads, dim_k), dtype),
        K: T.Tensor((batch, seq_len, heads, dim_k), dtype),
        V: T.Tensor((batch, seq_len, heads, dim_v), dtype),
        gate: T.Tensor((batch, seq_len, heads), "float32"),
        beta: T.Tensor((batch, seq_len, heads), "float32"),
        Output: T.Tensor((batch, seq_len, heads, dim_v), dtype),
        State: T.Tensor((batch, heads, dim_k, dim_v), "float32"),
    ):
        with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((chunk, dim_k), dtype)
            K_shared = T.alloc_shared((chunk, dim_k), dtype)
            V_shared = T.alloc_shared((chunk, block_V), dtype)
            K_decayed = T.alloc_shared((chunk, dim_k), dtype)
            state_shared = T.alloc_shared((dim_k, block_V), dtype)
            new_values = T.alloc_shared((chunk, block_V), dtype)
            inverse = T.alloc_shared((chunk, chunk), "float32")
            inverse_half = T.alloc_shared((chunk, chunk), dtype)
            total = T.alloc_shared((chunk,), "float32")
            strength = T.alloc_shared((chunk,), "float32")
            relation = T.alloc_fragment((chunk, chunk), "float32")
            relation_shared = T.alloc_shared((chunk, chunk), "float32")
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_shared((chunk, chunk), dtype)
            error = T.alloc_fragment((chunk, block_V), "float32")
            error_shared = T.alloc_shared((chunk, block_V), dtype)
            out = T.alloc_fragment((chunk, block_V), "float32")
            state = T.alloc_fragment((dim_k, block_V), "float32")

            T.clear(state)
            for c in T.serial(T.ceildiv(seq_len, chunk)):
                T.copy(Q[bz, c * chunk : (c + 1) * chunk, by, :], Q_shared)
                T.copy(K[bz, c * chunk : (c + 1) * chunk, by, :], K_shared)
                T.copy(V[bz, c * chunk : (c + 1) * chunk, by, bx * block_V : (bx + 1) * block_V], V_shared)
                T.copy(beta[bz, c * chunk : (c + 1) * chunk, by], strength)
                T.copy(gate[bz, c * chunk : (c + 1) * chunk, by], total)
                T.cumsum(total)
                T.copy(state, state_shared)

                # The inverse of I + A, with A[i, j] the weight with which token i feels the correction of token j.
                T.gemm(K_shared, K_shared, relation, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    relation_shared[i, j] = T.if_then_else(i > j, relation[i, j] * strength[i] * T.exp(total[i] - total[j]), 0)
                for i, j in T.Parallel(chunk, chunk):
                    inverse[i, j] = T.if_then_else(i == j, 1, 0)
                for i in T.serial(1, chunk):
                    for j in T.Parallel(chunk):
                        if j < i:
                            for k in T.serial(i):
                                inverse[i, j] -= relation_shared[i, k] * inverse[k, j]
                T.copy(inverse, inverse_half)

                # What each token must still learn, and the corrections.
                T.gemm(K_shared, state_shared, error, clear_accum=True)
                for i, j in T.Parallel(chunk, block_V):
                    error_shared[i, j] = (V_shared[i, j] - error[i, j] * T.exp(total[i])) * strength[i]
                T.gemm(inverse_half, error_shared, error, clear_accum=True)
                T.copy(error, new_values)

                T.gemm(Q_shared, state_shared, out, clear_accum=True)
                for i, j in T.Parallel(chunk, block_V):
                    out[i, j] *= T.exp(total[i])
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    weights[i, j] = T.if_then_else(i >= j, scores[i, j] * T.exp(total[i] - total[j]), 0)
                T.gemm(weights, new_values, out)
                T.copy(out, Output[bz, c * chunk : (c + 1) * chunk, by, bx * block_V : (bx + 1) * block_V])

                for i, j in T.Parallel(chunk, dim_k):
                    K_decayed[i, j] = K_shared[i, j] * T.exp(total[chunk - 1] - total[i])
                for i, j in T.Parallel(dim_k, block_V):
                    state[i, j] *= T.exp(total[chunk - 1])
                T.gemm(K_decayed, new_values, state, transpose_A=True)
            T.copy(state, State[bz, by, 0, bx * block_V])

    return main


def reference(q, k, v, gate, beta):
    batch, seq_len, heads, dim_k = q.shape
    state = torch.zeros(batch, heads, dim_k, v.shape[3], device=q.device)
    out = torch.empty_like(v)
    for t in range(seq_len):
        state = state * gate[:, t].exp()[..., None, None]
        error = (v[:, t] - torch.einsum("bhk,bhkv->bhv", k[:, t], state)) * beta[:, t, :, None]
        state = state + torch.einsum("bhk,bhv->bhkv", k[:, t], error)
        out[:, t] = torch.einsum("bhk,bhkv->bhv", q[:, t], state)
    return out, state


def main(batch: int = 1, heads: int = 2, seq_len: int = 150, dim_k: int = 64, dim_v: int = 96, chunk: int = 64) -> None:
    q, k = (torch.randn(batch, seq_len, heads, dim_k, device=DEVICE) for _ in range(2))
    q, k = (torch.nn.functional.normalize(x, dim=3).half() for x in (q, k))
    v = torch.randn(batch, seq_len, heads, dim_v, device=DEVICE, dtype=torch.float16)
    gate = -torch.rand(batch, seq_len, heads, device=DEVICE) * 0.2
    beta = torch.rand(batch, seq_len, heads, device=DEVICE)
    out, state = gated_delta_net(batch, heads, seq_len, dim_k, dim_v, chunk)(q, k, v, gate, beta)
    expected_out, expected_state = reference(q.float(), k.float(), v.float(), gate, beta)
    torch.testing.assert_close(out.float(), expected_out, rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(state, expected_state, rtol=2e-2, atol=2e-2)
    print("gated delta net: matches torch")


if __name__ == "__main__":
    main()
