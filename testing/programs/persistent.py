"""A product with an epilogue by blocks that stay, each taking tile after tile."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 200, "N": 150, "K": 100}
LARGE = {"persistent": {"M": 8192, "N": 8192, "K": 8192, "sms": 132, "block": 128}}


@tilelang.jit(out_idx=[-1])
def persistent(M, N, K, sms=3, block=64, block_K=32, dtype="bfloat16", act="gelu"):
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), bias: T.Tensor((N,), dtype), C: T.Tensor((M, N), dtype)):
        with T.Kernel(sms, threads=128) as b:
            A_s = T.alloc_shared((block, block_K), dtype)
            B_s = T.alloc_shared((block, block_K), dtype)
            C_l = T.alloc_fragment((block, block), "float32")
            C_s = T.alloc_shared((block, block), dtype)
            bias_l = T.alloc_fragment((block,), "float32")
            for bx, by in T.Persistent([T.ceildiv(M, block), T.ceildiv(N, block)], sms, b):
                T.clear(C_l)
                T.copy(bias[by * block], bias_l)
                for k in T.Pipelined(T.ceildiv(K, block_K), num_stages=3):
                    T.copy(A[bx * block, k * block_K], A_s)
                    T.copy(B[by * block, k * block_K], B_s)
                    T.gemm(A_s, B_s, C_l, transpose_B=True)
                for i, j in T.Parallel(block, block):
                    x = C_l[i, j] + bias_l[j]
                    if act == "gelu":
                        C_l[i, j] = 0.5 * x * (1 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))
                    elif act == "relu":
                        C_l[i, j] = T.max(x, 0)
                    else:
                        C_l[i, j] = x
                T.copy(C_l, C_s)
                T.copy(C_s, C[bx * block, by * block])

    return main


def check(M, N, K):
    a, b, bias = torch.randn(M, K).bfloat16(), (torch.randn(N, K) * 0.1).bfloat16(), torch.randn(N).bfloat16()
    y = a.float() @ b.float().T + bias.float()
    torch.testing.assert_close(
        persistent(M, N, K)(a, b, bias).float(), torch.nn.functional.gelu(y, approximate="tanh"), rtol=2e-2, atol=2e-2
    )
