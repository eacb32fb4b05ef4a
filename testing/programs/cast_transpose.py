"""A cast to float8 by a given scale that also gives the transposed tensor, and the largest magnitude for the next scale."""

import torch

import tilelang
import tilelang.language as T

SMALL = {"M": 70, "N": 96}
LARGE = {"cast_transpose": {"M": 16384, "N": 4096}}


@tilelang.jit
def cast_transpose(X, scale, amax, block_M: int = 64, block_N: int = 64):
    M, N = T.const("M, N")
    X: T.Tensor[[M, N], T.bfloat16]
    scale: T.Tensor[[1], T.float32]
    amax: T.Tensor[[1], T.float32]
    Y = T.empty([M, N], T.float8_e4m3fn)
    Y_t = T.empty([N, M], T.float8_e4m3fn)

    with T.Kernel(T.ceildiv(N, block_N), T.ceildiv(M, block_M), threads=256) as (bx, by):
        x = T.alloc_fragment([block_M, block_N], T.bfloat16)
        y = T.alloc_shared([block_M, block_N], T.float8_e4m3fn)
        y_t = T.alloc_shared([block_N, block_M], T.float8_e4m3fn)
        row_max = T.alloc_fragment([block_M], T.float32)
        tile_max = T.alloc_fragment([1], T.float32)
        s = scale[0]

        T.copy(X[by * block_M, bx * block_N], x)
        T.reduce_absmax(x, row_max, dim=1)
        T.reduce_max(row_max, tile_max)
        T.atomic_max(amax[0], tile_max[0])
        for i, j in T.Parallel(block_M, block_N):
            y[i, j] = T.clamp(x[i, j] * s, -448.0, 448.0)
        T.transpose(y, y_t)
        T.copy(y, Y[by * block_M, bx * block_N])
        T.copy(y_t, Y_t[bx * block_N, by * block_M])
    return Y, Y_t


def check(M, N):
    x, scale, amax = torch.randn(M, N).bfloat16(), torch.tensor([100.0]), torch.zeros(1)
    y, y_t = cast_transpose(x, scale, amax)
    expected = (x.float() * 100).clamp(-448, 448).to(torch.float8_e4m3fn)
    assert torch.equal(y.float(), expected.float()) and torch.equal(y_t.float(), expected.float().T)
    assert amax.item() == x.float().abs().max().item()
