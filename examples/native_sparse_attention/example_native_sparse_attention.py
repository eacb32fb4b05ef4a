"""Native sparse attention, the branch of selected blocks: each query chooses blocks of keys, and its heads attend to those
alone.

What to learn: a loop over data that other data names. The heads that share keys make up the rows of the product, as every
query has blocks of its own; indices come from a tensor, and a count says how many are in use. The choice itself is a kernel
too: block scores from mean keys, and the best of them by rounds of maximum and removal.

Why so: sparse attention saves work only if whole tiles are skipped; blocks of keys are contiguous, so that each is one copy.
The query's own block is always among the chosen, as the causal mask leaves it keys.

Next: add the branches of compressed keys and of the sliding window, and the gates between the three.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LOG2_E = 1.4426950408889634


@tilelang.jit(out_idx=[-1])
def choose_blocks(batch, kv_heads, group, seq_len, dim, block, top, dtype="float16"):
    """Scores of blocks by their mean keys, added over the heads of a group; the query's own block comes first."""
    blocks = T.ceildiv(seq_len, block)

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, kv_heads * group, dim), dtype),
        Means: T.Tensor((batch, blocks, kv_heads, dim), "float32"),
        chosen: T.Tensor((batch, seq_len, kv_heads, top), "int32"),
    ):
        with T.Kernel(seq_len, kv_heads, batch, threads=128) as (t, h, b):
            q = T.alloc_fragment((dim,), "float32")
            part = T.alloc_fragment((blocks, dim), "float32")
            scores = T.alloc_fragment((blocks,), "float32")
            places = T.alloc_fragment((blocks,), "int32")
            largest = T.alloc_fragment((1,), "float32")
            place = T.alloc_fragment((1,), "int32")

            T.clear(q)
            for g in T.serial(group):
                for d in T.Parallel(dim):
                    q[d] += Q[b, t, h * group + g, d]
            for n, d in T.Parallel(blocks, dim):
                part[n, d] = q[d] * Means[b, n, h, d]
            T.reduce_sum(part, scores, dim=1)
            for n in T.Parallel(blocks):
                if n == t // block:
                    scores[n] = T.infinity("float32")
                elif n > t // block:
                    scores[n] = -T.infinity("float32")
            for k in T.serial(top):
                T.reduce_max(scores, largest, dim=0)
                for n in T.Parallel(blocks):
                    places[n] = T.if_then_else(scores[n] == largest[0], n, blocks)
                T.reduce_min(places, place, dim=0)
                chosen[b, t, h, k] = T.if_then_else(largest[0] > -T.infinity("float32"), place[0], -1)
                for n in T.Parallel(blocks):
                    if n == place[0]:
                        scores[n] = -T.infinity("float32")

    return main


@tilelang.jit(out_idx=[-1])
def selected_attention(batch, kv_heads, group, seq_len, dim, block, top, dtype="float16"):
    scale = dim**-0.5 * LOG2_E
    rows = max(group, 16)  # of the smallest product of tensor cores

    @T.prim_func
    def main(
        Q: T.Tensor((batch, seq_len, kv_heads * group, dim), dtype),
        K: T.Tensor((batch, seq_len, kv_heads, dim), dtype),
        V: T.Tensor((batch, seq_len, kv_heads, dim), dtype),
        chosen: T.Tensor((batch, seq_len, kv_heads, top), "int32"),
        Output: T.Tensor((batch, seq_len, kv_heads * group, dim), dtype),
    ):
        with T.Kernel(seq_len, kv_heads, batch, threads=32) as (t, h, b):
            Q_shared = T.alloc_shared((rows, dim), dtype)
            K_shared = T.alloc_shared((block, dim), dtype)
            V_shared = T.alloc_shared((block, dim), dtype)
            scores = T.alloc_fragment((rows, block), "float32")
            weights = T.alloc_fragment((rows, block), dtype)
            acc = T.alloc_fragment((rows, dim), "float32")
            row_max = T.alloc_fragment((rows,), "float32")
            previous_max = T.alloc_fragment((rows,), "float32")
            rescale = T.alloc_fragment((rows,), "float32")
            tile_sum = T.alloc_fragment((rows,), "float32")
            row_sum = T.alloc_fragment((rows,), "float32")

            T.clear(Q_shared)
            T.copy(Q[b, t, h * group : (h + 1) * group, :], Q_shared[:group, :])
            T.clear(acc)
            T.clear(row_sum)
            T.fill(row_max, -1e30)
            for k in T.Pipelined(top, num_stages=1):
                first = chosen[b, t, h, k] * block
                if first >= 0:
                    T.copy(K[b, first : first + block, h, :], K_shared)
                    T.gemm(Q_shared, K_shared, scores, transpose_B=True, clear_accum=True)
                    for i, j in T.Parallel(rows, block):
                        scores[i, j] = T.if_then_else(first + j <= t, scores[i, j] * scale, -T.infinity("float32"))
                    T.copy(row_max, previous_max)
                    T.reduce_max(scores, row_max, dim=1, clear=False)
                    for i in T.Parallel(rows):
                        rescale[i] = T.exp2(previous_max[i] - row_max[i])
                    for i, j in T.Parallel(rows, block):
                        scores[i, j] = T.exp2(scores[i, j] - row_max[i])
                    T.reduce_sum(scores, tile_sum, dim=1)
                    for i in T.Parallel(rows):
                        row_sum[i] = row_sum[i] * rescale[i] + tile_sum[i]
                    for i, j in T.Parallel(rows, dim):
                        acc[i, j] *= rescale[i]
                    T.copy(scores, weights)
                    T.copy(V[b, first : first + block, h, :], V_shared)
                    T.gemm(weights, V_shared, acc)
            for i, j in T.Parallel(rows, dim):
                acc[i, j] /= row_sum[i]
            T.copy(acc[:group, :], Output[b, t, h * group : (h + 1) * group, :])

    return main


def block_means(k: torch.Tensor, block: int) -> torch.Tensor:
    return torch.stack([part.float().mean(1) for part in k.split(block, dim=1)], dim=1)


def main(
    batch: int = 1, kv_heads: int = 2, group: int = 16, seq_len: int = 100, dim: int = 64, block: int = 16, top: int = 3
) -> None:
    q = torch.randn(batch, seq_len, kv_heads * group, dim, device=DEVICE, dtype=torch.float16)
    k, v = (torch.randn(batch, seq_len, kv_heads, dim, device=DEVICE, dtype=torch.float16) for _ in range(2))
    means = block_means(k, block)
    sizes = (batch, kv_heads, group, seq_len, dim, block, top)
    chosen = choose_blocks(*sizes)(q, means)
    out = selected_attention(*sizes)(q, k, v, chosen)

    own = torch.arange(seq_len, device=DEVICE) // block
    others = torch.arange(means.shape[1], device=DEVICE)
    scores = torch.einsum("bthgd,bnhd->bthn", q.float().unflatten(2, (kv_heads, group)), means)
    scores = scores.masked_fill((others == own[:, None])[:, None], torch.inf)
    scores = scores.masked_fill((others > own[:, None])[:, None], -torch.inf)
    best = scores.topk(min(top, len(others)), dim=3)
    expected = torch.where(best.values == -torch.inf, -1, best.indices)
    assert torch.equal(chosen.sort(dim=3).values.long(), expected.sort(dim=3).values)

    visible = (chosen[..., None] == others).any(3).repeat_interleave(block, 3)[..., :seq_len]  # (batch, query, head, key)
    visible &= torch.ones(seq_len, seq_len, dtype=torch.bool, device=DEVICE).tril()[:, None]
    full = visible.permute(0, 2, 1, 3).repeat_interleave(group, 1)
    heads_k, heads_v = (x.float().repeat_interleave(group, 2) for x in (k, v))
    scores = torch.einsum("bihd,bjhd->bhij", q.float(), heads_k) * dim**-0.5
    reference = torch.einsum("bhij,bjhd->bihd", scores.masked_fill(~full, -torch.inf).softmax(3), heads_v)
    torch.testing.assert_close(out.float(), reference, rtol=1e-2, atol=1e-2)
    print("native sparse attention: matches torch")


if __name__ == "__main__":
    main()
