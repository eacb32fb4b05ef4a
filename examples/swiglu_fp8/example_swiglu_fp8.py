"""SwiGLU whose result leaves as float8, with one scale for every 128 columns of a row.

What to learn: an activation and a quantisation in one pass. A reduction over part of a row (``T.reshape`` gives the tile a
third axis, ``T.reduce_absmax`` takes it away) yields the scales; everything stays in registers between one load and one
store.

Why so: the product after it reads float8, and this kernel is bound by memory. Written as float16 first, the result would
cross the memory three times instead of once. Scales may be rounded up to powers of two, which a product can apply by adding
exponents.

Next: multiply by the weights of routed tokens before quantising; feed the result to ``gemm_fp8_blockscale``.
"""

import torch

import tilelang
import tilelang.language as T

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
GROUP = 128
LARGEST = 448.0  # of float8_e4m3fn


@tilelang.jit(out_idx=[-2, -1])
def swiglu_quantized(N, block_M=4, block_N=256, power_of_two=False, dtype="bfloat16"):
    """For any number of rows; ``X`` has the gates of a row, then what they are for."""
    M = T.dynamic("M")
    groups = block_N // GROUP

    @T.prim_func
    def main(
        X: T.Tensor((M, 2 * N), dtype),
        Y: T.Tensor((M, N), "float8_e4m3fn"),
        scale: T.Tensor((M, N // GROUP), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=128) as (bx, by):
            gate = T.alloc_fragment((block_M, block_N), dtype)
            up = T.alloc_fragment((block_M, block_N), dtype)
            y = T.alloc_fragment((block_M, block_N), "float32")
            y_groups = T.reshape(y, (block_M, groups, GROUP))
            amax = T.alloc_fragment((block_M, groups), "float32")
            s = T.alloc_fragment((block_M, groups), "float32")

            T.copy(X[by * block_M, bx * block_N], gate)
            T.copy(X[by * block_M, N + bx * block_N], up)
            for i, j in T.Parallel(block_M, block_N):
                y[i, j] = gate[i, j] * T.sigmoid(T.cast(gate[i, j], "float32")) * up[i, j]
            T.reduce_absmax(y_groups, amax, dim=2)
            for i, g in T.Parallel(block_M, groups):
                s[i, g] = T.max(amax[i, g], 1e-4) / LARGEST
                if power_of_two:
                    s[i, g] = T.exp2(T.ceil(T.log2(s[i, g])))
            for i, g, j in T.Parallel(block_M, groups, GROUP):
                y_groups[i, g, j] = T.clamp(y_groups[i, g, j] / s[i, g], -LARGEST, LARGEST)
            T.copy(y, Y[by * block_M, bx * block_N])
            T.copy(s, scale[by * block_M, bx * groups])

    return main


def main(M: int = 300, N: int = 1024) -> None:
    x = torch.randn(M, 2 * N, device=DEVICE, dtype=torch.bfloat16)
    gate, up = x.float().chunk(2, dim=1)
    expected = torch.nn.functional.silu(gate) * up
    for power_of_two in (False, True):
        y, scale = swiglu_quantized(N, power_of_two=power_of_two)(x)
        wide = scale.repeat_interleave(GROUP, 1)
        # Half a unit in the last place of float8: 1/16 of a value, or of the smallest normal number.
        assert ((y.float() * wide - expected).abs() <= expected.abs() / 15 + wide * 2**-9).all()
        assert not power_of_two or torch.equal(scale, torch.exp2(scale.log2().round()))
    print("SwiGLU to float8: matches torch")


if __name__ == "__main__":
    main()
