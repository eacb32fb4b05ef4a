"""One round of k-means: distances to all centres, the nearest, and sums for new centres by atomic additions."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"n": 70}
LARGE = {"kmeans_step": {"n": 65536, "dim": 64, "k": 128}}


@tilelang.jit(out_idx=[-1])
def kmeans_step(n, dim, k, block=32):
    @T.prim_func
    def main(
        X: T.Tensor((n, dim), "float32"),
        Cent: T.Tensor((k, dim), "float32"),
        Sum: T.Tensor((k, dim), "float32"),
        Cnt: T.Tensor((k,), "int32"),
        Label: T.Tensor((n,), "int32"),
    ):
        with T.Kernel(T.ceildiv(n, block), threads=128) as b:
            x, c = T.alloc_shared((block, dim), "float32"), T.alloc_shared((k, dim), "float32")
            d = T.alloc_fragment((block, k), "float32")
            low, idx, lab = (
                T.alloc_fragment((block,), "float32"),
                T.alloc_fragment((block, k), "int32"),
                T.alloc_shared((block,), "int32"),
            )
            labf = T.alloc_fragment((block,), "int32")
            T.copy(X[b * block, 0], x)
            T.copy(Cent, c)
            T.clear(d)
            for q in T.serial(dim):
                for i, j in T.Parallel(block, k):
                    d[i, j] += (x[i, q] - c[j, q]) * (x[i, q] - c[j, q])
            T.reduce_min(d, low)
            for i, j in T.Parallel(block, k):
                idx[i, j] = j if d[i, j] == low[i] else k
            T.reduce_min(idx, labf)
            T.copy(labf, lab)
            T.copy(labf, Label[b * block])
            for i, q in T.Parallel(block, dim):
                if b * block + i < n:
                    T.atomic_add(Sum[lab[i], q], x[i, q])
            for i in T.Parallel(block):
                if b * block + i < n:
                    T.atomic_add(Cnt[lab[i]], 1)

    return main


def check(n):
    x, c = torch.randn(n, 6), torch.randn(5, 6)
    sums, counts = torch.zeros(5, 6), torch.zeros(5).int()
    label = kmeans_step(n, 6, 5)(x, c, sums, counts)
    expected = torch.cdist(x, c).argmin(1)
    assert torch.equal(label.long(), expected) and torch.equal(counts, expected.bincount(minlength=5).int())
    torch.testing.assert_close(sums, torch.zeros(5, 6).index_add(0, expected, x), rtol=1e-4, atol=1e-4)
