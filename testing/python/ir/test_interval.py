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
]


@pytest.mark.parametrize("make", EXACT)
def test_single_uses_are_exact(make):
    values = evaluated(make)
    assert is_exact(make(X, Y))
    assert interval_of(make(X, Y), RANGES) == (min(values), max(values))


@pytest.mark.parametrize("make", SAFE)
def test_intervals_of_inexact_expressions_are_conservative(make):
    low, high = interval_of(make(X, Y), RANGES)
    assert not is_exact(make(X, Y))
    assert all((low is None or low <= value) and (high is None or value <= high) for value in evaluated(make))


def test_extrema_of_half_known_operands():
    unknown = ir.Var("n", "int32")
    assert interval_of(ir.Min(X, unknown), RANGES) == (None, 5)
    assert interval_of(ir.Max(X, unknown), RANGES) == (-3, None)


def test_an_unsigned_value_is_not_negative():
    assert interval_of(U, {}) == (0, None)
    assert interval_of(ir.Cast("int32", U), {}) == (0, None)
