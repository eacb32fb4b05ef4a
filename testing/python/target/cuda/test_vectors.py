"""Nests whose stores are collected into vectors: what the body reads is memory, not the vector that is being collected."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cuda.support import simulate


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
