"""float8 matrix product with a scale for every 128 columns of a row of A and for every 128x128 block of B.

What to learn: two accumulators. A part sums 128 columns on tensor cores with ``clear_accum``; then it is scaled into the
total in ordinary float32 arithmetic.

Why so: a scale for each 128 columns cannot be taken out of the sum over K. The same split also bounds the error of tensor
cores that add float8 products with fewer than 32 bits.

Next: quantise on the device (``swiglu_fp8``); one scale of A's row and B's block is loaded each step: prefetch them into
shared memory.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GROUP = 128


@tilelang.jit(out_idx=[-1])
def matmul_blockscale(M, N, K, block_M=64, block_N=64, dtype="float8_e4m3fn"):
    groups = T.ceildiv(K, GROUP)

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K), dtype),
        scale_A: T.Tensor((M, groups), "float32"),
        scale_B: T.Tensor((T.ceildiv(N, GROUP), groups), "float32"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, GROUP), dtype)
            B_shared = T.alloc_shared((block_N, GROUP), dtype)
            scale = T.alloc_shared((block_M,), "float32")
            part = T.alloc_fragment((block_M, block_N), "float32")
            total = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(total)
            for k in T.Pipelined(groups, num_stages=3):
                T.copy(A[by * block_M, k * GROUP], A_shared)
                T.copy(B[bx * block_N, k * GROUP], B_shared)
                for i in T.Parallel(block_M):
                    scale[i] = scale_A[by * block_M + i, k] * scale_B[bx * block_N // GROUP, k]
                T.gemm(A_shared, B_shared, part, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(block_M, block_N):
                    total[i, j] += part[i, j] * scale[i]
            T.copy(total, C[by * block_M, bx * block_N])

    return main


def quantize(x: torch.Tensor, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """``x`` as float8, one scale for each block of ``rows`` rows and 128 columns."""
    M, K = x.shape
    padded = torch.nn.functional.pad(x, (0, -K % GROUP, 0, -M % rows))
    blocks = padded.view(padded.shape[0] // rows, rows, -1, GROUP)
    scale = blocks.abs().amax(dim=(1, 3)).clamp(min=1e-6) / 448.0
    quantized = (blocks / scale[:, None, :, None]).to(torch.float8_e4m3fn)
    return quantized.view(padded.shape)[:M, :K].contiguous(), scale


def dequantize(x: torch.Tensor, scale: torch.Tensor, rows: int) -> torch.Tensor:
    wide = scale.repeat_interleave(rows, 0).repeat_interleave(GROUP, 1)
    return x.float() * wide[: x.shape[0], : x.shape[1]]


def main(M: int = 150, N: int = 256, K: int = 512) -> None:
    a, scale_a = quantize(torch.randn(M, K, device=DEVICE), rows=1)
    b, scale_b = quantize(torch.randn(N, K, device=DEVICE), rows=GROUP)
    c = matmul_blockscale(M, N, K)(a, b, scale_a, scale_b)
    reference = dequantize(a, scale_a, 1) @ dequantize(b, scale_b, GROUP).T
    torch.testing.assert_close(c.float(), reference, rtol=2e-2, atol=2e-2)
    print("block-scaled float8 GEMM: matches torch")


if __name__ == "__main__":
    main()
