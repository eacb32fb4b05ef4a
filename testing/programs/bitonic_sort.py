"""Rows sorted in shared memory by a bitonic network, keys with their values, any length below a power of two."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"rows": 3, "n": 100}
LARGE = {"bitonic_sort": {"rows": 65536, "n": 1000}}


@tilelang.jit(out_idx=[1, 2])
def bitonic_sort(rows, n, dtype="float32"):
    size = tilelang.next_power_of_2(n)

    @T.prim_func
    def main(X: T.Tensor((rows, n), dtype), Y: T.Tensor((rows, n), dtype), order: T.Tensor((rows, n), "int32")):
        with T.Kernel(rows, threads=128) as r:
            keys = T.alloc_shared((size,), dtype)
            index = T.alloc_shared((size,), "int32")
            for i in T.Parallel(size):
                index[i] = i
                keys[i] = T.max_value(dtype)
                if i < n:
                    keys[i] = X[r, i]
            k = T.alloc_var("int32", init=2)
            j = T.alloc_var("int32")
            while k <= size:
                j = k // 2
                while j > 0:
                    for p in T.Parallel(size // 2):
                        low = p // j * 2 * j + p % j
                        high = low + j
                        up = (low & k) == 0
                        a, b = keys[low], keys[high]
                        ia, ib = index[low], index[high]
                        swap = (a > b or (a == b and ia > ib)) == up
                        if swap:
                            keys[low] = b
                            keys[high] = a
                            index[low] = ib
                            index[high] = ia
                    j = j // 2
                k = k * 2
            for i in T.Parallel(n):
                Y[r, i] = keys[i]
                order[r, i] = index[i]

    return main


def check(rows, n):
    x = torch.randint(-20, 20, (rows, n)).float()
    y, order = bitonic_sort(rows, n)(x)
    expected = x.sort(dim=1, stable=True)
    assert torch.equal(y, expected.values) and torch.equal(order.long(), expected.indices)
