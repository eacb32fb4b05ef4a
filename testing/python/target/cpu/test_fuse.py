"""Loops and the reduction of what they make run piece by piece, exactly where that changes nothing."""

from __future__ import annotations

import pytest
import torch

import tilelang.language as T
from tilelang.ir import nodes as ir
from tilelang.ir.visit import children, walk
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.info import TargetInfo
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

from .support import build

F32 = "float32"
MACHINE = TargetInfo(kind="cpu", arch="x86-64-v4", features=("avx512f",), triple="x86_64-unknown-linux-gnu")


def fused(func) -> int:
    """How many reductions have a loop that makes the elements of a piece before it combines them."""
    context = CpuContext(CompileRequest(MACHINE, backend="tvm_ffi"), "main", vector_unit(MACHINE))
    body = run(pipeline.LLVM, func, context, stop_after="lower_tiles").value.body
    pieces = [stmt for stmt in walk(body) if isinstance(stmt, ir.For) and stmt.loop_var.name == "r"]
    return sum(any(isinstance(part, ir.For) for part in children(piece.body)) for piece in pieces)


def same_as_interpreter(func, *tensors):
    """Runs a program on the CPU and in the interpreter; compares all tensors."""
    results = []
    for target in ("cpu", "interpret"):
        own = [tensor.clone() for tensor in tensors]
        build(func, target)(*own)
        results.append(own)
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def deviation(rows, length, block):
    """The mean and the sum of squared deviations of each row; blocks of rows may end past the tensor."""

    @T.prim_func
    def main(X: T.Tensor((rows, length), F32), Y: T.Tensor((rows, 2), F32), Z: T.Tensor((rows, length), F32)):
        with T.Kernel(T.ceildiv(rows, block), threads=128) as bx:
            x = T.alloc_fragment((block, length), F32)
            squares = T.alloc_fragment((block, length), F32)
            total = T.alloc_fragment((block,), F32)
            mean = T.alloc_fragment((block,), F32)
            T.copy(X[bx * block, 0], x)
            T.reduce_sum(x, mean, dim=1)
            for i in T.Parallel(block):
                mean[i] = mean[i] / length
            for i, j in T.Parallel(block, length):
                x[i, j] = x[i, j] - mean[i]
            for i, j in T.Parallel(block, length):
                squares[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(squares, total, dim=1)
            for i in T.Parallel(block):
                if bx * block + i < rows:
                    Y[bx * block + i, 0] = mean[i]
                    Y[bx * block + i, 1] = total[i]
            T.copy(x, Z[bx * block, 0])

    return main


@pytest.mark.parametrize("length", [1, 40, 311, 512])
@pytest.mark.parametrize(("rows", "block"), [(6, 3), (5, 2)])
def test_results_equal_those_of_the_interpreter(rows, block, length):
    torch.manual_seed(5)
    x = torch.randn(rows, length)
    same_as_interpreter(deviation(rows, length, block), x, torch.zeros(rows, 2), torch.zeros(rows, length))


def test_loops_that_are_fused():
    assert fused(deviation(6, 256, 1)) == 2
    assert fused(deviation(6, 256, 3)) == 2
    # The copy of a tile that may end past the tensor asks for its edge as a whole.
    assert fused(deviation(5, 256, 2)) == 1


def apart(kind, length=256):
    """A loop and a reduction that must not run piece by piece, or only some of the loops."""

    @T.prim_func
    def main(X: T.Tensor((2, length), F32), Y: T.Tensor((2,), F32), Z: T.Tensor((2, length), F32)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((2, length), F32)
            y = T.alloc_fragment((2, length), F32)
            most = T.alloc_fragment((2,), F32)
            T.fill(most, 0.5)
            T.clear(x)
            T.copy(X, y)
            if kind == "view":
                flat = T.reshape(x, (2 * length,))
            if kind == "view of the result":
                before = T.reshape(most, (1, 2))
            if kind == "reversed":
                for i, j in T.Parallel(2, length):
                    x[i, j] = X[i, j]
                for i, j in T.Parallel(2, length):
                    y[i, j] = x[i, length - 1 - j]
                T.reduce_sum(y, most, dim=1)
            elif kind == "result":
                for i, j in T.Parallel(2, length):
                    x[i, j] = X[i, j] - most[1 - i]
                T.reduce_max(x, most, dim=1)
            elif kind == "view of the result":
                for i, j in T.Parallel(2, length):
                    x[i, j] = X[i, j] - before[0, 1 - i]
                T.reduce_max(x, most, dim=1)
            elif kind == "shorter":
                for i, j in T.Parallel(2, length // 2):
                    x[i, j] = X[i, j]
                T.reduce_sum(x, most, dim=1)
            elif kind == "exchanged":
                # Two loads along `i` weigh as much as the store along `j`: the loops keep their order.
                turned = T.alloc_fragment((length, 2), F32)
                T.transpose(y, turned)
                for j, i in T.Parallel(length, 2):
                    x[i, j] = turned[j, i] * turned[j, i]
                T.reduce_sum(x, most, dim=1)
            elif kind == "view":
                for i, j in T.Parallel(2, length):
                    x[i, j] = X[i, j]
                for i, j in T.Parallel(2, length):
                    y[i, j] = flat[i * length + length - 1 - j]
                T.reduce_sum(y, most, dim=1)
            elif kind == "tensor":
                for i, j in T.Parallel(2, length):
                    Z[i, j] = X[i, j]
                    x[i, j] = X[i, j]
                T.reduce_sum(x, most, dim=1)
            elif kind == "other":
                for i, j in T.Parallel(2, length):
                    x[i, j] = X[i, j]
                T.reduce_sum(y, most, dim=1)
            for i in T.Parallel(2):
                Y[i] = most[i]

    return main


FUSED = {
    "reversed": 1,
    "view": 1,
    "result": 0,
    "view of the result": 0,
    "shorter": 0,
    "exchanged": 0,
    "tensor": 0,
    "other": 0,
}
"""How many loops still are: the last one, where it reads elsewhere what the one before has made."""


@pytest.mark.parametrize("kind", FUSED)
def test_loops_that_are_not_fused(kind):
    func = apart(kind)
    assert fused(func) == FUSED[kind]
    torch.manual_seed(7)
    same_as_interpreter(func, torch.randn(2, 256), torch.zeros(2), torch.zeros(2, 256))
