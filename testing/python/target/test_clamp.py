"""T.clamp gives NaN where its value or a limit is NaN, in as few instructions as a maximum and a minimum."""

from __future__ import annotations

import math
import re

import pytest
import torch
from tvm import tirx

import tilelang.language as T
from testing.python.target.cpu.test_cross import PROCESSORS, assembly
from testing.python.target.cuda.support import source
from testing.python.target.every_target import run
from testing.python.target.test_integers import each_language
from tilelang import interpreter
from tilelang.target.cuda.compile import compile_device

NAN, INF = math.nan, math.inf
VALUES = [NAN, 2.0, 0.5, -5.0, INF, -INF, 0.0, 8.0]
LIMITS = [(-1, 1), (NAN, 1), (-3, NAN), (3, 1), (2, 2), (-INF, INF), (INF, -INF), (NAN, NAN)]
CASES = [(value, *limits) for value in VALUES for limits in LIMITS]


def limited(dtype: str):
    @T.prim_func
    def main(A: T.Tensor((3, len(CASES)), dtype), B: T.Tensor((2, len(CASES)), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(len(CASES)):
                B[0, i] = T.clamp(A[0, i], A[1, i], A[2, i])
                B[1, i] = T.clamp(A[0, i], T.cast(-1.0, dtype), T.cast(1.0, dtype))

    return main


def numbers(values: torch.Tensor) -> torch.Tensor:
    """Values that can be compared: NaN as a number that is nowhere else."""
    return values.double().nan_to_num(77, INF, -INF)


@each_language
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn"])
def test_nan_of_the_value_or_a_limit_is_the_result(dtype, target):
    exact = torch.tensor(CASES).T.double()
    exact = exact.nan_to_num(NAN, 64, -64) if dtype.startswith("float8") else exact  # CUDA saturates what overflows there
    cases = exact.to(getattr(torch, dtype)).contiguous()
    assert torch.equal(numbers(cases), numbers(exact))
    want = torch.stack([exact[0].clamp(exact[1], exact[2]), exact[0].clamp(-1, 1)])
    assert torch.equal(numbers(run(limited(dtype), target, cases)), numbers(want))
    got = torch.zeros_like(cases[:2])
    assert interpreter.run(limited(dtype), cases, got) == []
    assert torch.equal(numbers(got), numbers(want))


def extrema(dtype: str, count: int):
    """By the operators that programs name, as the language has no function for them."""

    def named(name: str):
        return lambda a, b: tirx.call_intrin(a.dtype, tirx.op.Op.get(name), a, b)

    largest, smallest = named("tl.max_nan"), named("tl.min_nan")

    @T.prim_func
    def main(A: T.Tensor((2, count), dtype), B: T.Tensor((2, count), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(count):
                B[0, i] = largest(A[0, i], A[1, i])
                B[1, i] = smallest(A[0, i], A[1, i])

    return main


@each_language
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn", "int32", "int8"])
def test_extrema_that_are_nan_where_an_operand_is(dtype, target):
    floats = [(a, b) for a in VALUES for b in VALUES]
    integers = [(a, b) for a in (-3, 0, 100) for b in (-(2**31) + 1, -3, 5, 2**31 - 1)]
    exact = torch.tensor(integers if dtype == "int32" else floats).T.double()
    if dtype.startswith("float8") or dtype == "int8":
        exact = exact.nan_to_num(1 if dtype == "int8" else NAN, 64, -64)
    values = exact.to(getattr(torch, dtype)).contiguous()
    exact = values.double()
    want = torch.stack([torch.maximum(*exact), torch.minimum(*exact)])
    program = extrema(dtype, values.shape[1])
    assert torch.equal(numbers(run(program, target, values)), numbers(want))
    got = torch.zeros_like(values)
    assert interpreter.run(program, values, got) == []
    assert torch.equal(numbers(got), numbers(want))


@pytest.mark.parametrize("values", [(NAN, 0, 1), (0.5, NAN, 1), (0.5, 0, NAN)])
def test_nan_of_a_python_number(values):
    assert math.isnan(T.clamp(*values)) and T.clamp(5, 0, 3) == 3 and T.clamp(1.0, 3, 2) == 2


@each_language
def test_a_limit_of_nan_that_the_compiler_knows(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((8,), "float32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[i] = T.clamp(A[i], NAN, 1.0)

    assert run(main, target, torch.tensor(VALUES)).isnan().all()


@each_language
def test_an_integer_of_a_value_that_may_be_nan_and_of_extrema_that_are_not(target):
    @T.prim_func
    def main(A: T.Tensor((8,), "float32"), B: T.Tensor((4, 8), "int32")):
        with T.Kernel(1, threads=8):
            for i in T.Parallel(8):
                B[0, i] = T.cast(T.clamp(A[i], 2, 7), "int32")
                B[1, i] = T.cast(T.round(T.clamp(A[i] * 1.5, 2, 7)), "int32")
                B[2, i] = T.cast(T.min(T.clamp(A[i], 2, 7), 5), "int32")
                B[3, i] = T.cast(T.max(T.clamp(A[i], 3, 7), T.clamp(A[i] - 1, 1, 2)), "int32")

    values = torch.tensor(VALUES)
    kept = values.clamp(2, 7)
    want = [
        kept.nan_to_num(0), (values * 1.5).clamp(2, 7).round().nan_to_num(0), kept.clamp(max=5).nan_to_num(5),
        values.clamp(3, 7).nan_to_num(0),
    ]  # fmt: skip
    assert torch.equal(run(main, target, values), torch.stack(want).int())


def between(dtype: str):
    @T.prim_func
    def main(A: T.Tensor((4096,), dtype), B: T.Tensor((4096,), dtype)):
        with T.Kernel(8, threads=64) as bx:
            for i in T.Parallel(512):
                B[bx * 512 + i] = T.clamp(A[bx * 512 + i], T.cast(-1.0, dtype), T.cast(1.0, dtype))

    return main


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_one_instruction_a_limit_on_cuda(dtype):
    ptx = compile_device(source(between(dtype)), "sm_80").ptx
    assert ptx.count(b"max.NaN") == ptx.count(b"min.NaN") == 8
    assert b"selp" not in ptx and b"setp" not in ptx


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_one_instruction_a_limit_on_x86(dtype):
    target, _ = PROCESSORS["x86-64-v3"]
    text = assembly(between(dtype), target)
    limits = [len(re.findall(rf"{name}ps\s.*ymm", text)) for name in ("vmax", "vmin")]
    assert limits[0] == limits[1] > 0 and not re.search(r"vcmp\w*ps|vblendvps", text)
