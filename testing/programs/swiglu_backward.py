"""The gradient of SwiGLU, each token weighted, in bfloat16 and as float8 with a scale for every 128 columns."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 20, "N": 256}
LARGE = {"swiglu_backward": {"M": 32768, "N": 2048}}
GROUP = 128


@tilelang.jit(out_idx=[3, 4, 5, 6])
def swiglu_backward(M, N, block_M=8, threads=128):
    groups = 2 * N // GROUP

    @T.prim_func
    def main(
        X: T.Tensor((M, 2 * N), "bfloat16"),
        dY: T.Tensor((M, N), "bfloat16"),
        weight: T.Tensor((M,), "float32"),
        dX: T.Tensor((M, 2 * N), "bfloat16"),
        dX_fp8: T.Tensor((M, 2 * N), "float8_e4m3fn"),
        dX_scale: T.Tensor((M, groups), "float32"),
        dweight: T.Tensor((M,), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            row = bx * block_M
            gate = T.alloc_fragment((block_M, GROUP), "float32")
            up = T.alloc_fragment((block_M, GROUP), "float32")
            dy = T.alloc_fragment((block_M, GROUP), "float32")
            part = T.alloc_fragment((block_M, GROUP), "float32")
            part_sum = T.alloc_fragment((block_M,), "float32")
            amax = T.alloc_fragment((2, block_M), "float32")
            scale = T.alloc_fragment((2, block_M), "float32")
            w = T.alloc_fragment((block_M,), "float32")
            dw = T.alloc_fragment((block_M,), "float32")

            T.copy(weight[row : row + block_M], w)
            T.clear(dw)
            for g in T.serial(N // GROUP):
                T.copy(X[row, g * GROUP], gate)
                T.copy(X[row, N + g * GROUP], up)
                T.copy(dY[row, g * GROUP], dy)
                for i, j in T.Parallel(block_M, GROUP):
                    sigmoid = T.sigmoid(gate[i, j])
                    silu = gate[i, j] * sigmoid
                    part[i, j] = silu * up[i, j] * dy[i, j]
                    grad = dy[i, j] * w[i]
                    gate_grad = grad * up[i, j] * sigmoid * (1 + gate[i, j] * (1 - sigmoid))
                    up[i, j] = grad * silu
                    gate[i, j] = gate_grad
                T.reduce_sum(part, part_sum, dim=1)
                T.reduce_absmax(gate, amax[0, :], dim=1)
                T.reduce_absmax(up, amax[1, :], dim=1)
                for i in T.Parallel(block_M):
                    dw[i] += part_sum[i]
                for half, i in T.Parallel(2, block_M):
                    scale[half, i] = T.max(amax[half, i], 1e-4) / 448.0
                    if row + i < M:
                        dX_scale[row + i, half * (N // GROUP) + g] = scale[half, i]
                T.copy(gate, dX[row, g * GROUP])
                T.copy(up, dX[row, N + g * GROUP])
                for i, j in T.Parallel(block_M, GROUP):
                    gate[i, j] = gate[i, j] / scale[0, i]
                    up[i, j] = up[i, j] / scale[1, i]
                T.copy(gate, dX_fp8[row, g * GROUP])
                T.copy(up, dX_fp8[row, N + g * GROUP])
            T.copy(dw, dweight[row])

    return main


def check(M, N):
    x = torch.randn(M, 2 * N).bfloat16()
    dy, weight = torch.randn(M, N).bfloat16(), torch.rand(M)
    dx, dx_fp8, scale, dweight = swiglu_backward(M, N)(x, dy, weight)
    wide, w = x.float().requires_grad_(), weight.clone().requires_grad_()
    gate, up = wide.chunk(2, dim=1)
    (torch.nn.functional.silu(gate) * up * w[:, None]).backward(dy.float())
    torch.testing.assert_close(dx.float(), wide.grad, rtol=2e-2, atol=1e-3)
    torch.testing.assert_close(dweight, w.grad, rtol=1e-4, atol=1e-3)
    dequantized = dx_fp8.float() * scale.repeat_interleave(GROUP, 1)
    torch.testing.assert_close(dequantized, wide.grad, rtol=2**-4, atol=float(scale.max()) * 2**-6)
