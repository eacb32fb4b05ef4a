"""float8 products whose sums move to a second accumulator every few steps, as those of tensor cores keep few bits."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 70, "N": 64, "K": 320}
LARGE = {"promoted": {"M": 4096, "N": 4096, "K": 8192, "block_K": 128}}


@tilelang.jit(out_idx=[-1])
def promoted(M, N, K, block_M=64, block_N=64, block_K=64, every=2, dtype="float8_e4m3fn"):
    steps = T.ceildiv(K, block_K)

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), "bfloat16")):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            recent = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M, block_N), "float32")
            T.clear(recent)
            T.clear(total)
            for k in T.Pipelined(steps, num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, recent, transpose_B=True)
                if (k + 1) % every == 0:
                    for i, j in T.Parallel(block_M, block_N):
                        total[i, j] += recent[i, j]
                    T.clear(recent)
            if steps % every != 0:
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += recent[i, j]
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def check(M, N, K):
    a, b = torch.randn(M, K).to(torch.float8_e4m3fn), torch.randn(N, K).to(torch.float8_e4m3fn)
    torch.testing.assert_close(promoted(M, N, K)(a, b).float(), a.float() @ b.float().T, rtol=2e-2, atol=0.3)
