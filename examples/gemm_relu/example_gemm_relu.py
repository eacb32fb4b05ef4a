"""Matrix product with a fused ReLU: shared tiles, an accumulator in registers, a three-stage pipeline.

What to learn: the program that everything else here starts from. Tiles of A and B go through shared memory in a pipeline of
three stages, ``T.gemm`` accumulates in registers, and the activation is applied there before the only store.

Why so: a separate ReLU would read and write C once more. float16 is summed in float32. ``T.use_swizzle`` runs neighbouring
blocks together, so that they find each other's operands in the L2 cache; it changes no result.

Next: add a bias; change ``num_stages`` and the tile and compare counts as the tutorial's third chapter does;
``tilelang.autotune`` finds them.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def matmul_relu(M, N, K, block_M=128, block_N=128, block_K=32, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def gemm(A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_K, block_N), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.use_swizzle(panel_size=10)
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
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(K, N, device=DEVICE, dtype=torch.float16)
    c = matmul_relu(M, N, K)(a, b)
    reference = torch.relu(a.float() @ b.float()).half()
    torch.testing.assert_close(c, reference, rtol=1e-2, atol=1e-2)
    print("GEMM + ReLU: matches torch")


if __name__ == "__main__":
    main()
