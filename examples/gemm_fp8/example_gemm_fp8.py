"""float8 matrix product with one scale an operand, accumulated in float32; both float8 formats.

What to learn: operands of 8 bits. The program is that of float16; the instruction (or, where there is none, a conversion)
follows from the type. The scales are tensors of one element, so that a new scale needs no new kernel.

Why so: float8 has few bits, so a tensor is stored divided by a scale and the product is multiplied by both scales; that is
done once, on the float32 sums.

Next: scales by blocks (``gemm_fp8_blockscale``), which keep outliers from spoiling a whole tensor.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def matmul_fp8(M, N, K, dtype, block_M=64, block_N=64, block_K=64):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        scale_A: T.Tensor((1,), "float32"),
        scale_B: T.Tensor((1,), "float32"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K], B_shared)
                T.gemm(A_shared, B_shared, C_local, transpose_B=True)

            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = C_local[i, j] * scale_A[0] * scale_B[0]
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def quantize(x: torch.Tensor, dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    """``x`` as float8 and the scale that restores it."""
    scale = (x.abs().max() / torch.finfo(dtype).max).reshape(1)
    return (x / scale).to(dtype), scale


def main(M: int = 128, N: int = 192, K: int = 256) -> None:
    for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
        a, scale_a = quantize(torch.randn(M, K, device=DEVICE), dtype)
        b, scale_b = quantize(torch.randn(N, K, device=DEVICE), dtype)
        c = matmul_fp8(M, N, K, dtype)(a, b, scale_a, scale_b)
        reference = (a.float() @ b.float().T) * scale_a * scale_b
        torch.testing.assert_close(c.float(), reference, rtol=2e-2, atol=2e-2)
    print("float8 GEMM: matches torch")


if __name__ == "__main__":
    main()
