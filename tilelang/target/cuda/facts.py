"""What is known of integer expressions while a kernel is lowered: their bounds and what divides them."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant, involves_floats


class Facts:
    """Bounds of variables, as they come into scope, and questions about expressions over them."""

    def __init__(self) -> None:
        self._analyzer = ir.Analyzer()

    def bind_range(self, var: Any, extent: Any, low: Any = 0) -> None:
        """``low <= var < low + extent``; said again, it may be tighter, because more is known of the extent by then."""
        self._analyzer.bind(var, ir.Range.from_min_extent(_typed(low, var), _typed(extent, var)), allow_override=True)

    def bind_value(self, var: Any, value: Any) -> None:
        """``var == value``; nothing is known of a value that floats decide, which the analyzer takes for real numbers."""
        if not involves_floats(value):
            self._analyzer.bind(var, value)

    def simplify(self, expr: Any) -> Any:
        """The simplest form; integers stay integers."""
        if isinstance(expr, int):
            return expr
        if isinstance(expr, (ir.Var, ir.IntImm)):
            return int(expr.value) if isinstance(expr, ir.IntImm) else expr
        found = expr if involves_floats(expr) else self._analyzer.simplify(expr)
        return int(found.value) if isinstance(found, ir.IntImm) else found

    def bounds(self, expr: Any) -> tuple[int, int]:
        """The least and largest value, as far as known."""
        if isinstance(expr, int):
            return expr, expr
        found = self._analyzer.const_int_bound(expr)
        return int(found.min_value), int(found.max_value)

    def non_negative(self, expr: Any) -> bool:
        """Whether the value is certainly at least 0."""
        return self.bounds(expr)[0] >= 0

    def holds(self, condition: Any) -> bool:
        """Whether a condition is certainly true."""
        if isinstance(condition, bool):
            return condition
        return not involves_floats(condition) and self._analyzer.can_prove(condition)

    def divisor(self, expr: Any) -> int:
        """The largest number that certainly divides the value; 0 where the value is 0."""
        if isinstance(expr, int):
            return abs(expr)
        found = self._analyzer.modular_set(expr)
        coefficient, base = int(found.coeff), int(found.base)
        return _gcd(coefficient, base)

    def divisible(self, expr: Any, by: int) -> bool:
        """Whether ``by`` certainly divides the value."""
        return self.divisor(expr) % by == 0


def _typed(value: Any, var: Any) -> Any:
    return constant(value, str(var.ty)) if isinstance(value, int) else value


def _gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)
