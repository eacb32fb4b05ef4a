"""Running sums of a long vector in three kernels (tiles, their totals, both together), and a running product of gates."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"N": 1000, "rows": 5, "length": 70}
LARGE = {"running_sum": {}, "gated_recurrence": {"rows": 4096, "length": 8192}}


@tilelang.jit(out_idx=[-1])
def running_sum(block=256, threads=128, dtype="int32"):
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), dtype), Y: T.Tensor((N,), dtype)):
        totals = T.alloc_global((T.ceildiv(N, block),), dtype)
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            tile = T.alloc_shared((block,), dtype)
            T.copy(X[bx * block], tile)
            T.cumsum(tile)
            T.copy(tile, Y[bx * block])
            totals[bx] = tile[block - 1]
        with T.Kernel(1, threads=threads):
            part = T.alloc_shared((block,), dtype)
            carry = T.alloc_var(dtype, init=0)
            for t in T.serial(T.ceildiv(T.ceildiv(N, block), block)):
                T.copy(totals[t * block], part)
                T.cumsum(part)
                for i in T.Parallel(block):
                    part[i] += carry
                T.copy(part, totals[t * block])
                carry = part[block - 1]
        with T.Kernel(T.ceildiv(N, block), threads=threads) as bx:
            for i in T.Parallel(block):
                if bx > 0 and bx * block + i < N:
                    Y[bx * block + i] += totals[bx - 1]

    return main


@tilelang.jit(out_idx=[-1])
def gated_recurrence(rows, length, block=32, threads=32):
    """``h = gate * h + x`` along rows: a thread takes a row, and tiles pass through shared memory."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, length), "float32"), gate: T.Tensor((rows, length), "float32"), H: T.Tensor((rows, length), "float32")
    ):
        with T.Kernel(T.ceildiv(rows, threads), threads=threads) as bx:
            x = T.alloc_shared((threads, block), "float32")
            g = T.alloc_shared((threads, block), "float32")
            h = T.alloc_fragment((threads,), "float32")
            T.clear(h)
            for t in T.serial(T.ceildiv(length, block)):
                T.copy(X[bx * threads, t * block], x)
                T.copy(gate[bx * threads, t * block], g)
                for j in T.serial(block):
                    for i in T.Parallel(threads):
                        h[i] = g[i, j] * h[i] + x[i, j]
                        x[i, j] = h[i]
                T.copy(x, H[bx * threads, t * block])

    return main


def check(N, rows, length):
    x = torch.randint(-9, 9, (N,)).int()
    assert torch.equal(running_sum()(x), x.cumsum(0).int())
    x, gate = torch.randn(rows, length), torch.rand(rows, length)
    h, expected = torch.zeros(rows), []
    for t in range(length):
        h = gate[:, t] * h + x[:, t]
        expected.append(h)
    torch.testing.assert_close(gated_recurrence(rows, length)(x, gate), torch.stack(expected, 1), rtol=1e-5, atol=1e-5)
