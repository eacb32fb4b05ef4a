"""Retention (RetNet) by chunks: attention without softmax, whose weights decay by ``1 - 2 ** (-5 - head)`` a position.

What to learn: a state that decays. Each head has a constant decay, so that weights within a chunk are powers of it; rows of
the state's part and keys are scaled by how far they are from the chunk's border.

Why so: the powers are exponentials of multiples of one logarithm, computed where they are used, since a table would have to
be read. Every exponent is at most zero, so that nothing overflows.

Next: ``linear_attention`` is the same without decay, ``mamba2_chunk_scan`` has decays that depend on the data.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def retention(batch, heads, seq_len, dim_k, dim_v, chunk=64, block_V=64, dtype="float16"):
    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, heads, dim_k), dtype),
        K: T.Tensor((batch, seq_len, heads, dim_k), dtype),
        V: T.Tensor((batch, seq_len, heads, dim_v), dtype),
        Output: T.Tensor((batch, seq_len, heads, dim_v), dtype),
    ):
        with T.Kernel(T.ceildiv(dim_v, block_V), heads, batch, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((chunk, dim_k), dtype)
            K_shared = T.alloc_shared((chunk, dim_k), dtype)
            K_decayed = T.alloc_shared((chunk, dim_k), dtype)
            V_shared = T.alloc_shared((chunk, block_V), dtype)
            scores = T.alloc_fragment((chunk, chunk), "float32")
            weights = T.alloc_shared((chunk, chunk), dtype)
            state = T.alloc_fragment((dim_k, block_V), "float32")
            state_shared = T.alloc_shared((dim_k, block_V), dtype)
            out = T.alloc_fragment((chunk, block_V), "float32")

            log_decay = T.log2(1 - T.exp2(-5.0 - by))
            T.clear(state)
            for c in T.Pipelined(T.ceildiv(seq_len, chunk), num_stages=2):
                T.copy(Q[bz, c * chunk : (c + 1) * chunk, by, :], Q_shared)
                T.copy(K[bz, c * chunk : (c + 1) * chunk, by, :], K_shared)
                T.copy(V[bz, c * chunk : (c + 1) * chunk, by, bx * block_V : (bx + 1) * block_V], V_shared)

                # What the chunks before gave, as the first row of this chunk sees it; each row below decays it further.
                T.copy(state, state_shared)
                T.gemm(Q_shared, state_shared, out, clear_accum=True)
                for i, j in T.Parallel(chunk, block_V):
                    out[i, j] *= T.exp2((i + 1) * log_decay)
                T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(chunk, chunk):
                    scores[i, j] = T.if_then_else(i >= j, scores[i, j] * T.exp2((i - j) * log_decay), 0)
                T.copy(scores, weights)
                T.gemm(weights, V_shared, out)
                T.copy(out, Output[bz, c * chunk : (c + 1) * chunk, by, bx * block_V : (bx + 1) * block_V])

                for i, j in T.Parallel(chunk, dim_k):
                    K_decayed[i, j] = K_shared[i, j] * T.exp2((chunk - 1 - i) * log_decay)
                for i, j in T.Parallel(dim_k, block_V):
                    state[i, j] *= T.exp2(chunk * log_decay)
                T.gemm(K_decayed, V_shared, state, transpose_A=True)

    return main


def main(batch: int = 1, heads: int = 3, seq_len: int = 250, dim_k: int = 64, dim_v: int = 96) -> None:
    q, k = (torch.randn(batch, seq_len, heads, dim_k, device=DEVICE, dtype=torch.float16) * 0.2 for _ in range(2))
    v = torch.randn(batch, seq_len, heads, dim_v, device=DEVICE, dtype=torch.float16)
    decay = 1 - 2.0 ** (-5.0 - torch.arange(heads, device=DEVICE))
    out = retention(batch, heads, seq_len, dim_k, dim_v)(q, k, v)
    distance = torch.arange(seq_len, device=DEVICE)[:, None] - torch.arange(seq_len, device=DEVICE)
    weights = (decay[:, None, None] ** distance.clamp(min=0)).tril()
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), k.float()) * weights
    torch.testing.assert_close(out.float(), torch.einsum("bhij,bjhd->bihd", scores, v.float()), rtol=2e-2, atol=2e-2)
    print("retention: matches torch")


if __name__ == "__main__":
    main()
