"""The quickstart: GEMM + ReLU as a tile program, called on torch tensors and checked against torch.

What to learn: the shape of a program. A kernel copies tiles to shared memory, multiplies them into registers and copies the
result back; ``@tilelang.jit`` compiles the program for each set of Python arguments. Run it twice: the second process finds the
compiled kernel in the cache and loads no compiler.

Why so: tiles of 128 x 128 are reused 128 times by what multiplies them, and three stages of the pipeline copy ahead of the
products. The ReLU is done in registers, where it costs no trip to memory.

Next: ``gemm_relu`` takes the options of this program apart; the tutorial's first chapter explains it line by line.
"""

import sys
import time

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(out_idx=[-1])
def matmul_relu(M, N, K, block_M=128, block_N=128, block_K=32, dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[k * block_K, bx * block_N], B_shared)
                T.gemm(A_shared, B_shared, C_local)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = T.max(C_local[i, j], 0)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return gemm


def main(M: int = 1024, N: int = 1024, K: int = 1024) -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    a, b = torch.randn(M, K, device=device), torch.randn(K, N, device=device)

    start = time.perf_counter()
    kernel = matmul_relu(M, N, K)
    ready = time.perf_counter() - start

    c = kernel(a, b)
    torch.testing.assert_close(c, torch.relu(a @ b), rtol=1e-2, atol=1e-2)

    milliseconds = kernel.get_profiler().do_bench()
    origin = "compiled just now" if kernel.entry.origin == "compiled" else f"cache hit ({kernel.entry.origin})"
    compiler = "compiler loaded" if "tvm" in sys.modules else "no compiler loaded"
    print(f"GEMM + ReLU {M}x{N}x{K} on {device}: matches torch")
    print(f"  kernel ready in {ready * 1e3:.1f} ms: {origin}, {compiler}")
    print(f"  {2e-6 * M * N * K / milliseconds:.0f} GFLOP/s, files in {kernel.entry.path}")


if __name__ == "__main__":
    main()
