"""Nests whose stores are collected into vectors: what the body reads is memory, not the vector that is being collected."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate, source


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
@pytest.mark.parametrize("scope", ["shared", "global"])
def test_a_condition_around_a_read_of_the_element_that_is_stored(dtype, scope):
    @T.prim_func
    def main(A: T.Tensor((60, 64), dtype), B: T.Tensor((60, 64), dtype)):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), dtype) if scope == "shared" else B
            T.copy(A, tile[0:60, :])
            for i, j in T.Parallel(60 if scope == "shared" else 64, 64):
                tile[i, j] = T.if_then_else(i < j, 0, tile[i, j])
            for i, j in T.Parallel(60, 64):
                tile[i, j] = T.if_then_else(j % 2 == 0, tile[i, j] + A[i, j], tile[i, j])
            if scope == "shared":
                T.copy(tile[0:60, :], B)

    a = torch.randint(-50, 50, (60, 64), generator=torch.Generator().manual_seed(0)).to(getattr(torch, dtype))
    b = torch.zeros_like(a)
    simulate(main, a, b)
    lower = a.float().tril()
    lower[:, ::2] += a.float()[:, ::2]
    assert torch.equal(b.float(), lower)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_places_that_are_loaded_do_not_narrow_vectors(arch):
    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"), table: T.Tensor((4,), "int32"), B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((4, 16, 64), "float16"),
    ):  # fmt: skip
        with T.Kernel(4, threads=128) as bx:
            tile = T.alloc_shared((16, 64), "float16")
            T.copy(A[table[bx], 0], tile)
            T.copy(tile, B[table[3 - bx], 0])
            for i, j in T.Parallel(16, 64):
                C[bx, i, j] = A[table[bx] + i, j]

    a, table = torch.randn(64, 64).half(), torch.tensor([48, 0, 32, 16], dtype=torch.int32)
    b, c = torch.zeros(64, 64).half(), torch.zeros(4, 16, 64).half()
    simulate(main, a, table, b, c, arch=arch)
    tiles = torch.stack([a[row : row + 16] for row in table])
    assert torch.equal(c, tiles) and torch.equal(b.reshape(4, 16, 64)[table.flip(0) // 16], tiles)
    text = source(main, arch)
    assert "half(0)" not in text and "cp_async_16_zfill" in text
