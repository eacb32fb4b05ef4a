"""Causal linear attention by chunks: inside a chunk as masked products, between chunks through a state of (dim, dim).

What to learn: a recurrence by chunks. Without a softmax, attention is a running state ``S += k v``; within a chunk it is a
masked product of tiles, and what came before is one product with the state.

Why so: token by token the state would be updated by outer products, without tensor cores. A chunk of 64 tokens costs one
small square of scores and three products. The state is float32 in registers; a float16 copy goes through shared memory,
where the product reads it.

Next: ``retention`` decays the state, ``mamba2_chunk_scan`` decays it by data, ``gated_delta_net`` corrects it.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-2, -1])
def linear_attention(batch, heads, seq_len, dim_k, dim_v, chunk=64, block_V=64, dtype="float16"):
    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, heads, dim_k), dtype),
        K: T.Tensor((batch, seq_len, heads, dim_k), dtype),
        V: T.Tensor((batch, seq_len, heads, dim_v), dtype),
        Output: T.Tensor((batch, seq_len, heads, dim_v), dtype),
        State: T.Tensor((batch, heads, dim_k, dim_v), "float32"),
    ):
        with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((chunk, dim_k), dtype)
            K_shared = T.alloc_shared((chunk, dim_k), dtype)
            V_shared = T.alloc_shared((chunk, block_V), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_shared((chunk, chunk), dtype)
            state = T.alloc_fragment((dim_k, block_V), "float32")
            state_shared = T.alloc_shared((dim_k, block_V), dtype)
            out = T.alloc_fragment((chunk, block_V), "float32")

            T.clear(state)
            for c in T.Pipelined(T.ceildiv(seq_len, chunk), num_stages=2):
                T.copy(Q[bz, c * chunk : (c + 1) * chunk, by, :], Q_shared)
                T.copy(K[bz, c * chunk : (c + 1) * chunk, by, :], K_shared)
                T.copy(V[bz, c * chunk : (c + 1) * chunk, by, bx * block_V : (bx + 1) * block_V], V_shared)

                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    scores[i, j] = T.if_then_else(i >= j, scores[i, j], 0)
                T.copy(scores, weights)
                T.copy(state, state_shared)
                T.gemm(weights, V_shared, out, clear_accum=True)
                T.gemm(Q_shared, state_shared, out)
                T.gemm(K_shared, V_shared, state, transpose_A=True)
                T.copy(out, Output[bz, c * chunk : (c + 1) * chunk, by, bx * block_V : (bx + 1) * block_V])
            T.copy(state, State[bz, by, :, bx * block_V : (bx + 1) * block_V])

    return main


def main(batch: int = 1, heads: int = 2, seq_len: int = 200, dim_k: int = 64, dim_v: int = 128) -> None:
    q, k = (torch.randn(batch, seq_len, heads, dim_k, device=DEVICE, dtype=torch.float16) * 0.2 for _ in range(2))
    v = torch.randn(batch, seq_len, heads, dim_v, device=DEVICE, dtype=torch.float16)
    out, state = linear_attention(batch, heads, seq_len, dim_k, dim_v)(q, k, v)
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()).tril()
    torch.testing.assert_close(out.float(), torch.einsum("bhij,bjhd->bihd", scores, v.float()), rtol=2e-2, atol=2e-2)
    torch.testing.assert_close(state, torch.einsum("bihk,bihv->bhkv", k.float(), v.float()), rtol=2e-2, atol=2e-2)
    print("linear attention: matches torch")


if __name__ == "__main__":
    main()
