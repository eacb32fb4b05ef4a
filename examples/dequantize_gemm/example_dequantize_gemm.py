"""Matrix product with 4-bit weights: two weights a byte, one scale a group of K, unpacked between load and product.

What to learn: arithmetic between load and product. Bytes are copied to shared memory as they are, unpacked to float16 in
registers by a ``T.Parallel``, scaled, and put into a second shared tile that ``T.gemm`` reads.

Why so: with few rows of A the product is bound by reading the weights; at four bits they are a quarter of float16. Unpacking
in registers, between two tiles, lets the copies of the next iteration run meanwhile.

Next: unsigned zero points in place of the fixed 8; ``"int4"`` is an element type of its own.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@tilelang.jit(out_idx=[-1])
def matmul_int4(M, N, K, group=64, block_M=64, block_N=64, block_K=64, dtype="float16"):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K // 2), "uint8"),
        scales: T.Tensor((N, K // group), dtype),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_wide = T.alloc_fragment((block_N, block_K), dtype)
            B_wide_shared = T.alloc_shared((block_N, block_K), dtype)
            C_local = T.alloc_fragment((block_M, block_N), "float32")

            T.clear(C_local)
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=2):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * (block_K // 2)], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    nibble = (B_local[i, j // 2] >> T.cast(j % 2 * 4, "uint8")) & T.uint8(15)
                    B_wide[i, j] = (T.cast(nibble, dtype) - T.cast(8, dtype)) * scales[
                        bx * block_N + i, (k * block_K + j) // group
                    ]
                T.copy(B_wide, B_wide_shared)
                T.gemm(A_shared, B_wide_shared, C_local, transpose_B=True)
            T.copy(C_local, C[by * block_M, bx * block_N])

    return main


def main(M: int = 100, N: int = 192, K: int = 256, group: int = 64) -> None:
    a = torch.randn(M, K, device=DEVICE, dtype=torch.float16)
    weights = torch.randint(0, 16, (N, K), device=DEVICE, dtype=torch.uint8)
    scales = torch.rand(N, K // group, device=DEVICE, dtype=torch.float16) * 0.1
    packed = weights[:, 0::2] | (weights[:, 1::2] << 4)
    c = matmul_int4(M, N, K, group)(a, packed, scales)
    wide = (weights.half() - 8) * scales.repeat_interleave(group, dim=1)
    torch.testing.assert_close(c.float(), a.float() @ wide.float().T, rtol=1e-2, atol=2e-2)
    print("4-bit dequantise GEMM: matches torch")


if __name__ == "__main__":
    main()
