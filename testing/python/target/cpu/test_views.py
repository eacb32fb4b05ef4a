"""Memory under several names: what is stored under one is what is read under another."""

from __future__ import annotations

import torch

import tilelang.language as T

from .support import build, on_both


@on_both
def test_rows_that_a_product_reads_as_fours(target):
    """Each step writes single elements of the tile and reads four at a time; LLVM assumed that the two do not alias."""
    heads, M, N, K, block = 2, 64, 24, 48, 24

    @T.prim_func
    def main(A: T.Tensor((heads, M, K), "int8"), B: T.Tensor((heads, K, N), "int8"), C: T.Tensor((heads, M, N), "int32")):
        with T.Kernel(N // block, T.ceildiv(M, block), heads, threads=128) as (bx, by, bz):
            a = T.alloc_shared((1, block, block), "int8")
            b = T.alloc_shared((block, block), "int8")
            c = T.alloc_fragment((block, block), "int32")
            T.clear(c)
            for k in T.serial(K // block):
                T.copy(A[bz, by * block, k * block], a)
                T.copy(B[bz, k * block, bx * block], b)
                T.gemm(a, b, c)
            T.copy(c, C[bz, by * block, bx * block])

    a = torch.randint(-128, 128, (heads, M, K), dtype=torch.int8)
    b = torch.randint(-128, 128, (heads, K, N), dtype=torch.int8)
    c = torch.zeros(heads, M, N, dtype=torch.int32)
    build(main, target)(a, b, c)
    assert torch.equal(c.double(), a.double() @ b.double())


@on_both
def test_a_view_of_another_type_in_a_loop(target):
    """Each step stores words and reads their halves, then stores bytes and reads them as words."""

    @T.prim_func
    def main(A: T.Tensor((50, 24), "int16"), n: T.int32, C: T.Tensor((16, 12), "int32"), D: T.Tensor((16, 48), "int32")):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((16, 24), "int16")
            words, parts = T.view(tile, (16, 12), "int32"), T.view(tile, (16, 48), "uint8")
            c, d = T.alloc_fragment((16, 12), "int32"), T.alloc_fragment((16, 48), "int32")
            T.clear(c)
            T.clear(d)
            for k in T.serial(n):
                T.copy(A[k * 16, 0], tile)
                for i, j in T.Parallel(16, 12):
                    c[i, j] = c[i, j] + words[i, j]
                    words[i, j] = c[i, j]
                for i, j in T.Parallel(16, 48):
                    d[i, j] = d[i, j] + parts[i, j]
            T.copy(c, C)
            T.copy(d, D)

    a = torch.randint(-100, 100, (50, 24), dtype=torch.int16)
    c, d = torch.zeros(16, 12, dtype=torch.int32), torch.zeros(16, 48, dtype=torch.int32)
    build(main, target)(a, 4, c, d)
    padded = torch.zeros(64, 24, dtype=torch.int16)
    padded[:50] = a
    sums = padded.view(4, 16, 24).view(torch.int32).cumsum(0).int()
    assert torch.equal(c, sums[-1])
    assert torch.equal(d, sums.view(torch.uint8).view(4, 16, 48).sum(0).int())
