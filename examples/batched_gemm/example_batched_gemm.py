"""Products of a batch of matrices: one grid axis counts the batch.

What to learn: a third grid axis. Each matrix of the batch has blocks of its own; slices with one index (``A[bz, rows,
columns]``) are two-dimensional tiles.

Why so: the products are independent, so that the batch only adds blocks. B is (N, K), as weights of linear layers are, and
``transpose_B`` reads it so; nothing is transposed in memory.

Next: let the batch be ``T.dynamic``, so that one kernel serves every batch size; matrices of different sizes are
``grouped_gemm``.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def batched_matmul(batch, M, N, K, block_M=64, block_N=64, block_K=32, dtype="float16", accum_dtype="float32"):
    @T.prim_func
    def main(
        A: T.Tensor((batch, M, K), dtype),
        B: T.Tensor((batch, N, K), dtype),
        C: T.Tensor((batch, M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), batch, threads=128) as (bx, by, bz):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), accum_dtype)

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[bz, by * block_M : (by + 1) * block_M, k * block_K : (k + 1) * block_K], A_shared)
                T.copy(B[bz, bx * block_N : (bx + 1) * block_N, k * block_K : (k + 1) * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)
            T.copy(C_local, C[bz, by * block_M, bx * block_N])

    return main


def main(batch: int = 4, M: int = 200, N: int = 256, K: int = 192) -> None:
    a = torch.randn(batch, M, K, device=DEVICE, dtype=torch.float16)
    b = torch.randn(batch, N, K, device=DEVICE, dtype=torch.float16)
    c = batched_matmul(batch, M, N, K)(a, b)
    reference = torch.einsum("bmk,bnk->bmn", a.float(), b.float()).half()
    torch.testing.assert_close(c, reference, rtol=1e-2, atol=1e-2)
    print("batched GEMM: matches torch")


if __name__ == "__main__":
    main()
