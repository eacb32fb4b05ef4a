"""float4 with a scale of eight bits for every 32 elements of a row (microscaling): quantisation and its inverse."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 40, "N": 256}
LARGE = {"quantize_fp4": {"M": 8192, "N": 7168}, "dequantize_fp4": {"M": 8192, "N": 7168}}
GROUP = 32
VALUES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])


@tilelang.jit(out_idx=[-2, -1])
def quantize_fp4(M, N, block_M=32, block_N=128, dtype="bfloat16"):
    groups = block_N // GROUP

    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        Y: T.Tensor((M, N), "float4_e2m1fn"),
        scale: T.Tensor((M, N // GROUP), "uint8"),
    ):
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (bx, by):
            x = T.alloc_fragment((block_M, block_N), "float32")
            x_groups = T.reshape(x, (block_M, groups, GROUP))
            amax = T.alloc_fragment((block_M, groups), "float32")
            exponent = T.alloc_fragment((block_M, groups), "int32")
            y = T.alloc_fragment((block_M, block_N), "float4_e2m1fn")

            T.copy(X[bx * block_M, by * block_N], x)
            T.reduce_absmax(x_groups, amax, dim=2)
            for i, g in T.Parallel(block_M, groups):
                # The smallest power of two with which the group's largest element is at most 6.
                bits = T.reinterpret(T.max(amax[i, g], 1e-30) / 6.0, "int32")
                exponent[i, g] = (bits >> 23) + T.if_then_else((bits & 0x7FFFFF) > 0, 1, 0)
            for i, j in T.Parallel(block_M, block_N):
                y[i, j] = x[i, j] / T.reinterpret(exponent[i, j // GROUP] << 23, "float32")
            T.copy(y, Y[bx * block_M, by * block_N])
            for i, g in T.Parallel(block_M, groups):
                if bx * block_M + i < M:
                    scale[bx * block_M + i, by * groups + g] = T.cast(exponent[i, g], "uint8")

    return main


@tilelang.jit(out_idx=[-1])
def dequantize_fp4(M, N, block_M=32, block_N=128, dtype="bfloat16"):
    @T.prim_func
    def main(
        Y: T.Tensor((M, N), "float4_e2m1fn"),
        scale: T.Tensor((M, N // GROUP), "uint8"),
        X: T.Tensor((M, N), dtype),
    ):
        with T.Kernel(T.ceildiv(M, block_M), T.ceildiv(N, block_N), threads=128) as (bx, by):
            y = T.alloc_shared((block_M, block_N), "float4_e2m1fn")
            T.copy(Y[bx * block_M, by * block_N], y)
            for i, j in T.Parallel(block_M, block_N):
                if bx * block_M + i < M and by * block_N + j < N:
                    s = T.exp2(T.cast(scale[bx * block_M + i, (by * block_N + j) // GROUP], "float32") - 127)
                    X[bx * block_M + i, by * block_N + j] = T.cast(y[i, j], "float32") * s

    return main


def unpacked(y):
    """The numbers in bytes of two float4."""
    codes = torch.stack([y & 15, y >> 4 & 15], dim=-1).flatten(1).long()
    return VALUES[codes & 7] * torch.where(codes > 7, -1.0, 1.0)


def check(M, N):
    x = torch.randn(M, N).to(torch.bfloat16)
    y, scale = quantize_fp4(M, N)(x)
    blocks = x.float().view(M, -1, GROUP)
    exponent = torch.ceil(torch.log2(blocks.abs().amax(2) / 6.0))
    assert torch.equal(scale.float() - 127, exponent)
    scaled = blocks / torch.exp2(exponent)[..., None]
    numbers = unpacked(y.view(torch.uint8))
    distance = (scaled.abs()[..., None] - VALUES).abs().amin(-1)
    torch.testing.assert_close((numbers.view_as(scaled) - scaled).abs(), distance, rtol=0, atol=1e-6)
    expected = (numbers.view_as(scaled) * torch.exp2(exponent)[..., None]).view(M, N)
    assert torch.equal(dequantize_fp4(M, N)(y, scale).float(), expected)
