"""Tile operators on the element types that are easily forgotten: uint1, bool, and floats that are NaN."""

from __future__ import annotations

import math

import pytest
import torch

import tilelang.language as T
from testing.python.target.definition import check_meaning
from testing.python.target.every_target import every_target, run
from tilelang.errors import CompileError


def test_tiles_of_one_bit_take_a_byte_an_element():
    """Wide copies between all memories: an element has one bit as a number, and eight in memory."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "uint1"),
        F: T.Tensor((64, 64), "float32"),
        Copied: T.Tensor((64, 64), "uint1"),
        Flipped: T.Tensor((64, 64), "uint1"),
        Odd: T.Tensor((64, 64), "uint1"),
    ):
        with T.Kernel(1, threads=64):
            tile = T.alloc_shared((64, 64), "uint1")
            held = T.alloc_fragment((64, 64), "uint1")
            T.copy(A, tile)
            T.copy(tile, Copied)
            T.copy(A, held)
            for i, j in T.Parallel(64, 64):
                held[i, j] = held[i, j] ^ T.cast(1, "uint1")
            T.copy(held, Flipped)
            numbers = T.alloc_fragment((64, 64), "float32")
            T.copy(F, numbers)
            T.copy(numbers, held)
            T.copy(held, Odd)

    a = (torch.arange(64 * 64) % 3 == 0).to(torch.uint8).reshape(64, 64)
    numbers = (torch.arange(64 * 64) % 7 - 3).float().reshape(64, 64)
    copied, flipped, odd = check_meaning(main, a, numbers, *(torch.zeros_like(a) for _ in range(3)))[-3:]
    assert torch.equal(copied, a) and torch.equal(flipped, a ^ 1)
    assert torch.equal(odd, (numbers.int() & 1).to(torch.uint8))


def test_sums_of_bools_are_bools():
    """Whether any is true, along both axes; a scan likewise."""

    @T.prim_func
    def main(
        A: T.Tensor((8, 32), "bool"),
        Rows: T.Tensor((8,), "bool"),
        Columns: T.Tensor((32,), "bool"),
        Running: T.Tensor((8, 32), "bool"),
    ):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((8, 32), "bool")
            rows = T.alloc_fragment((8,), "bool")
            columns = T.alloc_fragment((32,), "bool")
            T.copy(A, tile)
            T.reduce_sum(tile, rows, dim=1)
            T.reduce_abssum(tile, columns, dim=0)
            T.cumsum(tile, dim=1)
            T.copy(rows, Rows)
            T.copy(columns, Columns)
            T.copy(tile, Running)

    a = torch.zeros(8, 32, dtype=torch.bool)
    a[2, 5] = a[2, 9] = a[4, 31] = a[7, 0] = True
    outputs = [torch.zeros(shape, dtype=torch.bool) for shape in ((8,), (32,), (8, 32))]
    rows, columns, running = check_meaning(main, a, *outputs)[-3:]
    assert torch.equal(rows, a.any(1)) and torch.equal(columns, a.any(0))
    assert torch.equal(running, a.long().cumsum(1) > 0)


@every_target
@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_running_maxima_are_nan_up_to_the_first_number(dtype, target):
    @T.prim_func
    def main(A: T.Tensor((3, 4), dtype), Y: T.Tensor((3, 4), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((3, 4), dtype)
            T.copy(A, tile)
            T.cummax(tile, dim=1)
            T.copy(tile, Y)

    nan, inf = math.nan, math.inf
    a = torch.tensor([[nan, -inf, nan, 1], [nan, nan, nan, nan], [2, nan, 1, inf]], dtype=getattr(torch, dtype))
    expected = torch.tensor([[nan, -inf, -inf, 1], [nan, nan, nan, nan], [2, 2, 2, inf]], dtype=getattr(torch, dtype))
    got = run(main, target, a)
    assert torch.equal(got.nan_to_num(-7), expected.nan_to_num(-7))


@pytest.mark.parametrize("dtype", ["int4", "uint4", "uint1", "float4_e2m1fn", "float8_e4m3fn"])
@pytest.mark.parametrize("form", ["element", "tile", "everywhere"])
def test_atomic_updates_of_types_without_them_are_refused(form, dtype):
    with pytest.raises(CompileError, match=f"T.atomic_add cannot access elements of {dtype}, as A has"):

        @T.prim_func
        def main(A: T.Tensor((8,), dtype)):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((8,), dtype)
                if form == "element":
                    T.atomic_add(A[0], T.cast(1, dtype))
                elif form == "tile":
                    T.atomic_add(A, tile)
                else:
                    T.atomic_add(A, T.cast(1, dtype))


@pytest.mark.parametrize("dtype", ["int4", "uint1", "float4_e2m1fn"])
def test_atomic_loads_and_stores_of_less_than_a_byte_are_refused(dtype):
    with pytest.raises(CompileError, match=f"T.atomic_store cannot access elements of {dtype}, as A has"):

        @T.prim_func
        def main(A: T.Tensor((8,), dtype)):
            with T.Kernel(1, threads=32):
                T.atomic_store(A[0], T.cast(1, dtype))

    with pytest.raises(CompileError, match=f"T.atomic_load cannot access elements of {dtype}, as A has"):

        @T.prim_func
        def load(A: T.Tensor((8,), dtype), B: T.Tensor((8,), "float32")):
            with T.Kernel(1, threads=32):
                B[0] = T.atomic_load(A[0])


def test_a_power_of_a_variable_in_a_plain_helper():
    def helper(base, exponent):
        return base**exponent

    @T.prim_func
    def main(A: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_var("int32", init=A[0])
            A[1] = helper(x, 2)
            A[2] = helper(x, 3)

    assert check_meaning(main, torch.full((8,), -3, dtype=torch.int32))[0].tolist()[1:3] == [9, -27]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool"])
def test_fills_and_variables_with_the_ends_of_a_type(dtype):
    limits = [False, True] if dtype == "bool" else [T.min_value(dtype), T.max_value(dtype)]

    @T.prim_func
    def main(Y: T.Tensor((3, 2), dtype)):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((2,), dtype)
            for k, limit in enumerate(limits):
                T.fill(tile, limit)
                Y[0, k] = tile[1]
                x = T.alloc_var(dtype, init=limit)
                Y[1, k] = x
                Y[2, k] = limit

    numbers = [int(limit.value) if hasattr(limit, "value") else int(limit) for limit in limits]
    assert check_meaning(main, torch.zeros((3, 2), dtype=getattr(torch, dtype)))[0].tolist() == [numbers] * 3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32"])
def test_a_constant_has_the_digits_of_its_type(dtype):
    @T.prim_func
    def main(Y: T.Tensor((3,), "float64")):
        with T.Kernel(1, threads=32):
            Y[0] = T.cast(0.1, dtype)
            x = T.alloc_var(dtype, init=0.1)
            Y[1] = x
            Y[2] = T.cast(T.cast(T.cast(0.1, dtype), "float32"), "float64")

    rounded = torch.tensor(0.1, dtype=getattr(torch, dtype)).double().item()
    assert check_meaning(main, torch.zeros(3, dtype=torch.float64))[0].tolist() == [rounded] * 3


def test_powers_of_two_are_true():
    """float8_e8m0fnu has no zero, not even its least value."""

    @T.prim_func
    def main(A: T.Tensor((8,), "float8_e8m0fnu"), Copied: T.Tensor((8,), "bool"), Taken: T.Tensor((8,), "int32")):
        with T.Kernel(1, threads=32):
            T.copy(A, Copied)
            for i in T.Parallel(8):
                Taken[i] = T.Select(T.cast(A[i], "bool"), 1, 0) + T.if_then_else(T.Not(A[i]), 2, 0)
                if A[i]:
                    Taken[i] += 4

    a = torch.tensor([0, 1, 2, 126, 127, 128, 253, 254], dtype=torch.uint8).view(torch.float8_e8m0fnu)
    copied, taken = check_meaning(main, a, torch.zeros(8, dtype=torch.bool), torch.zeros(8, dtype=torch.int32))[-2:]
    assert copied.all() and taken.tolist() == [5] * 8


@every_target
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
def test_a_conversion_to_its_own_type_rounds(target, dtype):
    @T.prim_func
    def main(X: T.Tensor((16,), dtype), Y: T.Tensor((2, 16), "float32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(16):
                high = T.cast(X[i] * X[i], dtype)
                Y[0, i] = T.cast(X[i], "float32") * X[i] - high
                Y[1, i] = T.cast(T.cast(X[i] * X[i], dtype), "float32")

    x = (1 + torch.arange(16) / 16).to(getattr(torch, dtype))
    high = (x.float() * x.float()).to(x.dtype).float()
    assert torch.equal(run(main, target, x), torch.stack([x.float() * x.float() - high, high]))
