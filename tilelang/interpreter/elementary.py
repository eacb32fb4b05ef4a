"""Elementary functions, rounding, bits: one entry an operator of TVM, by its name without its namespace.

float32 functions are computed in float64 and rounded once, so that nothing here is less exact than a target.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.numbers import Element

Function = Callable[..., Any]
"""``(element type of the result, element types of the arguments, values) -> value``."""


def _wide(function: Callable[..., Any]) -> Function:
    """A function of floats, computed in float64."""

    def compute(kind: Element, kinds: list[Element], *values: Any) -> Any:
        return np.asarray(function(*(np.asarray(value, np.float64) for value in values))).astype(kind.value)[()]

    return compute


def _away_from_zero(x: Any) -> Any:
    whole = np.trunc(x)
    return whole + np.where(np.abs(x - whole) >= 0.5, np.copysign(1.0, x), 0.0)


def _sigmoid(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))


def _erf(x: Any) -> Any:
    return np.vectorize(math.erf, otypes=[np.float64])(x)


def _absolute(kind: Element, kinds: list[Element], value: Any) -> Any:
    return value if kinds[0].kind in ("uint", "bool") else np.abs(value)


def _popcount(kind: Element, kinds: list[Element], value: Any) -> Any:
    return np.bitwise_count(_unsigned(kinds[0], value)).astype(kind.value)[()]


def _leading_zeros(kind: Element, kinds: list[Element], value: Any) -> Any:
    bits = _unsigned(kinds[0], value)
    # Binary search for the highest set bit.
    length = np.zeros(np.shape(bits), np.int64)
    for shift in (32, 16, 8, 4, 2, 1):
        high = bits >> np.uint64(shift)
        length += np.where(high != 0, shift, 0)
        bits = np.where(high != 0, high, bits)
    # `length` is the position of the highest set bit; a zero has none, and all its bits are leading zeros.
    return (kinds[0].bits - length - (bits != 0)).astype(kind.value)[()]


def _unsigned(kind: Element, value: Any) -> Any:
    """The bits of an integer as a uint64, zero-extended."""
    bits = np.asarray(value).astype(np.int64).astype(np.uint64)
    return bits if kind.bits == 64 else bits & np.uint64((1 << kind.bits) - 1)


def fma(kind: Element, a: Any, b: Any, c: Any) -> Any:
    """``a * b + c`` rounded once: in float64 a product of float32 is exact, and the sum is rounded to odd.

    Args:
        kind: element type of the operands and of the result.
        a, b, c: numbers, or arrays over the lanes.
    """
    if kind.value == np.float64:
        return _fma64(a, b, c)
    product = np.asarray(a, np.float64) * np.asarray(b, np.float64)
    return sum_to_odd(product, np.asarray(c, np.float64)).astype(np.float32)[()]


def sum_to_odd(a: Any, b: Any) -> np.ndarray:
    """A sum rounded to odd: the float64 next to the exact sum towards zero, its last bit set where it is not exact.

    Rounding the result to a type of at most 51 bits then gives what rounding the exact sum would: an odd last bit is never a tie
    of the narrower type (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums: proved algorithms using rounding to
    odd", 2008).
    """
    # Knuth's two-sum: `error` is exactly a + b - total.
    total = np.asarray(a + b)
    other = total - a
    error = np.asarray((a - (total - other)) + (b - other))
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0)
    # An error against the sign of the sum: the sum was rounded away from zero, and its neighbour is the one wanted.
    beyond = inexact & (np.signbit(error) != np.signbit(total))
    towards_zero = np.where(beyond, np.nextafter(total, 0.0), total)
    odd = (
        (towards_zero.view(np.int64) | 1).view(np.float64)
        if towards_zero.ndim
        else np.int64(towards_zero.view(np.int64) | 1).view(np.float64)
    )
    return np.asarray(np.where(inexact, odd, towards_zero))


def _fma64(a: Any, b: Any, c: Any) -> Any:
    from fractions import Fraction

    def once(x: float, y: float, z: float) -> float:
        if not all(map(math.isfinite, (x, y, z))):
            return x * y + z
        exact = Fraction(x) * Fraction(y) + Fraction(z)
        # An exact zero has no sign as a fraction; the floats give the right one.
        return float(exact) if exact else x * y + z

    return np.vectorize(once, otypes=[np.float64])(a, b, c)[()]


FUNCTIONS: Mapping[str, Function] = {
    "exp": _wide(np.exp),
    "exp2": _wide(np.exp2),
    "exp10": _wide(lambda x: np.power(10.0, x)),
    "log": _wide(np.log),
    "log2": _wide(np.log2),
    "log10": _wide(np.log10),
    "log1p": _wide(np.log1p),
    "sqrt": _wide(np.sqrt),
    "rsqrt": _wide(lambda x: 1.0 / np.sqrt(x)),
    "sin": _wide(np.sin),
    "cos": _wide(np.cos),
    "tan": _wide(np.tan),
    "asin": _wide(np.arcsin),
    "acos": _wide(np.arccos),
    "atan": _wide(np.arctan),
    "sinh": _wide(np.sinh),
    "cosh": _wide(np.cosh),
    "tanh": _wide(np.tanh),
    "asinh": _wide(np.arcsinh),
    "acosh": _wide(np.arccosh),
    "atanh": _wide(np.arctanh),
    "sigmoid": _wide(_sigmoid),
    "erf": _wide(_erf),
    "atan2": _wide(np.arctan2),
    "fmod": _wide(np.fmod),
    "hypot": _wide(np.hypot),
    "copysign": _wide(np.copysign),
    "nextafter": lambda kind, kinds, a, b: np.nextafter(a, b),
    # np.power takes the root for an exponent of 0.5, whose values of -0.0 and -inf are others.
    "pow": _wide(np.float_power),
    "ceil": _wide(np.ceil),
    "floor": _wide(np.floor),
    "trunc": _wide(np.trunc),
    "nearbyint": _wide(np.rint),
    "round": _wide(_away_from_zero),
    "fabs": _absolute,
    "abs": _absolute,
    "isnan": lambda kind, kinds, x: np.isnan(x),
    "isinf": lambda kind, kinds, x: np.isinf(x),
    "isfinite": lambda kind, kinds, x: np.isfinite(x),
    "fma": lambda kind, kinds, a, b, c: fma(kind, a, b, c),
    "popcount": _popcount,
    "clz": _leading_zeros,
}
"""Operator -> its function."""
