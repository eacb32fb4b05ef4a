"""int8 matrix product accumulated exactly in int32, then scaled by one factor a row and one a column.

What to learn: two outputs of one kernel (``out_idx=[-2, -1]``): exact int32 sums, and what a model uses of them, scaled
float16.

Why so: int8 products are exact in int32, so that results can be compared bit by bit. Scales by row and column (of tokens and
of output channels) can be taken out of the sum over K, unlike those of ``gemm_fp8_blockscale``.

Next: leave the int32 output out, as a model would; saturating int8 output.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-2, -1])
def matmul_int8(M, N, K, block_M=64, block_N=64, block_K=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "int8"),
        B: T.Tensor((N, K), "int8"),
        scale_A: T.Tensor((M,), "float32"),
        scale_B: T.Tensor((N,), "float32"),
        C: T.Tensor((M, N), "int32"),
        D: T.Tensor((M, N), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "int8")
            B_shared = T.alloc_shared((block_N, block_K), "int8")
            C_local = T.alloc_fragment((block_M, block_N), "int32")
            D_local = T.alloc_fragment((block_M, block_N), "float16")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)

            for i, j in T.Parallel(block_M, block_N):
                D_local[i, j] = T.cast(C_local[i, j], "float32") * scale_A[by * block_M + i] * scale_B[bx * block_N + j]
            T.copy(C_local, C[by * block_M, bx * block_N])
            T.copy(D_local, D[by * block_M, bx * block_N])

    return main


def main(M: int = 192, N: int = 256, K: int = 320) -> None:
    a = torch.randint(-128, 128, (M, K), device=DEVICE, dtype=torch.int8)
    b = torch.randint(-128, 128, (N, K), device=DEVICE, dtype=torch.int8)
    scale_a = torch.rand(M, device=DEVICE) * 1e-2
    scale_b = torch.rand(N, device=DEVICE) * 1e-2
    c, d = matmul_int8(M, N, K)(a, b, scale_a, scale_b)
    exact = (a.double() @ b.double().T).int()
    assert torch.equal(c, exact)
    reference = exact.float() * scale_a[:, None] * scale_b[None, :]
    torch.testing.assert_close(d.float(), reference, rtol=1e-2, atol=1e-2)
    print("int8 GEMM: matches torch exactly")


if __name__ == "__main__":
    main()
