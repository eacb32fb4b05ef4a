"""The difference of two equal products is 0 on every target, as in the interpreter."""

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["interpret", "cpu", "c"]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_products_that_are_combined_are_rounded_first(target, dtype):
    @T.prim_func
    def main(A: T.Tensor((8, 100), dtype), B: T.Tensor((8, 100), dtype), scale: T.float32):
        with T.Kernel(1, threads=128):
            top = T.alloc_fragment((8,), dtype)
            T.copy(A[0, 0:8], top)
            for i, j in T.Parallel(8, 100):
                B[i, j] = A[i, j] * T.cast(scale, dtype) - top[i] * T.cast(scale, dtype)
            for i, j in T.Parallel(8, 100):
                B[i, j] += T.cast(-1, dtype) * A[i, j] * T.cast(scale, dtype) + A[i, j] * T.cast(scale, dtype)

    A = torch.full((8, 100), -1e30, dtype=getattr(torch, dtype))
    B = torch.ones_like(A)
    tilelang.compile(main, target=target)(A, B, 0.18033688)
    assert torch.equal(B, torch.zeros_like(A))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_whose_scores_are_all_masked(target):
    """As in a block of attention that no query may see: the sum is finite."""
    scale = 0.18033688

    @T.prim_func
    def main(A: T.Tensor((4, 64), "float32"), sums: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            scores = T.alloc_fragment((4, 64), "float32")
            top = T.alloc_fragment((4,), "float32")
            total = T.alloc_fragment((4,), "float32")
            T.copy(A, scores)
            T.reduce_max(scores, top, dim=1)
            for i, j in T.Parallel(4, 64):
                scores[i, j] = T.exp2(scores[i, j] * scale - top[i] * scale)
            T.reduce_sum(scores, total, dim=1)
            T.copy(total, sums)

    sums = torch.empty(4)
    tilelang.compile(main, target=target)(torch.full((4, 64), -1e30), sums)
    assert torch.equal(sums, torch.full((4,), 64.0))
