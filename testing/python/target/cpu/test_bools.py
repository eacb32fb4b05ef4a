"""Bools as operands: compared with each other, inverted, combined."""

from __future__ import annotations

import operator

import pytest
import torch

import tilelang.language as T
from testing.python.target.cpu.support import WIDE, build, on_both
from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext
from tilelang.target.info import parse_target
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

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


def combined(operation, number):
    """Elements that ``number`` conditions mask."""

    @T.prim_func
    def main(A: T.Tensor((16, 36), "float32"), B: T.Tensor((16, 36), "float32"), by: T.int32):
        with T.Kernel(1, threads=64):
            for a, c in T.Parallel(16, 36):
                kept = A[a, c] > 0
                for condition in [by * 3 + c // 6 - a < i for i in range(number)]:
                    kept = operation(kept, condition)
                B[a, c] = T.if_then_else(kept, A[a, c], -1.0)

    return main


@pytest.mark.parametrize("name", ["and_", "or_", "xor", "eq", "ne", "lt"])
def test_code_generation_has_no_values_of_conditions(name):
    """TVM's analyzer would take several times longer for each more of a chain: minutes for ten."""
    program = combined(getattr(operator, name), 10)
    request = CompileRequest(parse_target("cpu"), backend="tvm_ffi")
    body = run(pipeline.LLVM, program, CpuContext(request, "main", WIDE), stop_after="lower_machine").value.func.body
    assert not [node for node in walk(body) if isinstance(node, ir.Bind) and str(node.var.ty) == "bool"]

    a, b = torch.randn(16, 36), torch.zeros(16, 36)
    build(program)(a, b, 1)
    kept, place = a > 0, 3 + torch.arange(36) // 6 - torch.arange(16)[:, None]
    for i in range(10):
        kept = getattr(torch, {"and_": "logical_and", "or_": "logical_or", "xor": "logical_xor"}.get(name, name))(kept, place < i)
    assert torch.equal(b, torch.where(kept, a, -1.0))
