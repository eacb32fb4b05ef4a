"""Intervals of integer expressions: they hold every value, and their ends are taken where that is claimed."""

import itertools

import pytest

from tilelang.ir import nodes as ir
from tilelang.ir.interval import interval_of, is_exact

X, Y, U = ir.Var("x", "int32"), ir.Var("y", "int32"), ir.Var("u", "uint32")
RANGES = {X: (-3, 5), Y: (2, 4)}


def evaluated(make):
    """Every value of ``make(x, y)`` over the ranges, in Python's integers."""
    spans = (range(low, high + 1) for low, high in RANGES.values())
    return [make(x, y) for x, y in itertools.product(*spans)]


EXACT = [
    lambda x, y: x * 4 + y - 7,
    lambda x, y: 9 - x,
    lambda x, y: x * -3,
    lambda x, y: (x + y) // 3,
    lambda x, y: x // 4 - y // 2,
]
SAFE = [
    lambda x, y: x - x * 2,
    lambda x, y: x * y,
    lambda x, y: x // y,
    lambda x, y: (x * 8 + y) % 5,
    lambda x, y: (x + y) // (y + 1),
    lambda x, y: x << y,
    lambda x, y: x << 3,
    lambda x, y: (x * 9) >> y,
    lambda x, y: 63 >> y,
    lambda x, y: x & y,
    lambda x, y: x & 6,
]


@pytest.mark.parametrize("make", EXACT)
def test_single_uses_are_exact(make):
    values = evaluated(make)
    assert is_exact(make(X, Y), RANGES)
    assert interval_of(make(X, Y), RANGES) == (min(values), max(values))


@pytest.mark.parametrize("make", SAFE)
def test_intervals_of_inexact_expressions_are_conservative(make):
    low, high = interval_of(make(X, Y), RANGES)
    assert not is_exact(make(X, Y), RANGES)
    assert all((low is None or low <= value) and (high is None or value <= high) for value in evaluated(make))


def test_extrema_of_half_known_operands():
    unknown = ir.Var("n", "int32")
    assert interval_of(ir.Min(X, unknown), RANGES) == (None, 5)
    assert interval_of(ir.Max(X, unknown), RANGES) == (-3, None)


def test_an_unsigned_value_is_not_negative():
    assert interval_of(U, {}) == (0, 2**32 - 1)
    assert interval_of(ir.Cast("int64", U), {}) == (0, 2**32 - 1)


WRAPPING = {
    "a conversion that keeps the value": (lambda: ir.Cast("uint8", Y), (2, 4)),
    "a conversion that may not": (lambda: ir.Cast("uint8", X), (0, 255)),
    "one to a position": (lambda: ir.Cast("int32", U), (None, None)),
    "one through a narrow type": (lambda: ir.Cast("int32", ir.Cast("int8", Y * 100)), (-128, 127)),
    "a sum": (lambda: ir.Cast("uint16", Y) + ir.IntImm("uint16", 9), (11, 13)),
    "a sum beyond the type": (lambda: U + ir.IntImm("uint32", 1), (0, 2**32 - 1)),
    "a difference below zero": (lambda: ir.Cast("uint32", Y) - ir.IntImm("uint32", 3), (0, 2**32 - 1)),
    "a comparison": (lambda: ir.Cast("uint8", Y) < ir.IntImm("uint8", 5), (1, 1)),
    "one that is not certain": (lambda: ir.Cast("uint8", X) < ir.IntImm("uint8", 6), (0, 1)),
    "equal numbers": (lambda: ir.NE(ir.Cast("uint8", Y), ir.IntImm("uint8", 9)), (1, 1)),
}


@pytest.mark.parametrize("name", WRAPPING)
def test_values_that_may_wrap_around_are_any_of_their_type(name):
    make, expected = WRAPPING[name]
    assert interval_of(make(), RANGES) == expected
