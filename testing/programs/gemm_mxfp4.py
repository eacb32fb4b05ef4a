"""bfloat16 activations times float4 weights with a scale of eight bits for every 32 of them: weights widened on the way."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 40, "N": 72, "K": 128}
LARGE = {"gemm_mxfp4": {"M": 4096, "N": 5760, "K": 2880}}
GROUP = 32
VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@tilelang.jit(out_idx=[-1])
def gemm_mxfp4(M, N, K, block_M=64, block_N=64, block_K=64, num_stages=2, threads=128):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K // 2), "uint8"),
        scale: T.Tensor((N, K // GROUP), "uint8"),
        bias: T.Tensor((N,), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=threads) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), "bfloat16")
            B_shared = T.alloc_shared((block_N, block_K // 2), "uint8")
            B_local = T.alloc_fragment((block_N, block_K // 2), "uint8")
            B_wide = T.alloc_fragment((block_N, block_K), "bfloat16")
            B_wide_shared = T.alloc_shared((block_N, block_K), "bfloat16")
            C_local = T.alloc_fragment((block_M, block_N), "float32")
            C_shared = T.alloc_shared((block_M, block_N), "bfloat16")

            T.use_swizzle(10)
            for i, j in T.Parallel(block_M, block_N):
                C_local[i, j] = 0
                if bx * block_N + j < N:
                    C_local[i, j] = bias[bx * block_N + j]
            for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=num_stages):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // 2], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    code = (B_local[i, j // 2] >> ((j % 2) * 4)) & 0xF
                    sign = T.cast(code >> 3, "uint16") << 15
                    magnitude = code & 7
                    # One bit of mantissa: 0 and 0.5 are the subnormals, the other exponents move from a bias of 1 to one of 127.
                    exponent = T.cast(magnitude >> 1, "uint16") + 126
                    bits = T.if_then_else(
                        magnitude < 2,
                        T.if_then_else(magnitude == 1, T.uint16(0x3F00), T.uint16(0)),
                        (exponent << 7) | (T.cast(magnitude & 1, "uint16") << 6),
                    )
                    s = T.exp2(T.cast(scale[bx * block_N + i, (k * block_K + j) // GROUP], "float32") - 127.0)
                    B_wide[i, j] = T.reinterpret("bfloat16", T.cast(sign | bits, "uint16")) * s
                T.copy(B_wide, B_wide_shared)
                T.gemm(A_shared, B_wide_shared, C_local, transpose_B=True)
            T.copy(C_local, C_shared)
            T.copy(C_shared, C[by * block_M, bx * block_N])

    return main


def check(M, N, K):
    a, codes = torch.randn(M, K).bfloat16(), torch.randint(0, 16, (N, K))
    scale = torch.randint(122, 129, (N, K // GROUP), dtype=torch.uint8)
    bias = torch.randn(N).bfloat16()
    b = (codes[:, ::2] | (codes[:, 1::2] << 4)).to(torch.uint8)
    values = VALUES[codes & 7] * torch.where(codes > 7, -1.0, 1.0)
    values = values * torch.exp2(scale.float() - 127).repeat_interleave(GROUP, 1)
    c = gemm_mxfp4(M, N, K)(a, b, scale, bias)
    torch.testing.assert_close(c.float(), a.float() @ values.T + bias.float(), rtol=2e-2, atol=2e-2)
