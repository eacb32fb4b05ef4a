"""Loops over elementary functions on AVX-512: which are made of registers, and that they give what the interpreter gives."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang.language as T
from tilelang.ir.visit import statement_exprs, walk, walk_expr
from tilelang.target.cpu import pipeline
from tilelang.target.cpu.context import CpuContext, vector_unit
from tilelang.target.cpu.vectors import WIDE
from tilelang.target.info import TargetInfo
from tilelang.target.request import CompileRequest
from tilelang.transform.pipeline import run

from .support import build

MACHINES = {
    "avx512f": TargetInfo(kind="cpu", arch="x86-64-v4", features=("avx512f",), triple="x86_64-unknown-linux-gnu"),
    "avx2": TargetInfo(kind="cpu", arch="x86-64-v3", features=("avx2", "fma"), triple="x86_64-unknown-linux-gnu"),
}
ROWS, LENGTH = 3, 44


def in_registers(func, machine="avx512f") -> bool:
    """Whether a program calls functions of whole registers."""
    info = MACHINES[machine]
    context = CpuContext(CompileRequest(info, backend="tvm_ffi"), "main", vector_unit(info))
    legal = run(pipeline.LLVM, func, context, stop_after="legalize").value
    texts = (str(node) for stmt in walk(legal.func.body) for expr in statement_exprs(stmt) for node in walk_expr(expr))
    return any(name in text for text in texts for name in WIDE.values())


def program(kind):
    """A loop over rows of 44 elements, so that 12 are left after two registers; ``kind`` names what its body does."""

    @T.prim_func
    def main(X: T.Tensor((ROWS, LENGTH), "float32"), Y: T.Tensor((ROWS, LENGTH), "float32"), H: T.Tensor((ROWS, 88), "bfloat16")):
        with T.Kernel(1, threads=128):
            x, most = T.alloc_fragment((ROWS, LENGTH), "float32"), T.alloc_fragment((ROWS,), "float32")
            T.copy(X, x)
            T.reduce_max(x, most, dim=1)
            for i, j in T.Parallel(ROWS, LENGTH):
                if kind == "exp2":
                    x[i, j] = T.exp2(x[i, j] - most[i])
                elif kind == "exp":
                    x[i, j] = T.exp(x[i, j] - most[i])
                elif kind == "narrow":
                    H[i, j] = T.cast(T.exp2(x[i, j]) + T.cast(H[i, j + 44], "float32"), "bfloat16")
                elif kind == "masked":
                    x[i, j] = T.if_then_else(j <= 7 * i, T.exp2(x[i, j]), 0.0)
                elif kind == "named":
                    power = T.exp(T.abs(x[i, j]) * -0.5)
                    x[i, j] = power + power * x[i, j]
                elif kind == "position":
                    x[i, j] = T.exp2(T.cast(j, "float32") * 0.125) + x[i, j]
                elif kind == "nested":
                    x[i, j] = T.exp2(T.exp(x[i, j]) * 0.25)
                elif kind == "gathered":
                    x[i, j] = T.exp2(X[i, (7 * j) % LENGTH])
                elif kind == "across":
                    x[i, LENGTH - 1 - j] = T.exp2(X[i, j])
                elif kind == "same for all":
                    x[i, j] = x[i, j] * T.exp2(most[i])
                elif kind == "erf":
                    x[i, j] = 0.5 * T.erf(x[i, j] * 0.75)
                elif kind == "tanh":
                    x[i, j] = T.tanh(x[i, j]) + T.exp2(x[i, j])
            T.copy(x, Y)

    return main


def serial():
    """Each iteration takes the one before it."""

    @T.prim_func
    def main(X: T.Tensor((64,), "float32"), Y: T.Tensor((65,), "float32")):
        with T.Kernel(1, threads=128):
            Y[0] = 0.0
            for j in T.serial(64):
                Y[j + 1] = T.exp2(X[j] - Y[j])

    return main


REGISTERS = ["exp2", "exp", "narrow", "position", "nested", "erf"]
SCALARS = ["masked", "gathered", "across", "same for all", "tanh"]


@pytest.mark.parametrize("kind", [*REGISTERS, *SCALARS])
def test_which_loops(kind):
    assert in_registers(program(kind)) == (kind in REGISTERS)
    assert not in_registers(program(kind), "avx2")


def test_iterations_that_follow_each_other_are_left():
    assert not in_registers(serial())
    x = torch.randn(64)
    results = [build(serial(), target, out_idx=-1)(x) for target in ("cpu", "interpret")]
    torch.testing.assert_close(*results, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", [*REGISTERS, *SCALARS, "named"])
def test_same_as_interpreter(kind):
    torch.manual_seed(8)
    x, h = 4 * torch.randn(ROWS, LENGTH), torch.randn(ROWS, 88).bfloat16()
    special = torch.tensor([math.inf, -math.inf, math.nan, 3e38, -3e38, 129.0, -149.0, -0.0])
    x[1, :8] = special
    x[2, -8:] = special
    results = []
    for target in ("cpu", "interpret"):
        own = [x.clone(), torch.zeros(ROWS, LENGTH), h.clone()]
        build(program(kind), target)(*own)
        results.append(own)
    for ours, theirs in zip(*results):
        torch.testing.assert_close(ours, theirs, rtol=2**-7 if ours.dtype == torch.bfloat16 else 1e-5, atol=1e-30, equal_nan=True)
