"""Statistics of a batch by Welford's update, merged between threads by hand; dropout with a generator of its own."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"batch": 50, "features": 40}
LARGE = {"statistics": {"features": 4096}, "dropout": {"p": 0.1}}


@tilelang.jit(out_idx=[1, 2])
def statistics(features, block_N=32, block_M=8):
    batch = T.dynamic("batch")

    @T.prim_func
    def main(
        X: T.Tensor((batch, features), "float16"), Mean: T.Tensor((features,), "float32"), Var: T.Tensor((features,), "float32")
    ):
        with T.Kernel(T.ceildiv(features, block_N), threads=block_N * block_M) as bx:
            mean = T.alloc_shared((block_M, block_N), "float32")
            m2 = T.alloc_shared((block_M, block_N), "float32")
            count = T.alloc_shared((block_M, block_N), "float32")
            for i, j in T.Parallel(block_M, block_N):
                mean[i, j] = 0
                m2[i, j] = 0
                count[i, j] = 0
            for s in T.serial(T.ceildiv(batch, block_M)):
                for i, j in T.Parallel(block_M, block_N):
                    if s * block_M + i < batch and bx * block_N + j < features:
                        x = T.cast(X[s * block_M + i, bx * block_N + j], "float32")
                        delta = x - mean[i, j]
                        count[i, j] += 1
                        mean[i, j] += delta / count[i, j]
                        m2[i, j] += delta * (x - mean[i, j])
            half = T.alloc_var("int32", init=block_M // 2)
            while half > 0:
                for i, j in T.Parallel(block_M, block_N):
                    if i < half:
                        other = count[i + half, j]
                        total = count[i, j] + other
                        if total > 0:
                            delta = mean[i + half, j] - mean[i, j]
                            m2[i, j] += m2[i + half, j] + delta * delta * count[i, j] * other / total
                            mean[i, j] += delta * other / total
                            count[i, j] = total
                half = half // 2
            for j in T.Parallel(block_N):
                if bx * block_N + j < features:
                    Mean[bx * block_N + j] = mean[0, j]
                    Var[bx * block_N + j] = m2[0, j] / count[0, j]

    return main


@tilelang.jit(out_idx=[1])
def dropout(p, block=512, seed=1234):
    """A hash of the element's number and the seed decides, so that the backward pass needs no mask."""
    n = T.dynamic("n")

    def hashed(x):
        x = (x ^ 61) ^ (x >> 16)
        x = x * 9
        x = x ^ (x >> 4)
        x = x * 0x27D4EB2D
        return x ^ (x >> 15)

    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, block), threads=128) as bx:
            for i in T.Parallel(block):
                at = bx * block + i
                if at < n:
                    bits = hashed(T.cast(at, "uint32") + T.uint32(seed))
                    keep = T.cast(bits >> 8, "float32") * (1.0 / (1 << 24)) >= p
                    Y[at] = T.if_then_else(keep, X[at] / (1 - p), 0.0)

    return main


def check(batch, features):
    x = (torch.randn(batch, features) * 2 + 5).half()
    mean, var = statistics(features)(x)
    torch.testing.assert_close(mean, x.float().mean(0), rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(var, x.float().var(0, correction=0), rtol=1e-3, atol=1e-3)
    y = dropout(0.25)(torch.ones(4000))
    assert ((y == 0) | (y == 1 / 0.75)).all() and abs((y == 0).float().mean().item() - 0.25) < 0.05
