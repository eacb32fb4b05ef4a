"""Indices over the elements of a vector: what one step along an axis of a nest does to an index."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import mentions
from tilelang.layout.digits import NotMixedRadix
from tilelang.records import Record
from tilelang.target.cuda.tile.nest import by_digits


class VectorIndex(Record):
    """The index of element ``r`` of a vector: a multiple of ``unit`` (0 where ``unit`` is 0), plus ``step * r``.

    Attributes:
        width: ``r`` is below it.
    """

    step: int
    unit: int
    width: int

    @property
    def is_aligned(self) -> bool:
        """Whether the first element's index is a multiple of the width."""
        return self.unit % self.width == 0

    def __add__(self, other: VectorIndex) -> VectorIndex:
        return VectorIndex(self.step + other.step, math.gcd(self.unit, other.unit), self.width)

    def __sub__(self, other: VectorIndex) -> VectorIndex:
        return self + other.scaled(-1)

    def scaled(self, factor: int) -> VectorIndex:
        """The index times a constant."""
        return VectorIndex(self.step * factor, self.unit * abs(factor), self.width)

    def divmod(self, divisor: int) -> tuple[VectorIndex, VectorIndex]:
        """Quotient and remainder by a positive constant.

        Raises:
            NotMixedRadix: elements of one vector may have different quotients.
        """
        if divisor <= 0:
            raise NotMixedRadix
        # The first element's index is a multiple of the unit, so that its remainder leaves room for what is below a unit.
        unit = math.gcd(self.unit, divisor)
        quotient = self.unit // divisor if unit == divisor else 1
        remainder = 0 if unit == divisor else unit
        if self.step % divisor == 0:
            return VectorIndex(self.step // divisor, quotient, self.width), VectorIndex(0, remainder, self.width)
        if not 0 < self.step * (self.width - 1) < unit:
            raise NotMixedRadix
        return VectorIndex(0, quotient, self.width), VectorIndex(self.step, remainder, self.width)


def makes_unit_steps(index: Any, axis: Any) -> bool:
    """Whether neighbours along an axis have neighbouring indices, at least in pairs."""
    found = vector_index(index, axis, 2)
    return found is not None and found.step == 1


def vector_index(expr: Any, axis: Any, width: int, divisor: Callable[[Any], int] = lambda expr: 1) -> VectorIndex | None:
    """An index over the elements of a vector that begins at a multiple of its width; None where it makes no steps of one size.

    Args:
        axis: the variable along which the vector lies.
        divisor: a number that certainly divides a value, 0 where the value is 0.
    """

    def part(expr: Any) -> VectorIndex | None:
        if isinstance(expr, ir.Var):
            return VectorIndex(1, width, width) if expr.same_as(axis) else VectorIndex(0, divisor(expr), width)
        if isinstance(expr, (int, ir.IntImm)):
            return VectorIndex(0, abs(int(expr)), width)
        # Products and sums of other types may wrap: then they are no multiples of their factors.
        return None if str(expr.ty) in ("int32", "int64") else other(expr)

    def other(expr: Any) -> VectorIndex:
        if mentions(expr, {axis}):
            raise NotMixedRadix
        return VectorIndex(0, divisor(expr), width)

    try:
        return by_digits(expr, part, other)
    except NotMixedRadix:
        return None
