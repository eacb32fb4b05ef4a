"""Engram: hashes of the last tokens pick rows of several tables of embeddings, which a gate mixes into the hidden state."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"tokens": 19, "orders": 2, "heads": 3, "width": 32, "hidden": 96}
LARGE = {"hashes": {"orders": 2, "heads": 8}, "gather_and_mix": {"tables": 16, "width": 128, "hidden": 4096}}
PRIMES = (1009, 1013, 1019, 1021, 1031, 1033, 1039, 1049, 1051, 1061, 1063, 1069, 1087, 1091, 1093, 1097)


@tilelang.jit(out_idx=[-1])
def hashes(orders, heads, threads=128):
    """Of the last two, three, … tokens, each head a hash: odd multiples combined by exclusive or, modulo the table's length."""
    tokens = T.dynamic("tokens")
    sizes = [PRIMES[n * heads + h] for n in range(orders) for h in range(heads)]

    @T.prim_func
    def main(
        ids: T.Tensor((tokens,), "int64"),
        document: T.Tensor((tokens,), "int32"),
        multipliers: T.Tensor((orders + 1,), "int64"),
        Hash: T.Tensor((tokens, orders * heads), "int32"),
    ):
        with T.Kernel(T.ceildiv(tokens, threads), threads=threads) as bx:
            for i in T.Parallel(threads):
                t = bx * threads + i
                if t < tokens:
                    mixed = T.alloc_var("int64", init=0)
                    for n in T.unroll(orders + 1):
                        inside = t >= n and document[t - n] == document[t]
                        token = T.if_then_else(inside, ids[t - n], T.int64(0))
                        mixed = mixed ^ (token * multipliers[n])
                        if n > 0:
                            for h in T.unroll(heads):
                                Hash[t, (n - 1) * heads + h] = T.cast(mixed % sizes[(n - 1) * heads + h], "int32")

    return main


@tilelang.jit(out_idx=[-1])
def gather_and_mix(tables, width, hidden, threads=128, dtype="bfloat16"):
    tokens, rows = T.dynamic("tokens, rows")

    @T.prim_func
    def main(
        Hash: T.Tensor((tokens, tables), "int32"),
        offsets: T.Tensor((tables,), "int32"),
        Embedding: T.Tensor((rows, width), dtype),
        State: T.Tensor((tokens, hidden), dtype),
        Key: T.Tensor((hidden, tables * width), dtype),
        Value: T.Tensor((tokens, hidden), dtype),
        Output: T.Tensor((tokens, hidden), dtype),
    ):
        with T.Kernel(tokens, threads=threads) as t:
            e = T.alloc_shared((tables, width), dtype)
            dots = T.alloc_fragment((hidden,), "float32")
            dot = T.alloc_fragment((1,), "float32")
            for n, j in T.Parallel(tables, width):
                e[n, j] = Embedding[offsets[n] + Hash[t, n], j]
            for d in T.Parallel(hidden):
                dots[d] = 0
                for n, j in T.grid(tables, width):
                    dots[d] += Key[d, n * width + j] * T.cast(e[n, j], "float32")
                dots[d] *= State[t, d]
            T.reduce_sum(dots, dot)
            gate = T.sigmoid(dot[0] / T.sqrt(T.float32(hidden)))
            for d in T.Parallel(hidden):
                Output[t, d] = State[t, d] + gate * Value[t, d]

    return main


def check(tokens, orders, heads, width, hidden):
    ids, document = torch.randint(0, 1 << 40, (tokens,)), torch.arange(tokens).int() // 7
    multipliers = torch.randint(0, 1 << 62, (orders + 1,)) * 2 + 1
    found = hashes(orders, heads)(ids, document, multipliers)
    expected = torch.empty(tokens, orders * heads).int()
    for t in range(tokens):
        mixed = torch.zeros((), dtype=torch.int64)
        for n in range(orders + 1):
            if t >= n and document[t - n] == document[t]:
                mixed = mixed ^ (ids[t - n] * multipliers[n])
            for h in range(heads if n else 0):
                column = (n - 1) * heads + h
                expected[t, column] = mixed % PRIMES[column]
    assert torch.equal(found, expected)

    tables = orders * heads
    offsets = torch.tensor([0, *PRIMES[: tables - 1]]).cumsum(0).int()
    embedding = torch.randn(sum(PRIMES[:tables]), width).bfloat16()
    state, value = (torch.randn(tokens, hidden).bfloat16() for _ in range(2))
    key = (torch.randn(hidden, tables * width) * 0.1).bfloat16()
    out = gather_and_mix(tables, width, hidden)(found, offsets, embedding, state, key, value)
    rows = embedding.float()[(found + offsets).long()].flatten(1)
    gate = ((rows @ key.float().T * state.float()).sum(1) / hidden**0.5).sigmoid()
    torch.testing.assert_close(out.float(), state.float() + gate[:, None] * value.float(), rtol=1e-2, atol=1e-2)
