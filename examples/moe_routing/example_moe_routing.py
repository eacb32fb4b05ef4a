"""Which experts a token goes to: groups of experts compete first, then the experts of the best groups.

What to learn: top-k without sorting. A round takes the maximum of a row, finds where it stands, and removes it; several
rounds are cheap as the row stays in registers. Where two scores are equal the lower index wins: the smallest of the
positions that hold the maximum is taken, so that the result does not depend on which thread finds it.

Why so: with a few hundred experts a row is small, and a block handles several rows at once, so that reductions of different
rows overlap. The bias only steers the choice (it balances load); the weights come from the scores without it.

Next: ``fused_moe`` uses the choice; count tokens for each expert with ``T.atomic_add`` on a histogram.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-2, -1])
def route(experts, groups, top_groups, topk, block_M=8, scale=2.5):
    tokens = T.dynamic("tokens")
    members = experts // groups

    @T.prim_func
    def main(
        logits: T.Tensor((tokens, experts), "float32"),
        bias: T.Tensor((experts,), "float32"),
        indices: T.Tensor((tokens, topk), "int32"),
        weights: T.Tensor((tokens, topk), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block_M), threads=128) as bx:
            scores = T.alloc_shared((block_M, experts), "float32")
            biased = T.alloc_fragment((block_M, experts), "float32")
            by_group = T.reshape(biased, (block_M, groups, members))
            rest = T.alloc_fragment((block_M, groups, members), "float32")
            best = T.alloc_fragment((block_M, groups), "float32")
            second = T.alloc_fragment((block_M, groups), "float32")
            where = T.alloc_fragment((block_M, experts), "int32")
            where_group = T.alloc_fragment((block_M, groups), "int32")
            chosen = T.alloc_fragment((block_M, groups), "int32")
            largest = T.alloc_fragment((block_M,), "float32")
            position = T.alloc_fragment((block_M,), "int32")
            picked = T.alloc_shared((block_M, topk), "int32")
            total = T.alloc_fragment((block_M,), "float32")

            T.copy(logits[bx * block_M, 0], scores)
            for i, e in T.Parallel(block_M, experts):
                scores[i, e] = T.sigmoid(scores[i, e])
                biased[i, e] = scores[i, e] + bias[e]

            # A group is as good as its two best experts together; of two equal ones only one is the best.
            T.reduce_max(by_group, best, dim=2)
            for i, g, m in T.Parallel(block_M, groups, members):
                where[i, g * members + m] = T.if_then_else(by_group[i, g, m] == best[i, g], m, members)
            where_by_group = T.reshape(where, (block_M, groups, members))
            T.reduce_min(where_by_group, where_group, dim=2)
            for i, g, m in T.Parallel(block_M, groups, members):
                rest[i, g, m] = T.if_then_else(m == where_group[i, g], -T.infinity("float32"), by_group[i, g, m])
            T.reduce_max(rest, second, dim=2)
            for i, g in T.Parallel(block_M, groups):
                best[i, g] += second[i, g]
            T.clear(chosen)
            for _ in T.serial(top_groups):
                T.reduce_max(best, largest, dim=1)
                for i, g in T.Parallel(block_M, groups):
                    where_group[i, g] = T.if_then_else(best[i, g] == largest[i], g, groups)
                T.reduce_min(where_group, position, dim=1)
                for i, g in T.Parallel(block_M, groups):
                    if g == position[i]:
                        chosen[i, g] = 1
                        best[i, g] = -T.infinity("float32")
            for i, g, m in T.Parallel(block_M, groups, members):
                if chosen[i, g] == 0:
                    by_group[i, g, m] = -T.infinity("float32")

            T.clear(total)
            for k in T.serial(topk):
                T.reduce_max(biased, largest, dim=1)
                for i, e in T.Parallel(block_M, experts):
                    where[i, e] = T.if_then_else(biased[i, e] == largest[i], e, experts)
                T.reduce_min(where, position, dim=1)
                for i, e in T.Parallel(block_M, experts):
                    if e == position[i]:
                        biased[i, e] = -T.infinity("float32")
                for i in T.Parallel(block_M):
                    picked[i, k] = position[i]
                    total[i] += scores[i, position[i]]
            for i, k in T.Parallel(block_M, topk):
                if bx * block_M + i < tokens:
                    indices[bx * block_M + i, k] = picked[i, k]
                    weights[bx * block_M + i, k] = scores[i, picked[i, k]] / total[i] * scale

    return main


def reference(logits, bias, groups, top_groups, topk, scale=2.5):
    scores = logits.sigmoid()
    biased = scores + bias
    by_group = biased.unflatten(1, (groups, -1))
    order = by_group.topk(2, dim=2).values.sum(2).sort(dim=1, descending=True, stable=True).indices[:, :top_groups]
    kept = torch.zeros(len(logits), groups, dtype=torch.bool, device=logits.device).scatter(1, order, True)
    biased = by_group.masked_fill(~kept[..., None], -torch.inf).flatten(1)
    indices = biased.sort(dim=1, descending=True, stable=True).indices[:, :topk]
    weights = scores.gather(1, indices)
    return indices, weights / weights.sum(1, keepdim=True) * scale


def main(tokens: int = 100, experts: int = 256, groups: int = 8, top_groups: int = 4, topk: int = 8) -> None:
    # Few different logits: most rows have ties, within groups and between them.
    logits = torch.randint(-4, 5, (tokens, experts), device=DEVICE).float() / 2
    bias = torch.randint(0, 3, (experts,), device=DEVICE).float() / 8
    indices, weights = route(experts, groups, top_groups, topk)(logits, bias)
    expected_indices, expected_weights = reference(logits, bias, groups, top_groups, topk)
    torch.testing.assert_close(weights, expected_weights, rtol=1e-5, atol=1e-5)
    assert torch.equal(indices.long(), expected_indices)
    print("routing of experts: matches torch")


if __name__ == "__main__":
    main()
