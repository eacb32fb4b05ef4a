"""Groups of rows, of sizes that a tensor gives, cast to float8 by 128 columns into a tensor that has room for the largest."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"sizes": (50, 0, 45), "N": 256}
LARGE = {"cast_groups": {"groups": 4, "room": 4096, "N": 8192}}
GROUP = 128


@tilelang.jit(out_idx=[-2, -1])
def cast_groups(groups, room, N, block_M=8, dtype="bfloat16"):
    M = T.dynamic("M")

    @T.prim_func
    def main(
        X: T.Tensor((M, N), dtype),
        sizes: T.Tensor((groups,), "int32"),
        Y: T.Tensor((groups, room, N), "float8_e4m3fn"),
        scale: T.Tensor((groups, room, N // GROUP), "float32"),
    ):
        with T.Kernel(N // GROUP, T.ceildiv(room, block_M), groups, threads=128) as (bx, by, g):
            x = T.alloc_fragment((block_M, GROUP), "float32")
            amax = T.alloc_fragment((block_M,), "float32")
            y = T.alloc_fragment((block_M, GROUP), "float8_e4m3fn")
            first = T.alloc_fragment((1,), "int32")
            # Two rows a warp, four columns a thread.
            T.annotate_layout({x: T.Fragment(x.shape, lambda i, j: (i // 2 * 32 + j // 4, i % 2 * 4 + j % 4))})

            first[0] = by * block_M
            for before in T.serial(g):
                first[0] += sizes[before]
            T.copy(X[first[0] : first[0] + block_M, bx * GROUP : (bx + 1) * GROUP], x)
            T.reduce_absmax(x, amax, dim=1)
            for i in T.Parallel(block_M):
                amax[i] = T.if_then_else(by * block_M + i < sizes[g], T.max(amax[i], 1e-4) / 448.0, 0)
                scale[g, by * block_M + i, bx] = amax[i]
            for i, j in T.Parallel(block_M, GROUP):
                y[i, j] = T.if_then_else(amax[i] > 0, T.clamp(x[i, j] / amax[i], -448.0, 448.0), 0)
            T.copy(y, Y[g, by * block_M, bx * GROUP])

    return main


def check(sizes, N):
    x, room = torch.randn(sum(sizes), N).bfloat16(), -(-max(sizes) // 8) * 8
    y, scale = cast_groups(len(sizes), room, N)(x, torch.tensor(sizes).int())
    for g, part in enumerate(x.float().split(list(sizes))):
        expected = torch.zeros(room, N)
        expected[: sizes[g]] = part
        wide = scale[g].repeat_interleave(GROUP, 1)
        assert ((y[g].float() * wide - expected).abs() <= expected.abs() / 15 + wide * 2**-9).all()
