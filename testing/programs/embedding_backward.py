"""The gradient of an embedding, tokens added to their rows atomically in pairs; and Adam with its state in bfloat16."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"tokens": 50, "vocabulary": 20, "dim": 72}
LARGE = {"embedding_backward": {"vocabulary": 129280, "dim": 7168}, "adam": {"size": 129280 * 1024}}


@tilelang.jit
def embedding_backward(ids, dY, dW, threads: int = 128, padding: int = 0):
    tokens = T.dynamic("tokens")
    vocabulary, dim = T.const("vocabulary, dim")
    ids: T.Tensor[(tokens,), T.int64]
    dY: T.Tensor[(tokens, dim), T.float16]
    dW: T.Tensor[(vocabulary, dim), T.float32]
    with T.Kernel(tokens, threads=threads) as t:
        row = ids[t]
        if row != padding:
            for i in T.Parallel(dim):
                T.atomic_add(dW[row, i], dY[t, i])


@tilelang.jit
def adam(size, block=1024, threads=128):
    @T.prim_func
    def main(
        W: T.Tensor((size,), "float32"),
        W_half: T.Tensor((size,), "bfloat16"),
        G: T.Tensor((size,), "float32"),
        M: T.Tensor((size,), "bfloat16"),
        V: T.Tensor((size,), "bfloat16"),
        step: T.int32,
        rate: T.float32,
        beta1: T.float32,
        beta2: T.float32,
        decay: T.float32,
    ):
        with T.Kernel(T.ceildiv(size, block), threads=threads) as bx:
            correction1 = 1.0 - T.pow(beta1, T.cast(step, "float32"))
            correction2 = 1.0 - T.pow(beta2, T.cast(step, "float32"))
            for i in T.Parallel(block):
                at = bx * block + i
                if at < size:
                    g = G[at]
                    m = beta1 * M[at] + (1 - beta1) * g
                    v = beta2 * V[at] + (1 - beta2) * g * g
                    w = W[at] * (1 - rate * decay) - rate * (m / correction1) / (T.sqrt(v / correction2) + 1e-8)
                    W[at], W_half[at], M[at], V[at] = w, w, m, v

    return main


def check(tokens, vocabulary, dim):
    ids, dy = torch.randint(0, vocabulary, (tokens,)), torch.randn(tokens, dim).half()
    dw = torch.zeros(vocabulary, dim)
    embedding_backward(ids, dy, dw)
    expected = torch.zeros(vocabulary, dim).index_add(0, ids, dy.float())
    expected[0] = 0
    torch.testing.assert_close(dw, expected, rtol=1e-4, atol=1e-4)

    size = vocabulary * dim - 1
    w, g = torch.randn(size), torch.randn(size)
    m, v, half = torch.zeros(size).bfloat16(), torch.zeros(size).bfloat16(), torch.zeros(size).bfloat16()
    wanted = w.clone().requires_grad_()
    optimizer = torch.optim.AdamW([wanted], lr=0.01, betas=(0.9, 0.95), weight_decay=0.1)
    kernel = adam(size)
    for step in (1, 2):
        wanted.grad = g * step
        optimizer.step()
        kernel(w, half, g * step, m, v, step, 0.01, 0.9, 0.95, 0.1)
    torch.testing.assert_close(w, wanted.detach(), rtol=1e-2, atol=2e-3)
    assert torch.equal(half, w.bfloat16())
