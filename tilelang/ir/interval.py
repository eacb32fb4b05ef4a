"""Interval arithmetic: which values an integer expression can take, given the ranges of its variables.

An end that is not known is None. The interval contains every value that the expression takes. Whether its ends are among those
values is another question: :func:`is_exact`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir

Interval = tuple[int | None, int | None]
"""The least and the greatest value, inclusive."""

UNKNOWN: Interval = (None, None)


class Ranges(Protocol):
    """Intervals of variables: a mapping, or what has its ``get``."""

    def get(self, key: Any, default: Interval, /) -> Interval:
        """The interval of a variable; ``default`` where none is known."""
        ...


def interval_of(expr: Any, ranges: Ranges) -> Interval:
    """The interval of an integer expression.

    Arithmetic of int32 and int64 is taken not to overflow (positions do not), unless the known ends of its operands show that it
    does. In another type, an expression that may wrap around may have any value of the type.

    Args:
        expr: the expression, or a number.
        ranges: intervals of variables.
    """
    return (expr, expr) if isinstance(expr, int) else _interval(expr, ranges, {})


def _interval(expr: Any, ranges: Ranges, known: dict[Any, Interval]) -> Interval:
    """:func:`interval_of` with a table of the parts, which an expression may share."""
    found = known.get(expr)
    if found is None:
        found = known[expr] = _in_type(_computed(expr, ranges, known), expr)
    return found


def _in_type(found: Interval, expr: Any) -> Interval:
    """The interval of an expression whose interval in mathematical numbers is ``found``."""
    own = _type_range(expr)
    # An int32 that is known to overflow may be anything; one whose ends are not known is taken not to.
    if str(expr.ty) in _UNBOUNDED:
        return UNKNOWN if _leaves(found, own) else found
    return found if own == UNKNOWN or _contains(own, found) else own


def _computed(expr: Any, ranges: Ranges, known: dict[Any, Interval]) -> Interval:
    """The interval in mathematical numbers."""
    kind = type(expr)
    if kind is ir.IntImm:
        value = int(expr.value)
        return value, value
    if kind is ir.Var:
        return ranges.get(expr, UNKNOWN)
    if kind is ir.Cast:
        return _interval(expr.value, ranges, known) if _is_integer(expr.value) else UNKNOWN
    rule = _RULES.get(kind)
    return UNKNOWN if rule is None else rule(_interval(expr.a, ranges, known), _interval(expr.b, ranges, known))


_MOST_SHIFTED = 64
"""A shift by this many bits or more takes all of them, whatever the type."""

_UNBOUNDED = ("int32", "int64")
"""The types of positions, whose arithmetic is taken not to overflow."""


def overflows(expr: Any, ranges: Ranges) -> bool:
    """Whether the intervals of its operands allow a result that its type has no number for; False where they are not known."""
    return _leaves(_computed(expr, ranges, {}), _type_range(expr))


def _leaves(found: Interval, own: Interval) -> bool:
    """Whether a known end of a computed interval is outside of the type."""
    return any(end is not None and not _contains(own, (end, end)) for end in found)


def _is_integer(expr: Any) -> bool:
    return str(expr.ty) == "bool" or canonical(str(expr.ty)).is_integer


def _type_range(expr: Any) -> Interval:
    """The values of an integer's type."""
    return _values_of(str(expr.ty))


@cache
def _values_of(name: str) -> Interval:
    if name == "bool":
        return 0, 1
    dtype = canonical(name)
    if not dtype.is_integer or dtype.lanes > 1:
        return UNKNOWN
    return (0, 2**dtype.bits - 1) if dtype.startswith("uint") else (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1)


def _contains(outer: Interval, inner: Interval) -> bool:
    (least, most), (low, high) = outer, inner
    if least is None or most is None or low is None or high is None:
        return False
    return least <= low and high <= most


def is_within(index: Any, size: Any, ranges: Mapping[Any, Interval]) -> bool:
    """Whether an index is certainly within an axis; False for vectors.

    Args:
        index: an integer expression.
        size: of the axis.
        ranges: intervals of the variables.
    """
    low, high = interval_of(index, ranges)
    least = interval_of(size, ranges)[0]
    return low is not None and high is not None and least is not None and 0 <= low and high < least


def is_exact(expr: Any, ranges: Ranges) -> bool:
    """Whether an expression takes both ends of its interval where each of its variables takes every value of its range.

    It does if every variable has a range and occurs once, and only in sums, differences, multiples and quotients by constants. In
    ``i - i`` the interval of ``i`` from 0 to 7 gives -7 to 7, but the only value is 0.

    Args:
        expr: an integer expression.
        ranges: intervals of variables.
    """
    variables = _distinct_variables(expr)
    # Of a variable without a range only its type is known: an unsigned one need not take all values from 0 up.
    return variables is not None and all(ranges.get(variable, UNKNOWN) != UNKNOWN for variable in variables)


def _distinct_variables(expr: Any) -> frozenset[Any] | None:
    """The variables of an expression that :func:`is_exact`; None for any other."""
    if isinstance(expr, (int, ir.IntImm)):
        return frozenset()
    if isinstance(expr, ir.Var):
        return frozenset([expr])
    if isinstance(expr, ir.Cast):
        return _distinct_variables(expr.value)
    if not isinstance(expr, (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv)):
        return None
    left = _distinct_variables(expr.a)
    right = None if left is None else _distinct_variables(expr.b)
    if left is None or right is None or left & right:
        return None
    # A product of variables takes its ends only where the signs allow it.
    if isinstance(expr, (ir.Mul, ir.FloorDiv)) and right:
        return None
    return left | right


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _add(left: Interval, right: Interval) -> Interval:
    return _sum(left[0], right[0]), _sum(left[1], right[1])


def _negated(found: Interval) -> Interval:
    low, high = found
    return None if high is None else -high, None if low is None else -low


def _sub(left: Interval, right: Interval) -> Interval:
    return _add(left, _negated(right))


def _mul(left: Interval, right: Interval) -> Interval:
    (low, high), (least, most) = left, right
    # Without a sign change an unknown upper end leaves the lower end known; otherwise all four ends must be.
    if low is not None and low >= 0 and least is not None and least >= 0:
        return low * least, None if high is None or most is None else high * most
    if low is None or high is None or least is None or most is None:
        return UNKNOWN
    ends = [low * least, low * most, high * least, high * most]
    return min(ends), max(ends)


def _floor_div(left: Interval, right: Interval) -> Interval:
    """Of a floor division; a negative divisor is made positive first, and one that may have either sign gives no bounds."""
    small, large = right
    if large is not None and large < 0:
        return _floor_div(_negated(left), _negated(right))
    if small is None or small < 0:
        return UNKNOWN
    if small == 0:
        return (0, 0) if large == 0 else _or_zero(_floor_div(left, (1, large)))
    # A larger divisor moves the quotient towards zero, or to -1 for a negative dividend: the end that matters depends on the
    # sign.
    low, high = left
    if low is not None:
        low = low // small if low < 0 else 0 if large is None else low // large
    if high is not None:
        high = high // small if high >= 0 else -1 if large is None else high // large
    return low, high


def _floor_mod(left: Interval, right: Interval) -> Interval:
    if right[1] is not None and right[1] < 0:
        return _negated(_floor_mod(_negated(left), _negated(right)))
    if right[0] is None or right[0] < 0:
        return UNKNOWN
    return 0, None if right[1] is None else max(right[1] - 1, 0)


def _shift_left(left: Interval, right: Interval) -> Interval:
    """Of a shift to the left, as a product by powers of two."""
    least, most = right
    if least is None or most is None or least < 0 or most > _MOST_SHIFTED:
        return UNKNOWN
    return _mul(left, (1 << least, 1 << most))


def _shift_right(left: Interval, right: Interval) -> Interval:
    """Of a shift to the right, which is a quotient by a power of two however far it goes."""
    least, most = right
    if least is None or least < 0:
        return UNKNOWN
    return _floor_div(left, (1 << min(least, _MOST_SHIFTED), None if most is None or most > _MOST_SHIFTED else 1 << most))


def _bitwise_and(left: Interval, right: Interval) -> Interval:
    """Of the bits that two numbers have in common: those of one that is not negative are a number up to this one."""
    ends = [high for low, high in (left, right) if low is not None and low >= 0]
    return (0, min((end for end in ends if end is not None), default=None)) if ends else UNKNOWN


def _or_zero(found: Interval) -> Interval:
    """Of a value, or 0: what a division by zero gives."""
    low, high = found
    return None if low is None else min(low, 0), None if high is None else max(high, 0)


def _min(left: Interval, right: Interval) -> Interval:
    (low, high), (least, most) = left, right
    known = [end for end in (high, most) if end is not None]
    return None if low is None or least is None else min(low, least), min(known, default=None)


def _max(left: Interval, right: Interval) -> Interval:
    (low, high), (least, most) = left, right
    known = [end for end in (low, least) if end is not None]
    return max(known, default=None), None if high is None or most is None else max(high, most)


def _less(left: Interval, right: Interval) -> Interval:
    """Of ``left < right`` as a number: 1 if it always holds, 0 if it never does."""
    if left[1] is not None and right[0] is not None and left[1] < right[0]:
        return 1, 1
    return (0, 0) if left[0] is not None and right[1] is not None and left[0] >= right[1] else (0, 1)


def _not(found: Interval) -> Interval:
    low, high = found
    return None if high is None else 1 - high, None if low is None else 1 - low


def _equal(left: Interval, right: Interval) -> Interval:
    if _less(left, right) == (1, 1) or _less(right, left) == (1, 1):
        return 0, 0
    # Equal intervals are equal values only where each holds a single number.
    single = left == right and left[0] is not None and left[0] == left[1]
    return (1, 1) if single else (0, 1)


_RULES: Mapping[type, Callable[[Interval, Interval], Interval]] = {
    ir.Add: _add,
    ir.Sub: _sub,
    ir.Mul: _mul,
    ir.FloorDiv: _floor_div,
    ir.FloorMod: _floor_mod,
    ir.LShift: _shift_left,
    ir.RShift: _shift_right,
    ir.BitwiseAnd: _bitwise_and,
    ir.Min: _min,
    ir.Max: _max,
    ir.LT: _less,
    ir.GT: lambda left, right: _less(right, left),
    ir.GE: lambda left, right: _not(_less(left, right)),
    ir.LE: lambda left, right: _not(_less(right, left)),
    ir.EQ: _equal,
    ir.NE: lambda left, right: _not(_equal(left, right)),
}
