"""Hyper-connections: several residual streams, mixed by a small matrix of each token that Sinkhorn rounds make doubly
stochastic.

What to learn: many tiny matrices at once. A fragment of shape (tokens, n, n) is normalised along one axis, then the other, a
fixed number of times, without leaving the registers; then a second kernel streams the wide tensor once and applies the
coefficients.

Why so: a matrix of 4 by 4 is far too small for tensor cores or for a block of its own. Rows and columns that sum to one keep
the streams' mean through any number of layers. The layer's input and the new streams need the same data, but at different
times (the layer's output comes between), hence two kernels over the streams.

Next: the gradients are in ``testing/programs/hyper_connections_backward.py``; compute the coefficients from the streams by a
product.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def sinkhorn(n, rounds, block=32, epsilon=1e-6):
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(logits: T.Tensor((tokens, n, n), "float32"), mix: T.Tensor((tokens, n, n), "float32")):
        with T.Kernel(T.ceildiv(tokens, block), threads=block) as bx:
            m = T.alloc_fragment((block, n, n), "float32")
            peak = T.alloc_fragment((block, n), "float32")
            sums = T.alloc_fragment((block, n), "float32")
            T.copy(logits[bx * block, 0, 0], m)
            T.reduce_max(m, peak, dim=2)
            for b, i, j in T.Parallel(block, n, n):
                m[b, i, j] = T.exp(m[b, i, j] - peak[b, i])
            for _ in T.serial(rounds):
                T.reduce_sum(m, sums, dim=2)
                for b, i, j in T.Parallel(block, n, n):
                    m[b, i, j] /= sums[b, i] + epsilon
                T.reduce_sum(m, sums, dim=1)
                for b, i, j in T.Parallel(block, n, n):
                    m[b, i, j] /= sums[b, j] + epsilon
            T.copy(m, mix[bx * block, 0, 0])

    return main


@tilelang.jit(out_idx=[-1])
def layer_input(n, width, block=512, dtype="bfloat16"):
    """One stream of ``n``: their weighted sum."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(X: T.Tensor((tokens, n, width), dtype), pre: T.Tensor((tokens, n), "float32"), Y: T.Tensor((tokens, width), dtype)):
        with T.Kernel(T.ceildiv(width, block), tokens, threads=128) as (bx, t):
            y = T.alloc_fragment((block,), "float32")
            T.clear(y)
            for i in T.serial(n):
                for k in T.Parallel(block):
                    if bx * block + k < width:
                        y[k] += pre[t, i] * X[t, i, bx * block + k]
            T.copy(y, Y[t, bx * block])

    return main


@tilelang.jit(out_idx=[-1])
def new_streams(n, width, block=512, dtype="bfloat16"):
    """Each stream a mixture of the old ones, plus its share of the layer's output."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        X: T.Tensor((tokens, n, width), dtype),
        output: T.Tensor((tokens, width), dtype),
        post: T.Tensor((tokens, n), "float32"),
        mix: T.Tensor((tokens, n, n), "float32"),
        New: T.Tensor((tokens, n, width), dtype),
    ):
        with T.Kernel(T.ceildiv(width, block), tokens, threads=128) as (bx, t):
            x = T.alloc_shared((n, block), dtype)
            y = T.alloc_fragment((block,), dtype)
            coefficients = T.alloc_fragment((n, n), "float32")
            new = T.alloc_fragment((n, block), "float32")
            T.copy(X[t, :, bx * block : (bx + 1) * block], x)
            T.copy(output[t, bx * block], y)
            T.copy(mix[t, :, :], coefficients)
            for i, k in T.Parallel(n, block):
                new[i, k] = post[t, i] * y[k]
                for j in T.unroll(n):
                    new[i, k] += coefficients[i, j] * x[j, k]
            T.copy(new, New[t, :, bx * block : (bx + 1) * block])

    return main


def main(tokens: int = 50, n: int = 4, width: int = 1000, rounds: int = 20) -> None:
    x = torch.randn(tokens, n, width, device=DEVICE, dtype=torch.bfloat16)
    pre, post = (torch.rand(tokens, n, device=DEVICE) for _ in range(2))
    logits = torch.randn(tokens, n, n, device=DEVICE)

    mix = sinkhorn(n, rounds)(logits)
    expected = logits.exp()
    for _ in range(rounds):
        expected = expected / expected.sum(2, keepdim=True)
        expected = expected / expected.sum(1, keepdim=True)
    torch.testing.assert_close(mix, expected, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(mix.sum(2), torch.ones(tokens, n, device=DEVICE), rtol=1e-3, atol=1e-3)

    y = layer_input(n, width)(x, pre)
    torch.testing.assert_close(y.float(), torch.einsum("ti,tiw->tw", pre, x.float()), rtol=1e-2, atol=1e-2)
    output = torch.tanh(y.float()).bfloat16()  # stands for the layer
    new = new_streams(n, width)(x, output, post, mix)
    expected = torch.einsum("tij,tjw->tiw", mix, x.float()) + post[..., None] * output.float()[:, None]
    torch.testing.assert_close(new.float(), expected, rtol=1e-2, atol=1e-2)
    print("hyper-connections: matches torch")


if __name__ == "__main__":
    main()
