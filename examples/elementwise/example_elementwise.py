"""Elementwise addition, in the eager style: sizes come from the tensors, the output is allocated by the program.

What to learn: the eager style. The decorated function is the program; ``T.const`` sizes are taken from the tensors of the
call, and each set of sizes gets a kernel; ``T.empty`` is what the call allocates and returns.

Why so: for small programs a factory around the program is noise. Sizes that no tile divides need nothing: reads beyond the
tensor give zero, writes are dropped.

Next: ``T.dynamic`` in place of ``T.const`` for one kernel of all sizes; ``add.compile(M=1000, N=1111)`` to compile without
tensors.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit
def add(A, B, block_M: int = 32, block_N: int = 128, threads: int = 128):
    M, N = T.const("M, N")
    A: T.Tensor((M, N), "float32")
    B: T.Tensor((M, N), "float32")
    C = T.empty((M, N), "float32")

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
        for i, j in T.Parallel(block_M, block_N):
            C[by * block_M + i, bx * block_N + j] = A[by * block_M + i, bx * block_N + j] + B[by * block_M + i, bx * block_N + j]

    return C


def main(M: int = 1000, N: int = 1111) -> None:
    a = torch.randn(M, N, device=DEVICE)
    b = torch.randn(M, N, device=DEVICE)
    torch.testing.assert_close(add(a, b), a + b)
    print("elementwise add: matches torch")


if __name__ == "__main__":
    main()
