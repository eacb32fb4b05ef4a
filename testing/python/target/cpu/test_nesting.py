"""Elementary functions of elementary functions compile in time that does not grow with their depth, and are right."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

from .support import build, on_both

CASES = {
    "log2 of exp2": (lambda x: T.exp2(T.log2(1 + T.exp2(x))), lambda x: torch.exp2(torch.log2(1 + torch.exp2(x)))),
    "four deep": (lambda x: T.tanh(T.exp(T.sigmoid(T.log(x)))), lambda x: torch.tanh(torch.exp(torch.sigmoid(torch.log(x))))),
    "exp10": (lambda x: T.exp10(T.tanh(T.erf(T.exp(x)))), lambda x: 10 ** torch.tanh(torch.erf(torch.exp(x)))),
}


@on_both
@pytest.mark.parametrize("name", list(CASES))
def test_deep_expressions_are_right(name: str, target: str):
    ours, reference = CASES[name]

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                B[i] = ours(A[i])

    a = torch.rand(64) + 0.5
    torch.testing.assert_close(tilelang.compile(main, out_idx=-1, target=target)(a), reference(a), rtol=2e-6, atol=1e-6)


@on_both
def test_nesting_through_a_bound_value_is_counted(target: str):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), x: T.float32):
        with T.Kernel(1, threads=32):
            y = T.log2(1 - T.exp2(-5.0 - x))
            for i in T.Parallel(64):
                A[i] = T.exp2((i + 1) * y)

    a = torch.empty(64)
    tilelang.compile(main, target=target)(a, 0.5)
    y = torch.log2(1 - torch.exp2(torch.tensor(-5.5)))
    torch.testing.assert_close(a, torch.exp2(torch.arange(1, 65) * y), rtol=1e-5, atol=1e-6)


@on_both
def test_a_value_that_is_named_inside_another(target):
    """The same load twice: what the analyzer of TVM makes of the inner name contradicts what the outer one says."""

    @T.prim_func
    def main(A: T.Tensor((128,), "float32"), B: T.Tensor((128,), "float32"), C: T.Tensor((128,), "int32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                B[i] = T.clamp(A[i] - A[i], T.float32(-20), T.float32(20))
                C[i] = T.max(C[i] - C[i], T.min(C[i] - C[i], 3)) // (C[i] - C[i] + 3)

    a, b, c = torch.arange(128.0), torch.ones(128), torch.arange(128, dtype=torch.int32)
    build(main, target)(a, b, c)
    assert not b.any() and not c.any()


@on_both
def test_named_values_of_an_arm_are_computed_under_its_condition(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), At: T.Tensor((64,), "int32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = T.if_then_else(At[i] >= 0, T.exp(A[At[i]]) if i < 60 else T.tanh(A[i]), T.max(A[i], 0.5))

    a, at = torch.randn(64), torch.arange(64, dtype=torch.int32) - 8
    b = torch.zeros(64)
    build(main, target)(a, at, b)
    inner = torch.where(torch.arange(64) < 60, torch.exp(a[at.clamp(min=0).long()]), torch.tanh(a))
    torch.testing.assert_close(b, torch.where(at >= 0, inner, a.clamp(min=0.5)))
