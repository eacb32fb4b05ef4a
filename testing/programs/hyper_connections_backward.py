"""The gradients of hyper-connections: of the streams, of the layer's output, and of the coefficients, which sum over the
width.
"""

import torch

import tilelang
import tilelang.language as T

SMALL = {"tokens": 7, "streams": 4, "width": 200}
LARGE = {"backward": {"streams": 4, "width": 7168}, "sinkhorn_backward": {"n": 4, "rounds": 20}}


@tilelang.jit(out_idx=[-5, -4, -3, -2, -1])
def backward(streams, width, block=256, threads=128, dtype="bfloat16"):
    """Of ``new[i] = sum(mix[i, j] * x[j]) + post[i] * y`` and ``layer_input = sum(pre[j] * x[j])``."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        X: T.Tensor((tokens, streams, width), dtype),
        Y: T.Tensor((tokens, width), dtype),
        pre: T.Tensor((tokens, streams), "float32"),
        post: T.Tensor((tokens, streams), "float32"),
        mix: T.Tensor((tokens, streams, streams), "float32"),
        dNew: T.Tensor((tokens, streams, width), dtype),
        dInput: T.Tensor((tokens, width), dtype),
        dX: T.Tensor((tokens, streams, width), dtype),
        dY: T.Tensor((tokens, width), dtype),
        dpre: T.Tensor((tokens, streams), "float32"),
        dpost: T.Tensor((tokens, streams), "float32"),
        dmix: T.Tensor((tokens, streams, streams), "float32"),
    ):
        with T.Kernel(tokens, threads=threads) as t:
            x = T.alloc_fragment((streams, block), "float32")
            y = T.alloc_fragment((block,), "float32")
            d_new = T.alloc_fragment((streams, block), "float32")
            d_in = T.alloc_fragment((block,), "float32")
            dx = T.alloc_fragment((streams, block), "float32")
            dy = T.alloc_fragment((block,), "float32")
            of_pre = T.alloc_fragment((streams, block), "float32")
            of_post = T.alloc_fragment((streams, block), "float32")
            of_mix = T.alloc_fragment((streams, streams, block), "float32")
            T.clear(of_pre)
            T.clear(of_post)
            T.clear(of_mix)
            for b in T.serial(T.ceildiv(width, block)):
                T.copy(X[t, :, b * block : (b + 1) * block], x)
                T.copy(Y[t, b * block : (b + 1) * block], y)
                T.copy(dNew[t, :, b * block : (b + 1) * block], d_new)
                T.copy(dInput[t, b * block : (b + 1) * block], d_in)
                T.clear(dy)
                for k in T.Parallel(block):
                    for i in T.serial(streams):
                        dy[k] += post[t, i] * d_new[i, k]
                for j, k in T.Parallel(streams, block):
                    dx[j, k] = pre[t, j] * d_in[k]
                    of_pre[j, k] += x[j, k] * d_in[k]
                    of_post[j, k] += y[k] * d_new[j, k]
                for i in T.serial(streams):
                    for j, k in T.Parallel(streams, block):
                        dx[j, k] += mix[t, i, j] * d_new[i, k]
                for i, j, k in T.Parallel(streams, streams, block):
                    of_mix[i, j, k] += x[j, k] * d_new[i, k]
                T.copy(dx, dX[t, :, b * block : (b + 1) * block])
                T.copy(dy, dY[t, b * block : (b + 1) * block])
            sums = T.alloc_fragment((streams,), "float32")
            mix_sums = T.alloc_fragment((streams, streams), "float32")
            T.reduce_sum(of_pre, sums, dim=-1)
            T.copy(sums, dpre[t, :])
            T.reduce_sum(of_post, sums, dim=-1)
            T.copy(sums, dpost[t, :])
            T.reduce_sum(of_mix, mix_sums, dim=-1)
            T.copy(mix_sums, dmix[t, :, :])

    return main


@tilelang.jit(out_idx=[-1])
def sinkhorn_backward(n, rounds, block=32, epsilon=1e-6):
    """The rounds are computed again and kept, then walked back through. A round divides rows by their sums, then columns."""
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        logits: T.Tensor((tokens, n, n), "float32"),
        grad: T.Tensor((tokens, n, n), "float32"),
        dlogits: T.Tensor((tokens, n, n), "float32"),
    ):
        with T.Kernel(T.ceildiv(tokens, block), threads=block) as bx:
            kept = T.alloc_shared((2 * rounds + 1, block, n, n), "float32")
            m = T.alloc_fragment((block, n, n), "float32")
            g = T.alloc_fragment((block, n, n), "float32")
            product = T.alloc_fragment((block, n, n), "float32")
            sums = T.alloc_fragment((block, n), "float32")
            dots = T.alloc_fragment((block, n), "float32")

            T.copy(logits[bx * block, 0, 0], m)
            for b, i, j in T.Parallel(block, n, n):
                m[b, i, j] = T.exp(m[b, i, j])
            for r in T.serial(rounds):
                T.copy(m, kept[2 * r, :, :, :])
                T.reduce_sum(m, sums, dim=2)
                for b, i, j in T.Parallel(block, n, n):
                    m[b, i, j] /= sums[b, i] + epsilon
                T.copy(m, kept[2 * r + 1, :, :, :])
                T.reduce_sum(m, sums, dim=1)
                for b, i, j in T.Parallel(block, n, n):
                    m[b, i, j] /= sums[b, j] + epsilon
            T.copy(grad[bx * block, 0, 0], g)
            for back in T.serial(2 * rounds):
                step = 2 * rounds - 1 - back
                T.copy(kept[step, :, :, :], m)
                for b, i, j in T.Parallel(block, n, n):
                    product[b, i, j] = g[b, i, j] * m[b, i, j]
                if step % 2 == 0:
                    T.reduce_sum(m, sums, dim=2)
                    T.reduce_sum(product, dots, dim=2)
                    for b, i, j in T.Parallel(block, n, n):
                        total = sums[b, i] + epsilon
                        g[b, i, j] = g[b, i, j] / total - dots[b, i] / (total * total)
                else:
                    T.reduce_sum(m, sums, dim=1)
                    T.reduce_sum(product, dots, dim=1)
                    for b, i, j in T.Parallel(block, n, n):
                        total = sums[b, j] + epsilon
                        g[b, i, j] = g[b, i, j] / total - dots[b, j] / (total * total)
            for b, i, j in T.Parallel(block, n, n):
                g[b, i, j] *= kept[0, b, i, j]
            T.copy(g, dlogits[bx * block, 0, 0])

    return main


def check(tokens, streams, width):
    x, d_new = (torch.randn(tokens, streams, width).bfloat16() for _ in range(2))
    y, d_in = (torch.randn(tokens, width).bfloat16() for _ in range(2))
    pre, post, mix = torch.rand(tokens, streams), torch.rand(tokens, streams), torch.rand(tokens, streams, streams)
    wide = [each.float().requires_grad_() for each in (x, y, pre, post, mix)]
    new = torch.einsum("tij,tjw->tiw", wide[4], wide[0]) + wide[3][..., None] * wide[1][:, None]
    layer_input = (wide[2][..., None] * wide[0]).sum(1)
    torch.autograd.backward([new, layer_input], [d_new.float(), d_in.float()])
    for got, each in zip(backward(streams, width)(x, y, pre, post, mix, d_new, d_in), wide):
        torch.testing.assert_close(got.float(), each.grad, rtol=1e-2, atol=2e-2)

    logits = torch.randn(tokens, streams, streams, requires_grad=True)
    grad, m = torch.randn(tokens, streams, streams), logits.exp()
    for _ in range(5):
        m = m / (m.sum(2, keepdim=True) + 1e-6)
        m = m / (m.sum(1, keepdim=True) + 1e-6)
    m.backward(grad)
    got = sinkhorn_backward(streams, 5)(logits.detach(), grad)
    torch.testing.assert_close(got, logits.grad, rtol=1e-3, atol=1e-4)
