"""Elementary functions of elementary functions compile in time that does not grow with their depth, and are right."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target.cpu.nesting import MAX_INLINE_WEIGHT, weight

CASES = {
    "log2 of exp2": (lambda x: T.exp2(T.log2(1 + T.exp2(x))), lambda x: torch.exp2(torch.log2(1 + torch.exp2(x)))),
    "four deep": (lambda x: T.tanh(T.exp(T.sigmoid(T.log(x)))), lambda x: torch.tanh(torch.exp(torch.sigmoid(torch.log(x))))),
    "exp10": (lambda x: T.exp10(T.tanh(T.erf(T.exp(x)))), lambda x: 10 ** torch.tanh(torch.erf(torch.exp(x)))),
}


@pytest.mark.parametrize("target", ["cpu", "c"])
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


@pytest.mark.parametrize("target", ["cpu", "c"])
def test_a_bound_value_counts_with_what_it_is_made_of(target: str):
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


def test_weight_counts_variables_as_their_values():
    from tilelang.ir import nodes as ir

    x, y = ir.Var("x", "float32"), ir.Var("y", "float32")
    square = ir.Let(y, x + x, y * y)
    assert weight(x, {}) == 1 and weight(x, {x: 50}) == 50
    assert weight(square, {}) == 1 + 2 * weight(x + x, {})
    assert MAX_INLINE_WEIGHT > 100
