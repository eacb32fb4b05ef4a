"""Low-rank adapters of different requests in one batch: shrink and expand by each token's own adapter."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"tokens": 9, "adapters": 3, "hidden": 200, "rank": 8, "out": 136}
LARGE = {"lora": {"adapters": 64, "hidden": 4096, "rank": 16, "out": 4096}}


@tilelang.jit
def lora(adapters, hidden, rank, out, block=128, threads=128, dtype="float16", accum="float32"):
    tokens = T.dynamic("tokens")

    @T.prim_func
    def main(
        X: T.Tensor((tokens, hidden), dtype),
        A: T.Tensor((adapters, rank, hidden), dtype),
        B: T.Tensor((adapters, out, rank), dtype),
        which: T.Tensor((tokens,), "int32"),
        scaling: T.float32,
        Y: T.Tensor((tokens, out), dtype),
    ):
        with T.Kernel(tokens, threads=threads) as t:
            if which[t] >= 0:
                low = T.alloc_fragment((rank,), accum)
                acc = T.alloc_fragment((rank, block), accum)
                low_shared = T.alloc_shared((rank,), accum)
                T.clear(acc)
                for k in T.serial(T.ceildiv(hidden, block)):
                    for r, i in T.Parallel(rank, block):
                        if k * block + i < hidden:
                            acc[r, i] += X[t, k * block + i].astype(accum) * A[which[t], r, k * block + i].astype(accum)
                T.reduce_sum(acc, low, dim=1)
                T.copy(low, low_shared)
                for o in T.Parallel(out):
                    total = T.alloc_var(accum, 0)
                    for r in T.vectorized(rank):
                        total += low_shared[r] * B[which[t], o, r].astype(accum)
                    Y[t, o] += total * scaling

    return main


def check(tokens, adapters, hidden, rank, out):
    x, a = torch.randn(tokens, hidden).half(), (torch.randn(adapters, rank, hidden) * 0.05).half()
    b, y = torch.randn(adapters, out, rank).half(), torch.randn(tokens, out).half()
    which = (torch.arange(tokens) % (adapters + 1) - 1).int()
    expected = y.float()
    for t in range(tokens):
        if which[t] >= 0:
            expected[t] += (b[which[t]].float() @ (a[which[t]].float() @ x[t].float())) * 0.5
    lora(adapters, hidden, rank, out)(x, a, b, which, 0.5, y)
    torch.testing.assert_close(y.float(), expected, rtol=1e-2, atol=1e-2)
