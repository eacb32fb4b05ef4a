"""``clear=False``: what a reduction's destination held counts once, however many threads share a row."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning

KINDS = ("sum", "abssum", "max", "min", "absmax")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows, columns", [(64, 64), (128, 4)])
def test_old_results_count_once(kind, rows, columns):
    @T.prim_func
    def program(A: T.Tensor((rows, columns), "float32"), Y: T.Tensor((2, rows), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((rows, columns), "float32")
            T.copy(A, a)
            for line in range(2):
                y = T.alloc_fragment((rows,), "float32")
                T.copy(Y[line, 0], y)
                getattr(T, f"reduce_{kind}")(a, y, dim=1, clear=False)
                T.copy(y, Y[line, 0])

    check_meaning(program, torch.randint(-8, 9, (rows, columns)).float(), torch.randint(1, 9, (2, rows)).float())


@pytest.mark.parametrize("kind", ["max", "min"])
def test_an_old_result_that_is_nan_is_ignored_like_an_element(kind):
    """A row in which the old result and all elements are NaN gives the initial value of the reduction."""

    @T.prim_func
    def program(A: T.Tensor((4, 16), "float32"), Y: T.Tensor((4,), "float32")):
        with T.Kernel(1, threads=64):
            a, y = T.alloc_fragment((4, 16), "float32"), T.alloc_fragment((4,), "float32")
            for i, j in T.Parallel(4, 16):
                a[i, j] = T.sqrt(A[i, j])
            T.copy(Y, y)
            getattr(T, f"reduce_{kind}")(a, y, dim=1, clear=False)
            T.copy(y, Y)

    a = torch.full((4, 16), -1.0)
    a[0] = 1
    check_meaning(program, a, torch.tensor([torch.nan, 2, torch.nan, -torch.inf]))
