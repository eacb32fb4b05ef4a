"""float8 of a weight with one scale a column, in two passes over tall columns, stored transposed for a product."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 100, "N": 72}
LARGE = {"quantize_per_channel": {"M": 7168, "N": 18432}}


@tilelang.jit(out_idx=[-2, -1])
def quantize_per_channel(M, N, block_M=32, block_N=64, dtype="bfloat16"):
    @T.prim_func
    def main(
        W: T.Tensor((M, N), dtype),
        Q: T.Tensor((N, M), "float8_e4m3fn"),
        scale: T.Tensor((N,), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), threads=256) as bx:
            w = T.alloc_fragment((block_M, block_N), dtype)
            amax = T.alloc_fragment((block_N,), "float32")
            s = T.alloc_shared((block_N,), "float32")
            w_shared = T.alloc_shared((block_M, block_N), dtype)
            q = T.alloc_fragment((block_N, block_M), "float8_e4m3fn")

            T.clear(amax)
            for k in T.Pipelined(T.ceildiv(M, block_M), num_stages=2):
                T.copy(W[k * block_M, bx * block_N], w)
                T.reduce_absmax(w, amax, dim=0, clear=False)
            for j in T.Parallel(block_N):
                s[j] = T.max(amax[j], 1e-6) / 448.0
                if bx * block_N + j < N:
                    scale[bx * block_N + j] = s[j]

            for k in T.Pipelined(T.ceildiv(M, block_M), num_stages=2):
                T.copy(W[k * block_M, bx * block_N], w_shared)
                for j, i in T.Parallel(block_N, block_M):
                    q[j, i] = T.clamp(w_shared[i, j] / s[j], -448.0, 448.0)
                T.copy(q, Q[bx * block_N, k * block_M])

    return main


def check(M, N):
    w = torch.randn(M, N, dtype=torch.bfloat16)
    q, scale = quantize_per_channel(M, N)(w)
    expected = w.float().abs().amax(0).clamp(min=1e-6) / 448.0
    torch.testing.assert_close(scale, expected)
    torch.testing.assert_close(q.float() * scale[:, None], w.float().T, rtol=2**-4, atol=2e-2 * float(expected.max()))
