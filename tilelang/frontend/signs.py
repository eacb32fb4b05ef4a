"""Which values an index can take, as far as the loops and blocks around it tell: what Python's negative indices need.

A bound that is not known is None; nothing here is exact, everything is safe.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir import nodes as ir

Bounds = tuple[int | None, int | None]
_UNKNOWN: Bounds = (None, None)


def bounds_of(expr: Any, ranges: Mapping[Any, Bounds]) -> Bounds:
    """The least and the greatest value of an integer expression; ``ranges`` gives those of variables."""
    if isinstance(expr, int):
        return expr, expr
    if isinstance(expr, ir.IntImm):
        return int(expr.value), int(expr.value)
    if isinstance(expr, ir.Var):
        found = ranges.get(expr, _UNKNOWN)
    elif isinstance(expr, ir.Cast):
        found = bounds_of(expr.value, ranges) if "int" in str(expr.value.ty) else _UNKNOWN
    elif type(expr) in _RULES:
        found = _RULES[type(expr)](bounds_of(expr.a, ranges), bounds_of(expr.b, ranges))
    else:
        found = _UNKNOWN
    return (0, found[1]) if found[0] is None and str(expr.ty).startswith("uint") else found


def from_the_end(index: Any, size: Any, ranges: Mapping[Any, Bounds]) -> Any:
    """``index`` itself, or counted from the end of an axis of ``size`` where it is certainly negative."""
    high = bounds_of(index, ranges)[1]
    return index + size if high is not None and high < 0 else index


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _add(left: Bounds, right: Bounds) -> Bounds:
    return _sum(left[0], right[0]), _sum(left[1], right[1])


def _sub(left: Bounds, right: Bounds) -> Bounds:
    low, high = right
    return _add(left, (None if high is None else -high, None if low is None else -low))


def _mul(left: Bounds, right: Bounds) -> Bounds:
    if left[0] is not None and left[0] >= 0 and right[0] is not None and right[0] >= 0:
        return left[0] * right[0], None if left[1] is None or right[1] is None else left[1] * right[1]
    if None in left or None in right:
        return _UNKNOWN
    ends = [a * b for a in left for b in right]
    return min(ends), max(ends)


def _floor_div(left: Bounds, right: Bounds) -> Bounds:
    if right[0] is None or right[0] <= 0:
        return _UNKNOWN
    low = None if left[0] is None else 0 if left[0] >= 0 else left[0]
    return low, None if left[1] is None else max(left[1] // right[0], -1 if left[1] < 0 else 0)


def _floor_mod(left: Bounds, right: Bounds) -> Bounds:
    if right[0] is None or right[0] <= 0:
        return _UNKNOWN
    return 0, None if right[1] is None else right[1] - 1


def _min(left: Bounds, right: Bounds) -> Bounds:
    known = [high for high in (left[1], right[1]) if high is not None]
    return None if None in (left[0], right[0]) else min(left[0], right[0]), min(known, default=None)


def _max(left: Bounds, right: Bounds) -> Bounds:
    known = [low for low in (left[0], right[0]) if low is not None]
    return max(known, default=None), None if None in (left[1], right[1]) else max(left[1], right[1])


_RULES: Mapping[type, Callable[[Bounds, Bounds], Bounds]] = {
    ir.Add: _add,
    ir.Sub: _sub,
    ir.Mul: _mul,
    ir.FloorDiv: _floor_div,
    ir.FloorMod: _floor_mod,
    ir.Min: _min,
    ir.Max: _max,
}
