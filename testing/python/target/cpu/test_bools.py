"""Bools as operands: compared with each other, inverted, combined."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from testing.python.target.cpu.support import build, on_both

OPERATIONS = {
    "equal": (lambda a, b: a == b, lambda a, b: a == b),
    "unequal": (lambda a, b: a != b, lambda a, b: a ^ b),
    "inverted": (lambda a, b: ~a, lambda a, b: ~a),
    "both": (lambda a, b: a & ~b, lambda a, b: a & ~b),
    "either": (lambda a, b: a | b, lambda a, b: a | b),
    "one": (lambda a, b: a ^ b, lambda a, b: a ^ b),
}


@on_both
@pytest.mark.parametrize("name", OPERATIONS)
def test_conditions(name, target):
    operation, reference = OPERATIONS[name]

    @T.prim_func
    def main(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                C[i] = T.if_then_else(operation(A[i] > 0, B[i] > 0), 2, 1)

    a, b, c = torch.randn(64), torch.randn(64), torch.zeros(64, dtype=torch.int32)
    build(main, target)(a, b, c)
    assert torch.equal(c, reference(a > 0, b > 0).int() + 1)


@on_both
def test_a_branch_on_two_comparisons(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), B: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                if (A[i] == 1) != (A[7 - i] == 3):
                    B[i] = 1

    a, b = torch.arange(8, dtype=torch.int32), torch.zeros(8, dtype=torch.int32)
    build(main, target)(a, b)
    assert b.tolist() == [int((i == 1) != (7 - i == 3)) for i in range(8)]
