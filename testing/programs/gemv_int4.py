"""Weights of four bits with a scale and a zero point for every 64, times one vector: threads split K and reduce by shuffles."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"N": 40, "K": 512}
LARGE = {"gemv_int4": {"N": 4096, "K": 16384}}
TARGETS = ("interpret", "sm_80", "sm_90a")
GROUP = 64


@tilelang.jit(out_idx=[-1])
def gemv_int4(N, K, rows=4, lanes=32):
    per_step = 8 * lanes

    @T.prim_func
    def main(
        x: T.Tensor((K,), "float16"),
        W: T.Tensor((N, K // 8), "uint32"),
        scale: T.Tensor((N, K // GROUP), "float16"),
        zero: T.Tensor((N, K // GROUP), "float16"),
        y: T.Tensor((N,), "float16"),
    ):
        with T.Kernel(T.ceildiv(N, rows), threads=(lanes, rows)) as bx:
            tx, ty = T.get_thread_binding(0), T.get_thread_binding(1)
            x_local = T.alloc_local((8,), "float16")
            total = T.alloc_local((1,), "float32")
            row = bx * rows + ty
            total[0] = 0
            if row < N:
                for k in T.serial(T.ceildiv(K, per_step)):
                    first = k * per_step + tx * 8
                    for v in T.vectorized(8):
                        x_local[v] = x[first + v]
                    word = W[row, first // 8]
                    s = T.cast(scale[row, first // GROUP], "float32")
                    z = T.cast(zero[row, first // GROUP], "float32")
                    for v in T.unroll(8):
                        total[0] += ((word >> (4 * v)) & 0xF).astype("float32") * s * x_local[v] + z * x_local[v]
            for step in [16, 8, 4, 2, 1]:
                total[0] += T.shfl_down(total[0], step)
            if tx == 0 and row < N:
                y[row] = total[0]

    return main


def check(N, K):
    x, codes = torch.randn(K).half(), torch.randint(0, 16, (N, K))
    scale, zero = torch.rand(N, K // GROUP).half(), -torch.rand(N, K // GROUP).half()
    words = sum(codes[:, i::8] << (4 * i) for i in range(8)).to(torch.uint32)
    y = gemv_int4(N, K)(x, words, scale, zero)
    w = codes.float() * scale.float().repeat_interleave(GROUP, 1) + zero.float().repeat_interleave(GROUP, 1)
    torch.testing.assert_close(y.float(), w @ x.float(), rtol=1e-2, atol=0.1)
