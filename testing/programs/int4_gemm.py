"""Weights of four bits with scales and packed zero points for groups of 64, dequantised into the left operand."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 33, "N": 64, "K": 128}
LARGE = {"int4_gemm": {"M": 256, "N": 4096, "K": 4096}}
GROUP = 64


def _dequant(word, pos, dtype):
    mask = T.uint8(0xF)
    return T.cast((word >> (pos * 4).astype("uint8")) & mask, dtype)


@tilelang.jit(out_idx=[-1])
def int4_gemm(M, N, K, block_M=32, block_N=64, block_K=64, dtype="float16"):
    per = 2

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype),
        B: T.Tensor((N, K // per), "uint8"),
        S: T.Tensor((N, K // GROUP), dtype),
        Z: T.Tensor((N, K // GROUP // 2), "uint8"),
        C: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            A_shared = T.alloc_shared((block_M, block_K), dtype)
            B_shared = T.alloc_shared((block_N, block_K // per), "uint8")
            B_local = T.alloc_fragment([block_N, block_K // per], "uint8")
            B_deq = T.alloc_fragment([block_N, block_K], dtype)
            B_prev = T.alloc_fragment([block_N, block_K], dtype)
            Ct = T.alloc_fragment((block_N, block_M), "float32")
            Ct_shared = T.alloc_shared((block_N, block_M), "float32")
            T.annotate_layout({B_shared: tilelang.layout.make_swizzled_layout(B_shared)})
            T.clear(Ct)
            for k in T.Pipelined(K // block_K, num_stages=3):
                T.copy(A[by * block_M, k * block_K], A_shared)
                T.copy(B[bx * block_N, k * block_K // per], B_shared)
                T.copy(B_shared, B_local)
                for i, j in T.Parallel(block_N, block_K):
                    group = (k * block_K + j) // GROUP
                    zero = _dequant(Z[bx * block_N + i, group // 2], group % 2, dtype)
                    B_deq[i, j] = (_dequant(B_local[i, j // per], j % per, dtype) - zero) * S[bx * block_N + i, group]
                T.copy(B_deq, B_prev)
                T.gemm(B_prev, A_shared, Ct, transpose_B=True)
            T.copy(Ct, Ct_shared)
            for i, j in T.Parallel(block_M, block_N):
                if by * block_M + i < M:
                    C[by * block_M + i, bx * block_N + j] = Ct_shared[j, i]

    return main


def pack(t):
    return (t[:, ::2] | t[:, 1::2] << 4).to(torch.uint8)


def check(M, N, K):
    a, codes, zeros = torch.randn(M, K).half(), torch.randint(0, 16, (N, K)), torch.randint(0, 16, (N, K // GROUP))
    s = torch.rand(N, K // GROUP).half()
    w = (codes - zeros.repeat_interleave(GROUP, 1)).float() * s.float().repeat_interleave(GROUP, 1)
    torch.testing.assert_close(int4_gemm(M, N, K)(a, pack(codes), s, pack(zeros)).float(), a.float() @ w.T, rtol=2e-2, atol=1.0)
