"""Facts about expressions at a place of a program: integer ranges, divisibility, conditions that hold there.

Nothing is concluded from floats, which TVM's analyzer takes for real numbers (``x != x`` would be false, and prove anything).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant, involves_floats
from tilelang.ir.visit import walk_expr

_InternalError = ir.tvm.error.InternalError
"""The analyzer raises it for some quotients, which it folds before it looks at the divisor."""


class Facts:
    """Ranges of variables, as they come into scope, and questions about expressions over them."""

    def __init__(self) -> None:
        self._analyzer = ir.Analyzer()

    def bind_range(self, var: Any, extent: Any, low: Any = 0) -> None:
        """Adds ``low <= var < low + extent``; a later, tighter range replaces an earlier one.

        Args:
            var: the variable.
            extent: how many values it takes, an integer or an expression.
            low: the least one.
        """
        self._analyzer.bind(var, ir.Range.from_min_extent(_typed(low, var), _typed(extent, var)), allow_override=True)

    def bind_value(self, var: Any, value: Any) -> None:
        """``var == value``, unless floats decide the value."""
        if not involves_floats(value):
            self._analyzer.bind(var, value)

    @contextmanager
    def assuming(self, condition: Any, holds: bool = True) -> Iterator[None]:
        """A context in which ``condition`` holds (or does not).

        What reads memory is not used: the code in the context may store there.
        """
        with ExitStack() as stack:
            for fact in _conjuncts(condition, holds):
                with suppress(_InternalError):
                    stack.enter_context(self._analyzer.constraint_scope(fact))
            yield

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
        try:
            return not involves_floats(condition) and self._analyzer.can_prove(condition)
        except _InternalError:
            return False

    def divisor(self, expr: Any) -> int:
        """The largest number that certainly divides the value; 0 where the value is 0."""
        if isinstance(expr, int):
            return abs(expr)
        found = self._analyzer.modular_set(expr)
        return math.gcd(int(found.coeff), int(found.base))

    def divisible(self, expr: Any, by: int) -> bool:
        """Whether ``by`` certainly divides the value."""
        return self.divisor(expr) % by == 0


def _typed(value: Any, var: Any) -> Any:
    return constant(value, str(var.ty)) if isinstance(value, int) else value


def _conjuncts(condition: Any, holds: bool) -> Iterator[Any]:
    """The parts of a conjunction that stay true wherever they are known to be."""
    if isinstance(condition, ir.Not):
        yield from _conjuncts(condition.a, not holds)
    elif isinstance(condition, ir.And if holds else ir.Or):
        yield from _conjuncts(condition.a, holds)
        yield from _conjuncts(condition.b, holds)
    elif not involves_floats(condition) and not any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(condition)):
        yield condition if holds else ir.Not(condition)
