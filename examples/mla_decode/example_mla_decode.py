"""Multi-head latent attention, decoding: all heads share one compressed key that is also the value, plus a rotary part.

What to learn: one tile that is both key and value. All heads share a compressed row of the cache; a tile of it is multiplied
by the queries and, after the softmax, by the weights. A second, small product adds the rotary part to the same accumulator.

Why so: reading the cache once in place of twice is the point of latent attention when decoding. Heads are the rows of the
tile. Its 512 columns are a large accumulator: 256 threads and ``FullCol`` spread it over warps by columns.

Next: split the cache over blocks as ``flash_decoding`` does.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def mla_decode(batch, heads, seq_len, dim, rope_dim, block_H=32, block_N=64, dtype="float16"):
    scale = (dim + rope_dim) ** -0.5 * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim), dtype),
        Q_rope: T.Tensor((batch, heads, rope_dim), dtype),
        KV: T.Tensor((batch, seq_len, dim), dtype),
        K_rope: T.Tensor((batch, seq_len, rope_dim), dtype),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(heads, block_H), batch, threads=256) as (bx, by):
            Q_shared = T.alloc_shared((block_H, dim), dtype)
            Q_rope_shared = T.alloc_shared((block_H, rope_dim), dtype)
            KV_shared = T.alloc_shared((block_N, dim), dtype)
            K_rope_shared = T.alloc_shared((block_N, rope_dim), dtype)
            scores = T.alloc_fragment((block_H, block_N), "float32")
            weights = T.alloc_shared((block_H, block_N), dtype)
            acc = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            previous_max = T.alloc_fragment((block_H,), "float32")
            rescale = T.alloc_fragment((block_H,), "float32")
            tile_sum = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")

            T.use_swizzle(10)
            T.copy(Q[by, bx * block_H, 0], Q_shared)
            T.copy(Q_rope[by, bx * block_H, 0], Q_rope_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -T.infinity("float32"))
            for k in T.Pipelined(T.ceildiv(seq_len, block_N), num_stages=2):
                T.copy(KV[by, k * block_N, 0], KV_shared)
                T.copy(K_rope[by, k * block_N, 0], K_rope_shared)
                T.gemm(Q_shared, KV_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                T.gemm(Q_rope_shared, K_rope_shared, scores, transpose_B=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.if_then_else(k * block_N + j < seq_len, scores[i, j] * scale, -T.infinity("float32"))
                T.copy(row_max, previous_max)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    rescale[i] = T.exp2(previous_max[i] - row_max[i])
                for i, j in T.Parallel(block_H, block_N):
                    scores[i, j] = T.exp2(scores[i, j] - row_max[i])
                T.reduce_sum(scores, tile_sum, dim=1)
                T.copy(scores, weights)
                for i in T.Parallel(block_H):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                for i, j in T.Parallel(block_H, dim):
                    acc[i, j] *= rescale[i]
                T.gemm(weights, KV_shared, acc, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc, Output[by, bx * block_H, 0])

    return main


def main(batch: int = 1, heads: int = 64, seq_len: int = 500, dim: int = 512, rope_dim: int = 64) -> None:
    def tensor(*shape):
        return torch.randn(*shape, device=DEVICE, dtype=torch.float16)

    q, q_rope = tensor(batch, heads, dim), tensor(batch, heads, rope_dim)
    kv, k_rope = tensor(batch, seq_len, dim), tensor(batch, seq_len, rope_dim)
    out = mla_decode(batch, heads, seq_len, dim, rope_dim)(q, q_rope, kv, k_rope)
    scores = torch.einsum("bhd,bnd->bhn", torch.cat([q, q_rope], 2).float(), torch.cat([kv, k_rope], 2).float())
    weights = (scores * (dim + rope_dim) ** -0.5).softmax(dim=2)
    torch.testing.assert_close(out.float(), torch.einsum("bhn,bnd->bhd", weights, kv.float()), rtol=1e-2, atol=1e-2)
    print("MLA decode: matches torch")


if __name__ == "__main__":
    main()
