"""Rotary embedding after a normalisation of queries and keys, with halves rotated or neighbours, in place in a packed
tensor.
"""

import torch

import tilelang
import tilelang.language as T

SMALL = {"tokens": 21, "heads": 6, "kv_heads": 2, "dim": 64, "rotated": 32}
LARGE = {"rotary": {"heads": 64, "kv_heads": 8, "dim": 128, "rotated": 64, "interleaved": True}}


@tilelang.jit
def rotary(heads, kv_heads, dim, rotated, interleaved=False, epsilon=1e-6, longest=4096, dtype="bfloat16"):
    """``table`` has the cosines of half the angles of a position, then their sines."""
    tokens = T.dynamic("tokens")
    half = rotated // 2

    @T.prim_func
    def main(
        QKV: T.Tensor((tokens, heads + 2 * kv_heads, dim), dtype),
        weight: T.Tensor((2, dim), dtype),
        positions: T.Tensor((tokens,), "int64"),
        table: T.Tensor((longest, rotated), "float32"),
    ):
        with T.Kernel(tokens, heads + kv_heads, threads=64) as (token, head):
            x = T.alloc_fragment((dim,), "float32")
            squares = T.alloc_fragment((dim,), "float32")
            total = T.alloc_fragment((1,), "float32")
            normed = T.alloc_shared((dim,), "float32")
            kind = T.if_then_else(head < heads, 0, 1)
            position = positions[token]

            T.copy(QKV[token, head, :], x)
            for i in T.Parallel(dim):
                squares[i] = x[i] * x[i]
            T.reduce_sum(squares, total, dim=0)
            for i in T.Parallel(dim):
                normed[i] = x[i] * T.rsqrt(total[0] / dim + epsilon) * weight[kind, i]
            for i in T.Parallel(dim):
                if i >= rotated:
                    QKV[token, head, i] = normed[i]
                elif interleaved:
                    cos, sin = table[position, i // 2], table[position, half + i // 2]
                    other = T.if_then_else(i % 2 == 0, -normed[i + 1], normed[i - 1])
                    QKV[token, head, i] = normed[i] * cos + other * sin
                else:
                    cos, sin = table[position, i % half], table[position, half + i % half]
                    other = T.if_then_else(i < half, -normed[i + half], normed[i - half])
                    QKV[token, head, i] = normed[i] * cos + other * sin

    return main


def reference(qkv, weight, positions, table, heads, kv_heads, rotated, interleaved):
    x = qkv.float()[:, : heads + kv_heads]
    x = x * torch.rsqrt(x.square().mean(2, keepdim=True) + 1e-6)
    x[:, :heads] *= weight[0].float()
    x[:, heads:] *= weight[1].float()
    cos, sin = (part[:, None] for part in table[positions].chunk(2, dim=1))
    head = x[..., :rotated]
    if interleaved:
        a, b = head[..., ::2], head[..., 1::2]
        x[..., :rotated] = torch.stack([a * cos - b * sin, b * cos + a * sin], dim=3).flatten(2)
    else:
        a, b = head.chunk(2, dim=2)
        x[..., :rotated] = torch.cat([a * cos - b * sin, b * cos + a * sin], dim=2)
    return torch.cat([x, qkv.float()[:, heads + kv_heads :]], dim=1)


def check(tokens, heads, kv_heads, dim, rotated):
    angles = torch.arange(4096.0)[:, None] * 10000.0 ** (-torch.arange(rotated // 2) / (rotated // 2))
    table = torch.cat([angles.cos(), angles.sin()], dim=1)
    positions = torch.randint(0, 4096, (tokens,))
    weight = torch.rand(2, dim).bfloat16()
    for interleaved in (False, True):
        qkv = torch.randn(tokens, heads + 2 * kv_heads, dim).bfloat16()
        expected = reference(qkv, weight, positions, table, heads, kv_heads, rotated, interleaved)
        rotary(heads, kv_heads, dim, rotated, interleaved)(qkv, weight, positions, table)
        torch.testing.assert_close(qkv.float(), expected, rtol=1e-2, atol=1e-2)
