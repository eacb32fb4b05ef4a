"""A product whose warp groups are specialised by hand: one loads, two multiply, with full and empty barriers."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 128, "N": 128, "K": 160}
TARGETS = ("interpret", "sm_80", "sm_90a")
LARGE = {"ws_gemm": {"M": 4096, "N": 4096, "K": 4096, "block_K": 64}}


@tilelang.jit(out_idx=[2])
def ws_gemm(M, N, K, block_M=128, block_N=64, block_K=32, num_stages=2, dtype="float16"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
            A_shared = T.alloc_shared((num_stages, block_M, block_K), dtype)
            B_shared = T.alloc_shared((num_stages, block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            full = T.alloc_barrier([128] * num_stages)
            empty = T.alloc_barrier([128] * num_stages)
            with T.ws(1):
                for ko in T.serial(T.ceildiv(K, block_K)):
                    T.barrier_wait(empty[ko % num_stages], ((ko // num_stages) % num_stages) ^ 1)
                    T.copy(A[by * block_M, ko * block_K], A_shared[ko % num_stages, :, :])
                    T.copy(B[ko * block_K, bx * block_N], B_shared[ko % num_stages, :, :])
                    T.barrier_arrive(full[ko % num_stages])
            with T.ws(0):
                T.clear(C_local)
                for ko in T.serial(T.ceildiv(K, block_K)):
                    T.barrier_wait(full[ko % num_stages], (ko // num_stages) % num_stages)
                    T.gemm(A_shared[ko % num_stages, :, :], B_shared[ko % num_stages, :, :], C_local)
                    T.barrier_arrive(empty[ko % num_stages])
                T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def check(M, N, K):
    a, b = torch.randn(M, K).half(), torch.randn(K, N).half()
    torch.testing.assert_close(ws_gemm(M, N, K)(a, b).float(), a.float() @ b.float(), rtol=1e-2, atol=1e-1)
