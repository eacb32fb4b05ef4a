"""Depthwise causal convolution over sequences of any length beside each other, with SiLU: whole prompts, and one new token."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"lengths": (37, 3, 50), "dim": 72, "width": 4}
LARGE = {"conv1d": {"dim": 8192, "width": 4}, "update": {"dim": 8192, "width": 4}}


@tilelang.jit(out_idx=[-1])
def conv1d(dim, width, block_T=32, block_D=64, dtype="bfloat16"):
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        X: T.Tensor((tokens, dim), dtype),
        weight: T.Tensor((dim, width), dtype),
        bias: T.Tensor((dim,), dtype),
        sequence: T.Tensor((tokens,), "int32"),
        Y: T.Tensor((tokens, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(tokens, block_T), T.ceildiv(dim, block_D), threads=128) as (bt, bd):
            y = T.alloc_fragment((block_T, block_D), "float32")
            w = T.alloc_shared((block_D, width), "float32")
            T.copy(weight[bd * block_D, 0], w)
            for i, j in T.Parallel(block_T, block_D):
                y[i, j] = bias[T.min(bd * block_D + j, dim - 1)]
            for k in T.unroll(width):
                for i, j in T.Parallel(block_T, block_D):
                    t = bt * block_T + i
                    s = t - (width - 1) + k
                    if s >= 0 and t < tokens:
                        if sequence[s] == sequence[t]:
                            y[i, j] += X[s, bd * block_D + j] * w[j, k]
            for i, j in T.Parallel(block_T, block_D):
                y[i, j] = y[i, j] / (1 + T.exp(-y[i, j]))
            T.copy(y, Y[bt * block_T, bd * block_D])

    return main


@tilelang.jit(out_idx=[-1])
def update(dim, width, block_D=64, dtype="bfloat16"):
    """One token for each sequence; ``state`` holds the last tokens, and moves on."""
    batch = T.dynamic("batch")

    @T.prim_func
    def main(
        X: T.Tensor((batch, dim), dtype),
        state: T.Tensor((batch, dim, width - 1), dtype),
        weight: T.Tensor((dim, width), dtype),
        bias: T.Tensor((dim,), dtype),
        Y: T.Tensor((batch, dim), dtype),
    ):
        with T.Kernel(T.ceildiv(dim, block_D), batch, threads=block_D) as (bd, b):
            for j in T.Parallel(block_D):
                d = bd * block_D + j
                if d < dim:
                    window = T.alloc_local((width,), "float32")
                    acc = T.alloc_var("float32")
                    for k in T.unroll(width - 1):
                        window[k] = state[b, d, k]
                    window[width - 1] = X[b, d]
                    acc = bias[d]
                    for k in T.unroll(width):
                        acc += window[k] * weight[d, k]
                    for k in T.unroll(width - 1):
                        state[b, d, k] = window[k + 1]
                    Y[b, d] = acc * T.sigmoid(acc)

    return main


def check(lengths, dim, width):
    x, weight, bias = torch.randn(sum(lengths), dim).bfloat16(), torch.randn(dim, width).bfloat16(), torch.randn(dim).bfloat16()
    sequence = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).int()
    expected, last = [], []
    for part in x.float().split(list(lengths)):
        padded = torch.nn.functional.pad(part.T, (width - 1, 0))
        y = torch.nn.functional.conv1d(padded[None], weight.float()[:, None], bias.float(), groups=dim)[0]
        expected.append(torch.nn.functional.silu(y).T)
        last.append((padded[:, -width:-1], part[-1], expected[-1][-1]))
    y = conv1d(dim, width)(x, weight, bias, sequence)
    torch.testing.assert_close(y.float(), torch.cat(expected), rtol=1e-2, atol=1e-2)
    state, new, want = (torch.stack(column) for column in zip(*last))
    state = state.bfloat16().contiguous()
    moved = torch.cat([state[..., 1:], new.bfloat16()[..., None]], dim=2)
    y = update(dim, width)(new.bfloat16(), state, weight, bias)
    torch.testing.assert_close(y.float(), want, rtol=1e-2, atol=1e-2)
    assert torch.equal(state, moved)
