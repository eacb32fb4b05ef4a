"""A format of twelve bits (five of exponent, six of mantissa), two elements in three bytes: rounding, packing and unpacking."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 37, "N": 96}
LARGE = {"to_e5m6": {"M": 8192, "N": 7168}, "from_e5m6": {"M": 8192, "N": 7168}}


@T.macro
def twelve_bits(value):
    half = T.cast(T.clamp(value, -64512.0, 64512.0), "float16")
    bits = T.cast(T.reinterpret(half, "uint16"), "uint32")
    return (bits + 7 + ((bits >> 4) & 1)) >> 4


@tilelang.jit(out_idx=[-1])
def to_e5m6(M, N, block_M=8, threads=128):
    @T.prim_func
    def main(X: T.Tensor((M, N), "bfloat16"), Y: T.Tensor((M, N // 2 * 3), "uint8")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            for i, j in T.Parallel(block_M, N // 2):
                if bx * block_M + i < M:
                    first = twelve_bits(X[bx * block_M + i, 2 * j])
                    second = twelve_bits(X[bx * block_M + i, 2 * j + 1])
                    pair = first | (second << 12)
                    for byte in T.unroll(3):
                        Y[bx * block_M + i, 3 * j + byte] = T.cast((pair >> (8 * byte)) & 0xFF, "uint8")

    return main


@tilelang.jit(out_idx=[-1])
def from_e5m6(M, N, block_M=8, threads=128):
    @T.prim_func
    def main(Y: T.Tensor((M, N // 2 * 3), "uint8"), X: T.Tensor((M, N), "float32")):
        with T.Kernel(T.ceildiv(M, block_M), threads=threads) as bx:
            bytes_shared = T.alloc_shared((block_M, N // 2 * 3), "uint8")
            T.copy(Y[bx * block_M, 0], bytes_shared)
            for i, j in T.Parallel(block_M, N):
                # An element begins with a byte, or in the middle of one.
                start = j // 2 * 3 + j % 2
                pair = bytes_shared[i, start].astype("uint16") | (bytes_shared[i, start + 1].astype("uint16") << 8)
                bits = T.if_then_else(j % 2 == 0, pair << 4, pair & 0xFFF0)
                if bx * block_M + i < M:
                    X[bx * block_M + i, j] = T.reinterpret(T.cast(bits, "uint16"), "float16").astype("float32")

    return main


def rounded(x):
    """The nearest number with six bits of mantissa behind the leading one, halves to even."""
    exponent = torch.floor(torch.log2(x.abs().clamp(min=2.0**-14)))
    step = torch.exp2(exponent - 6)
    return (x / step).round() * step


def check(M, N):
    x = (torch.randn(M, N) * torch.exp2(torch.randint(-18, 12, (M, N)).float())).to(torch.bfloat16)
    packed = to_e5m6(M, N)(x)
    assert torch.equal(from_e5m6(M, N)(packed), rounded(x.half().float()))
