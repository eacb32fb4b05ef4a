"""Integer operations give the same bits on every target: those of Python, modulo the type's range."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch

import tilelang.language as T
from testing.python.target.every_target import TARGETS, run
from tilelang import interpreter

LANGUAGES = ("cpu", "c", "sm_80")
each_language = pytest.mark.parametrize("target", [TARGETS[name] for name in LANGUAGES], ids=LANGUAGES)
DTYPES = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")


def corner_values(dtype: str) -> list[int]:
    """Zero, small numbers and both ends of a type's range."""
    bits, signed = bits_of(dtype), dtype.startswith("int")
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return [0, 1, 2, 7, 100, high - 1, high, high // 2, high // 3, low, *([-1, -2, -100, low + 1] if signed else [])]


def bits_of(dtype: str) -> int:
    """Its width."""
    return int(dtype.lstrip("uint"))


def wrapped(value: int, dtype: str) -> int:
    """``value`` modulo the range of a type."""
    bits = bits_of(dtype)
    value %= 2**bits
    return value - 2**bits if dtype.startswith("int") and value >= 2 ** (bits - 1) else value


def tensor(values: Sequence[int], dtype: str) -> torch.Tensor:
    """A tensor of any integer type; torch makes the large unsigned ones only by their bits."""
    signed = dtype.lstrip("u")
    return torch.tensor([wrapped(value, signed) for value in values], dtype=getattr(torch, signed)).view(getattr(torch, dtype))


def elementwise(functions: Sequence[Callable[..., Any]], dtype: str, result: str, size: int) -> Any:
    """A kernel whose row ``k`` of the result is ``functions[k]`` of each element of two tensors."""

    @T.prim_func
    def main(A: T.Tensor((size,), dtype), B: T.Tensor((size,), dtype), Y: T.Tensor((len(functions), size), result)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(size):
                for k, function in enumerate(functions):
                    Y[k, i] = T.cast(function(A[i], B[i]), result)

    return main


@each_language
@pytest.mark.parametrize("dtype", DTYPES)
def test_bits_are_counted_in_the_type_of_the_argument(dtype, target):
    values = corner_values(dtype)
    program = elementwise([lambda a, b: T.popcount(a), lambda a, b: T.clz(a)], dtype, "int32", len(values))
    got = run(program, target, tensor(values, dtype), tensor(values, dtype))
    patterns = [value % 2 ** bits_of(dtype) for value in values]
    assert got[0].tolist() == [bin(pattern).count("1") for pattern in patterns]
    assert got[1].tolist() == [bits_of(dtype) - pattern.bit_length() for pattern in patterns]


WRAPPED = (
    lambda a, b: a + b,
    lambda a, b: a - b,
    lambda a, b: a * b,
    lambda a, b: (a + b) // 2,
    lambda a, b: (a * b) >> 1,
    lambda a, b: (a - b) // 2,
)
"""Operations whose inner value leaves the range of the type."""


@each_language
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype not in ("int32", "int64")])
def test_narrow_integers_wrap_before_they_are_used(dtype, target):
    values = corner_values(dtype)
    pairs = [(a, b) for a in values for b in values]
    functions = [*WRAPPED, lambda a, b: T.if_then_else(a + b > a, T.cast(1, dtype), T.cast(0, dtype))]
    program = elementwise(functions, dtype, dtype, len(pairs))
    got = run(program, target, tensor([a for a, _ in pairs], dtype), tensor([b for _, b in pairs], dtype))
    expected = [
        [wrapped(a + b, dtype) for a, b in pairs],
        [wrapped(a - b, dtype) for a, b in pairs],
        [wrapped(a * b, dtype) for a, b in pairs],
        [wrapped(a + b, dtype) // 2 for a, b in pairs],
        [wrapped(a * b, dtype) >> 1 for a, b in pairs],
        [wrapped(a - b, dtype) // 2 for a, b in pairs],
        [int(wrapped(a + b, dtype) > a) for a, b in pairs],
    ]
    for row, values in zip(got, expected, strict=True):
        assert torch.equal(row, tensor(values, dtype))


@each_language
@pytest.mark.parametrize("small", ["int4", "uint4", "uint1"])
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "uint32", "int64"])
def test_casts_to_small_integers_keep_the_low_bits(dtype, small, target):
    values = corner_values(dtype)
    functions = [lambda a, b: T.cast(a, small), lambda a, b: T.cast(a, small) + T.cast(b, small)]
    program = elementwise(functions, dtype, "uint32", len(values))
    got = run(program, target, tensor(values, dtype), tensor(values, dtype))
    assert got[0].tolist() == [wrapped(wrapped(value, small), "uint32") for value in values]
    assert got[1].tolist() == [wrapped(wrapped(2 * value, small), "uint32") for value in values]


@each_language
@pytest.mark.parametrize("dtype", DTYPES)
def test_negation_wraps(dtype, target):
    values = corner_values(dtype)
    program = elementwise([lambda a, b: -a, lambda a, b: -a + b, lambda a, b: -T.cast(3, dtype)], dtype, dtype, len(values))
    a = tensor(values, dtype)
    got = run(program, target, a, a).tolist()
    assert got == [[wrapped(-v, dtype) for v in values], [0] * len(values), [wrapped(-3, dtype)] * len(values)]


MISJUDGED = {
    "low bits of an unsigned number, divided": lambda i, x: T.int32(T.uint32(x)) // 7,
    "a narrow type between wider ones": lambda i, x: T.int32(T.int16(T.uint32(x))) % 5,
    "a divisor that wraps around to zero": lambda i, x: i // T.int32(T.uint8(i + 200)),
    "a sum that wraps around to zero": lambda i, x: T.int32(T.uint16(x) % (T.uint16(x) + T.uint16(1))),
    "a difference below zero": lambda i, x: T.if_then_else(T.uint32(i) - T.uint32(1) < T.uint32(99), 1, 0),
    "a shift by what wraps around": lambda i, x: x >> T.int32(T.uint8(i + 250)),
    "a divisor that data may make zero": lambda i, x: T.if_then_else((i + 100) // (x % 2) >= 1, 1, 0),
    "an index that wraps around": lambda i, x: i + T.int32(T.int8(i + 100)),
}


@each_language
@pytest.mark.parametrize("name", MISJUDGED)
def test_nothing_is_concluded_from_numbers_that_wrap_around(name, target):
    make = MISJUDGED[name]

    @T.prim_func
    def main(X: T.Tensor((64,), "int32"), Y: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(64):
                Y[i] = make(i, X[i])

    x = torch.arange(-32, 32, dtype=torch.int32) * 40503
    x[0] = -1
    wanted = torch.zeros(64, dtype=torch.int32)
    assert interpreter.run(main, x, wanted) == []
    assert torch.equal(run(main, target, x), wanted)


def _truncated(a: int, b: int) -> int:
    return a // b if (a < 0) == (b < 0) else -(-a // b)


DIVISIONS = {
    "//": (lambda a, c: a // c, lambda a, c: a // c),
    "%": (lambda a, c: a % c, lambda a, c: a % c),
    "floordiv": (T.floordiv, lambda a, c: a // c),
    "floormod": (T.floormod, lambda a, c: a % c),
    "truncdiv": (T.truncdiv, _truncated),
    "truncmod": (T.truncmod, lambda a, c: a - c * _truncated(a, c)),
}
"""Divisions, and what they are of Python's integers."""


@each_language
@pytest.mark.parametrize("dtype", ["int8", "int16", "int32", "int64"])
def test_divisions_by_negative_constants_and_both_ends_of_the_type(dtype, target):
    least = -(2 ** (bits_of(dtype) - 1))
    divisors = [-1, -3, -8, least, least + 1, -least - 1]
    pairs = [(kernel, python, c) for kernel, python in DIVISIONS.values() for c in divisors]
    values = corner_values(dtype)
    functions = [lambda a, b, kernel=kernel, c=c: kernel(a + T.cast(0, dtype) * b, T.cast(c, dtype)) for kernel, _, c in pairs]
    program = elementwise(functions, dtype, dtype, len(values))
    got = run(program, target, tensor(values, dtype), tensor(values, dtype)).tolist()
    defined = torch.zeros(len(pairs), len(values), dtype=getattr(torch, dtype))
    assert interpreter.run(program, tensor(values, dtype), tensor(values, dtype), defined) == []
    wanted = [[wrapped(python(value, c), dtype) for value in values] for _, python, c in pairs]
    assert defined.tolist() == wanted and got == wanted


@each_language
def test_tiles_are_indexed_by_quotients_and_remainders_of_negative_divisors(target):
    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((4, 64), "int32")):
        with T.Kernel(1, threads=32):
            tile, held = T.alloc_shared((64,), "int32"), T.alloc_fragment((64,), "int32")
            T.copy(A, tile)
            T.copy(A, held)
            for i in T.Parallel(64):
                B[0, i] = tile[(-i) // -2] + A[-(i % -64)]
                B[1, i] = tile[63 + i // -4] + tile[-((i + 3) % -5)]
                B[2, i] = tile[T.truncdiv(-i, -8)]
                B[3, (-i) // -1] = held[(-4 * (i // 2)) // -2]

    a = torch.arange(64, dtype=torch.int32) * 7
    wanted = torch.zeros(4, 64, dtype=torch.int32)
    assert interpreter.run(main, a, wanted) == []
    assert torch.equal(run(main, target, a), wanted)


@each_language
@pytest.mark.parametrize("dtype", ["uint8", "uint32", "uint64"])
def test_a_negative_number_beside_an_unsigned_one_wraps_around(dtype, target):
    """In choices, as in sums, and where it is stored; uint64, too, which TVM makes no negative constant of."""

    @T.prim_func
    def main(A: T.Tensor((3,), dtype), Y: T.Tensor((4, 3), dtype)):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(3):
                Y[0, i] = T.if_then_else(A[i] == 2, A[i], -1)
                Y[1, i] = T.Select(A[i] == 2, A[i], -3)
                Y[2, i] = A[i] + (-1)
                Y[3, i] = -1

    kind = getattr(torch, dtype)
    most = torch.iinfo(kind).max
    found = run(main, target, torch.tensor([1, 2, 3], dtype=kind))
    assert found.tolist() == [[most, 2, most], [most - 2, 2, most - 2], [0, 1, 2], [most] * 3]


@each_language
def test_a_position_divided_by_what_may_be_zero(target):
    """The quotient is 0 then, which is outside of the tensor here and reads 0."""

    @T.prim_func
    def main(A: T.Tensor((64,), "int32"), B: T.Tensor((2, 3, 8), "int32")):
        with T.Kernel(3, threads=32) as bx:
            for i in T.Parallel(8):
                B[0, bx, i] = A[(i + 8) // bx - 3]
            for k in T.serial(3):
                for i in T.Parallel(8):
                    B[1, k, i] = A[(i + 9) // k - 3]

    a = torch.arange(100, 164, dtype=torch.int32)
    b = run(main, target, a)
    read = [[[a[(i + first) // k - 3].item() if k else 0 for i in range(8)] for k in range(3)] for first in (8, 9)]
    assert b.tolist() == read


@each_language
def test_a_division_by_the_only_block(target):
    @T.prim_func
    def main(A: T.Tensor((4,), "int32"), B: T.Tensor((4,), "int32")):
        with T.Kernel(1, threads=32) as bx:
            for i in T.Parallel(4):
                B[i] = A[i] - T.truncdiv(1, bx)

    a = torch.arange(4, dtype=torch.int32)
    assert torch.equal(run(main, target, a), a)


@each_language
@pytest.mark.parametrize("narrow", ["uint8", "int8", "uint16", "uint32", "uint64"])
def test_a_variable_holds_a_number_whose_limits_its_type_does_not_have(narrow, target):
    @T.prim_func
    def main(A: T.Tensor((8,), "int32"), Y: T.Tensor((3, 8), "int64")):
        with T.Kernel(1, threads=32):
            for i in T.serial(8):
                limited = T.bind(T.min(T.max(A[i], -200), 300))
                low = T.bind(T.cast(limited, narrow))
                chosen = T.bind(T.cast(T.Select(A[i] > 0, 500, -6), narrow))
                again = T.bind(T.cast(T.cast(T.max(A[i], -7), "int16"), narrow))
                Y[0, i] = T.cast(low * 1, "int64")
                Y[1, i] = T.cast(chosen * 1, "int64")
                Y[2, i] = T.cast(again * 1, "int64")

    values = [-1000, -200, -7, -1, 0, 6, 300, 1000]
    expected = (
        [min(max(value, -200), 300) for value in values],
        [500 if value > 0 else -6 for value in values],
        [max(value, -7) for value in values],
    )
    rows = [[wrapped(wrapped(value, narrow), "int64") for value in row] for row in expected]
    assert run(main, target, torch.tensor(values, dtype=torch.int32)).tolist() == rows


@each_language
def test_zero_less_an_unsigned_constant_wraps_around(target):
    @T.prim_func
    def main(A: T.Tensor((1,), "uint32"), Y: T.Tensor((5,), "int64")):
        with T.Kernel(1, threads=32):
            Y[0] = T.cast(T.uint32(0) - T.uint32(3), "int64")
            Y[1] = T.cast(T.uint8(0) - 3, "int64")
            Y[2] = T.cast(0 - T.uint16(1), "int64")
            Y[3] = T.cast(T.cast(A[0] * 0, "uint32") - T.uint32(2), "int64")  # TVM knows the product
            zero = T.uint8(0)
            zero -= T.uint32(5)
            Y[4] = T.cast(zero, "int64")

    expected = [2**32 - 3, -3, -1, 2**32 - 2, 2**32 - 5]  # a narrow number and one of Python are int32
    assert run(main, target, tensor([9], "uint32")).tolist() == expected
