"""Operations on floats with a rounding mode: to nearest even, towards zero, up, down."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from tilelang.interpreter.elementary import fma
from tilelang.interpreter.numbers import Element


def _root(value: Fraction, digits: int = 400) -> Fraction:
    """The square root, truncated to ``digits`` bits after the point, with a sticky bit below them if it is inexact."""
    shift = 2 * digits
    # isqrt of value * 2**(2 * shift) is the root times 2**shift. One more bit below, set if anything was cut off, keeps an
    # inexact root from looking like a float or like a tie.
    scaled = (value.numerator << (2 * shift)) // value.denominator
    whole = math.isqrt(scaled)
    exact = whole * whole == scaled and (scaled * value.denominator) == value.numerator << (2 * shift)
    return Fraction(2 * whole + (0 if exact else 1), 2 << shift)


EXACT: Mapping[str, Callable[..., Fraction]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a / b,
    "rcp": lambda a: 1 / a,
    "fma": lambda a, b, c: a * b + c,
    "sqrt": _root,
    "rsqrt": lambda a: _root(1 / a),
}
"""Operation -> its exact result over fractions, or a result with enough bits that every rounding of it is the same."""

_NUMPY: Mapping[str, Callable[..., Any]] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "rcp": lambda a: a.dtype.type(1) / a,
    "fma": lambda a, b, c: a * b + c, "sqrt": np.sqrt, "rsqrt": lambda a: a.dtype.type(1) / np.sqrt(a),
}  # fmt: skip
"""The same over floats: what it gives where an operand or the result is no finite number."""


def _directed(operation: str, mode: str, kind: np.dtype) -> Callable[..., float]:
    """The operation on one set of operands, rounded towards zero, up or down."""

    def compute(*values: float) -> float:
        typed = [kind.type(value) for value in values]
        nearest = _NUMPY[operation](*typed)
        if not all(map(math.isfinite, values)) or math.isnan(nearest):
            return nearest
        try:
            exact = EXACT[operation](*(Fraction(float(value)) for value in values))
        except (ZeroDivisionError, ValueError):
            return nearest
        return _rounded(exact, nearest, mode, kind)

    return compute


def _rounded(exact: Fraction, nearest: Any, mode: str, kind: np.dtype) -> Any:
    """The float next to an exact number in the direction of a mode; ``nearest`` is one beside it."""
    if exact == 0:
        # IEEE 754, 6.3: a sum that is exactly zero of operands with different signs is -0 when it is rounded down, else +0.
        return kind.type(-0.0) if mode == "rd" and not math.copysign(1.0, nearest) < 0 and nearest == 0 else nearest
    limit = np.finfo(kind).max
    # `nearest` is one of the two floats around the exact number (or infinite), so the loops below take one step at most; rsqrt is
    # rounded twice, and may take two.
    value = kind.type(min(max(nearest, -limit), limit))
    if abs(exact) > Fraction(float(limit)):
        away = mode == ("ru" if exact > 0 else "rd")
        return kind.type(math.copysign(np.inf if away else limit, exact))
    if mode == "rd" or (mode == "rz" and exact > 0):
        while Fraction(float(value)) > exact:
            value = np.nextafter(value, kind.type(-np.inf))
        return value
    while Fraction(float(value)) < exact:
        value = np.nextafter(value, kind.type(np.inf))
    return value


def rounded(operation: str, mode: str, kind: Element) -> Callable[..., Any]:
    """The operation on numbers, or on arrays over the lanes.

    Args:
        operation: a name of ``EXACT``.
        mode: ``rn``, ``rz``, ``ru`` or ``rd``.
        kind: element type of the operands and of the result.
    """
    if mode != "rn":
        compute = np.vectorize(_directed(operation, mode, kind.value), otypes=[kind.value])
        return lambda *values: compute(*values)[()]
    if operation == "fma":
        return lambda *values: fma(kind, *values)
    nearest = _NUMPY[operation]
    return lambda *values: nearest(*(np.asarray(value) for value in values))[()]
