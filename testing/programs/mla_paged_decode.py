"""Multi-latent attention of one new token over a paged cache, the pages shared out among blocks and combined afterwards."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 2, "heads": 20, "dim": 64, "rope": 16, "page": 32, "lengths": (70, 33), "splits": 2}
LARGE = {"paged_decode": {"batch": 64, "heads": 128, "dim": 512, "rope": 64, "page": 32, "splits": 4}}
LOG2_E = 1.44269504


@tilelang.jit(out_idx=[-1])
def paged_decode(batch, heads, dim, rope, page, splits, block_H=32, dtype="bfloat16"):
    pages = T.dynamic("pages")
    longest = T.dynamic("longest")
    scale = (dim + rope) ** -0.5 * LOG2_E

    @T.prim_func
    def main(
        Q: T.Tensor((batch, heads, dim + rope), dtype),
        Cache: T.Tensor((pages, page, dim + rope), dtype),
        table: T.Tensor((batch, longest), "int32"),
        lengths: T.Tensor((batch,), "int32"),
        Output: T.Tensor((batch, heads, dim), dtype),
    ):
        partial = T.alloc_global((batch, splits, heads, dim), "float32")
        partial_lse = T.alloc_global((batch, splits, heads), "float32")

        with T.Kernel(T.ceildiv(heads, block_H), batch, splits, threads=128) as (bx, by, bz):
            Q_shared = T.alloc_shared((block_H, dim + rope), dtype)
            KV_shared = T.alloc_shared((page, dim + rope), dtype)
            scores = T.alloc_fragment((block_H, page), "float32")
            weights = T.alloc_shared((block_H, page), dtype)
            acc = T.alloc_fragment((block_H, dim), "float32")
            row_max = T.alloc_fragment((block_H,), "float32")
            last_max = T.alloc_fragment((block_H,), "float32")
            rescale = T.alloc_fragment((block_H,), "float32")
            tile_sum = T.alloc_fragment((block_H,), "float32")
            row_sum = T.alloc_fragment((block_H,), "float32")

            T.copy(Q[by, bx * block_H, 0], Q_shared)
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            length = lengths[by]
            used = T.ceildiv(length, page)
            share = T.ceildiv(used, splits)
            for p in T.Pipelined(T.min(share, T.max(used - bz * share, 0)), num_stages=2):
                index = bz * share + p
                T.copy(Cache[table[by, index], :, :], KV_shared)
                T.gemm(Q_shared, KV_shared, scores, transpose_B=True, clear_accum=True, policy=T.GemmWarpPolicy.FullCol)
                for i, j in T.Parallel(block_H, page):
                    scores[i, j] = T.if_then_else(index * page + j < length, scores[i, j] * scale, -1e30)
                T.copy(row_max, last_max)
                T.reduce_max(scores, row_max, dim=1, clear=False)
                for i in T.Parallel(block_H):
                    rescale[i] = T.exp2(last_max[i] - row_max[i])
                for i, j in T.Parallel(block_H, page):
                    scores[i, j] = T.exp2(scores[i, j] - row_max[i])
                T.reduce_sum(scores, tile_sum, dim=1)
                T.copy(scores, weights)
                for i in T.Parallel(block_H):
                    row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                for i, j in T.Parallel(block_H, dim):
                    acc[i, j] *= rescale[i]
                T.gemm(weights, KV_shared[:, :dim], acc, policy=T.GemmWarpPolicy.FullCol)
            for i, j in T.Parallel(block_H, dim):
                acc[i, j] = T.if_then_else(row_sum[i] > 0, acc[i, j] / row_sum[i], 0)
            for i in T.Parallel(block_H):
                row_max[i] = T.if_then_else(row_sum[i] > 0, T.log2(row_sum[i]) + row_max[i], -T.infinity("float32"))
            T.copy(acc, partial[by, bz, bx * block_H, 0])
            T.copy(row_max, partial_lse[by, bz, bx * block_H])

        with T.Kernel(heads, batch, threads=128) as (h, b):
            lse_max = T.alloc_var("float32", init=-T.infinity("float32"))
            total = T.alloc_var("float32", init=0.0)
            acc = T.alloc_fragment((dim,), "float32")
            T.clear(acc)
            for s in T.serial(splits):
                lse_max = T.max(lse_max, partial_lse[b, s, h])
            for s in T.serial(splits):
                weight = T.exp2(partial_lse[b, s, h] - lse_max)
                total += weight
                for j in T.Parallel(dim):
                    acc[j] += partial[b, s, h, j] * weight
            for j in T.Parallel(dim):
                Output[b, h, j] = acc[j] / total

    return main


def check(batch, heads, dim, rope, page, lengths, splits):
    used = [-(-length // page) for length in lengths]
    cache = torch.randn(sum(used) + 3, page, dim + rope).bfloat16()
    order = torch.randperm(sum(used) + 3)
    table = torch.zeros(batch, max(used)).int()
    for b, count in enumerate(used):
        table[b, :count] = order[sum(used[:b]) : sum(used[:b]) + count]
    q = torch.randn(batch, heads, dim + rope).bfloat16()
    out = paged_decode(batch, heads, dim, rope, page, splits)(q, cache, table, torch.tensor(lengths).int())
    for b, length in enumerate(lengths):
        kv = cache[table[b, : used[b]].long()].flatten(0, 1)[:length].float()
        weights = (q[b].float() @ kv.T * (dim + rope) ** -0.5).softmax(1)
        torch.testing.assert_close(out[b].float(), weights @ kv[:, :dim], rtol=2e-2, atol=2e-2)
