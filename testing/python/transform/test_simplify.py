"""Programs simplified before they are compiled: what nothing mentions then is no argument."""

from __future__ import annotations

import torch

import tilelang
import tilelang.language as T
from tilelang.transform.simplify import apply_simplify, simplify_prim_func


def biased(with_bias):
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), Bias: T.Tensor((n,), "float32"), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(n):
                if with_bias:
                    C[i] = A[i] + Bias[i]
                else:
                    C[i] = A[i]

    return main


def test_a_tensor_that_is_not_used_is_no_argument():
    a, bias, c = torch.randn(5), torch.randn(5), torch.empty(5)
    tilelang.compile(apply_simplify(biased(False)), target="cpu")(a, c)
    assert torch.equal(c, a)
    tilelang.compile(simplify_prim_func(biased)(True), target="cpu")(a, bias, c)
    assert torch.equal(c, a + bias)
    assert [param.name for param in simplify_prim_func(lambda: [biased(False)])()[0].params] == ["A", "C"]


def test_a_tensor_that_gives_a_size_stays():
    n, m = T.dynamic("n, m")

    @T.prim_func
    def main(A: T.Tensor((n, m), "int32"), Other: T.Tensor((n,), "int32"), C: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(4):
                C[i] = i * m

    kept = apply_simplify(main)
    assert [param.name for param in kept.params] == ["A", "C"]
    c = torch.empty(4, dtype=torch.int32)
    tilelang.compile(kept, target="cpu")(torch.zeros(2, 3, dtype=torch.int32), c)
    assert c.tolist() == [0, 3, 6, 9]
