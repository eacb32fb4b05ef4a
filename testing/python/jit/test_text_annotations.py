"""Annotations that are text, as ``from __future__ import annotations`` makes them."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T


@tilelang.jit(target="cpu")
def scaled(A, factor: T.float32, times: T.int32, offset: int = 0):
    n = T.dynamic("n")
    A: T.Tensor((n,), "float32")
    B = T.empty((n,), "float32")
    with T.Kernel(1, threads=32):
        for i in T.Parallel(n):
            B[i] = A[i] * factor * times + offset
    return B


def test_numbers_of_a_call_are_no_constants_of_the_kernel():
    kernels = {scaled.compile(torch.ones(3), factor, times).cache_key for factor, times in ((1.5, 2), (2.5, 3))}
    assert len(kernels) == 1 and scaled._eager.scalars == {"factor", "times"}
    assert scaled(torch.ones(3), 1.5, 2, offset=1).tolist() == [4.0] * 3
    assert scaled(torch.ones(3), 2.5, 3).tolist() == [7.5] * 3


def test_annotations_name_what_surrounds_the_function():
    dtype, size = "int32", 4

    @tilelang.jit(target="cpu")
    def doubled(A: T.Tensor((size,), dtype)):
        B = T.empty((size,), dtype)
        with T.Kernel(1, threads=32):
            for i in T.Parallel(size):
                B[i] = A[i] * 2
        return B

    assert doubled(torch.arange(4, dtype=torch.int32)).tolist() == [0, 2, 4, 6]
