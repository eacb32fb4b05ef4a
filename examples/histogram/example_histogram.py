"""Histogram by atomics: each block counts in shared memory, then adds its counts to the result.

What to learn: atomics in two levels. Each block counts into shared memory, then adds its whole tile of counts to the result:
``T.atomic_add`` takes elements and tiles.

Why so: all blocks adding to the same few addresses of global memory would wait for each other; in shared memory only the
threads of one block do. An element beyond the end reads as zero and would be counted as bin 0, hence the condition.

Next: floats with bin edges; a weight for each element.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit
def histogram(bins, block=1024):
    N = T.dynamic("N")

    @T.prim_func
    def main(X: T.Tensor((N,), "int32"), counts: T.Tensor((bins,), "int32")):
        with T.Kernel(T.ceildiv(N, block), threads=128) as bx:
            local = T.alloc_shared((bins,), "int32")
            T.clear(local)
            for i in T.Parallel(block):
                if bx * block + i < N:
                    T.atomic_add(local[X[bx * block + i]], 1)
            T.atomic_add(counts[0], local)

    return main


def main(N: int = 10000, bins: int = 100) -> None:
    kernel = histogram(bins)
    for length in (N, N // 3):
        x = torch.randint(0, bins, (length,), device=DEVICE, dtype=torch.int32)
        counts = torch.zeros(bins, device=DEVICE, dtype=torch.int32)
        kernel(x, counts)
        assert torch.equal(counts.long(), torch.bincount(x, minlength=bins))
    print("histogram: matches torch")


if __name__ == "__main__":
    main()
