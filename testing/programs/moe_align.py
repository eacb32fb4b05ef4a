"""Tokens sorted by expert, each expert's padded to whole tiles: counts, offsets, and a stable place for every token."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"tokens": 70, "experts": 12, "topk": 3}
LARGE = {"align": {"experts": 256, "topk": 8}}


@tilelang.jit
def align(experts, topk, block=16, threads=128):
    tokens = T.dynamic("tokens")
    capacity = T.dynamic("capacity")
    tiles = T.dynamic("tiles")

    @T.prim_func
    def main(
        expert_of: T.Tensor((tokens, topk), "int32"),
        sorted_slots: T.Tensor((capacity,), "int32"),
        tile_expert: T.Tensor((tiles,), "int32"),
        total: T.Tensor((1,), "int32"),
    ):
        counts = T.alloc_global((experts,), "int32")
        starts = T.alloc_global((experts,), "int32")

        # Each expert's count, in a block of its own.
        with T.Kernel(experts, threads=threads) as e:
            matches = T.alloc_reducer((1,), "int32", op="sum")
            count = T.alloc_fragment((1,), "int32")
            T.reducer_init(matches)
            for t in T.serial(T.ceildiv(tokens, threads)):
                for i in T.Parallel(threads):
                    token = t * threads + i
                    if token < tokens:
                        for k in T.serial(topk):
                            if expert_of[token, k] == e:
                                T.reducer_update(matches[0], 1)
            T.finalize_reducer(matches, count)
            counts[e] = count[0]

        with T.Kernel(1, threads=threads):
            padded = T.alloc_shared((experts,), "int32")
            ends = T.alloc_shared((experts,), "int32")
            for e in T.Parallel(experts):
                padded[e] = T.ceildiv(counts[e], block)
            T.cumsum(padded, ends)
            for e in T.Parallel(experts):
                starts[e] = (ends[e] - padded[e]) * block
            for slot in T.Parallel(capacity):
                sorted_slots[slot] = tokens * topk
            total[0] = ends[experts - 1] * block

        with T.Kernel(experts, threads=threads) as e:
            slots = T.alloc_shared((threads,), "int32")
            ranks = T.alloc_shared((threads,), "int32")
            place = T.alloc_var("int32", init=0)
            first = starts[e]
            for t in T.serial(T.ceildiv(tokens * topk, threads)):
                for i in T.Parallel(threads):
                    slot = t * threads + i
                    slots[i] = 0
                    if slot < tokens * topk:
                        slots[i] = T.if_then_else(expert_of[slot // topk, slot % topk] == e, 1, 0)
                T.cumsum(slots, ranks)
                for i in T.Parallel(threads):
                    if slots[i] == 1:
                        sorted_slots[first + place + ranks[i] - 1] = t * threads + i
                place += ranks[threads - 1]
            for i in T.serial(T.ceildiv(counts[e], block)):
                tile_expert[first // block + i] = e

    return main


def check(tokens, experts, topk, block=16):
    expert_of = torch.stack([torch.randperm(experts)[:topk] for _ in range(tokens)]).int()
    capacity = tokens * topk + experts * (block - 1)
    slots, tiles, total = torch.empty(capacity).int(), torch.full((-(-capacity // block),), -1).int(), torch.empty(1).int()
    align(experts, topk, block)(expert_of, slots, tiles, total)
    expected, owners = [], []
    for e in range(experts):
        mine = (expert_of.flatten() == e).nonzero().flatten().tolist()
        mine += [tokens * topk] * (-len(mine) % block)
        expected += mine
        owners += [e] * (len(mine) // block)
    assert total.item() == len(expected)
    assert slots[: len(expected)].tolist() == expected and tiles[: len(owners)].tolist() == owners
