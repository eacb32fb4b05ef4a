"""Matrix transpose through a shared tile, with ``T.transpose`` and with an explicit loop.

What to learn: two ways through shared memory. ``T.transpose`` exchanges the axes of a tile; the second kernel writes the
loop, into a tile with one more column than it needs.

Why so: without a tile in between either loads or stores would touch a sector of memory for each number. Threads that read a
column of a tile with 64 columns would all need the same bank; with 65 columns they need different ones. The tutorial's
second chapter counts both.

Next: ``T.annotate_layout`` with a swizzle in place of the padding, which keeps copies of 16 bytes aligned.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def transpose(M, N, block_M=64, block_N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            tile = T.alloc_shared((block_M, block_N), dtype)
            turned = T.alloc_shared((block_N, block_M), dtype)
            T.copy(A[by * block_M, bx * block_N], tile)
            T.transpose(tile, turned)
            T.copy(turned, B[bx * block_N, by * block_M])

    return main


@tilelang.jit(out_idx=[-1])
def transpose_loop(M, N, block_M=64, block_N=64, dtype="float32"):
    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((N, M), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            # One more column keeps threads that read a column of the tile in different banks.
            tile = T.alloc_shared((block_M, block_N + 1), dtype)
            T.copy(A[by * block_M : (by + 1) * block_M, bx * block_N : (bx + 1) * block_N], tile[:, :block_N])
            for j, i in T.Parallel(block_N, block_M):
                B[bx * block_N + j, by * block_M + i] = tile[i, j]

    return main


def main(M: int = 500, N: int = 1000) -> None:
    a = torch.randn(M, N, device=DEVICE)
    assert torch.equal(transpose(M, N)(a), a.T)
    assert torch.equal(transpose_loop(M, N)(a), a.T)
    print("transpose: matches torch")


if __name__ == "__main__":
    main()
