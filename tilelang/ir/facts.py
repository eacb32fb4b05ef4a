"""Facts about expressions at a place of a program: integer ranges, divisibility, conditions that hold there.

TVM's analyzer answers the questions. Parts of expressions that it would misjudge (:mod:`tilelang.ir.misjudged`) are replaced by
variables before it sees them, with an interval of their values.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import NO_ANSWER, constant
from tilelang.ir.interval import Interval, interval_of
from tilelang.ir.misjudged import StandIns, hidden, is_misjudged, restored
from tilelang.ir.visit import LARGE, operands, variables, walk_expr

_LEAST, _MOST = -(2**63) + 1, 2**63 - 1
"""The bounds that the analyzer gives for a value without a known lower or upper end."""

_VISITS = dict.fromkeys(
    (ir.Select, ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or, ir.Not, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod), 2
)
"""How often the analyzer's rules for an operator visit its operands, where that is more than once: nested ones multiply."""


class Facts:
    """Ranges of variables, as they come into scope, and questions about expressions over them."""

    def __init__(self) -> None:
        self._analyzer = ir.Analyzer()
        self._stand_ins = StandIns()
        self._sizes: dict[Any, int] = {}

    def bind_range(self, var: Any, extent: Any, low: Any = 0) -> None:
        """Adds ``low <= var < low + extent``; a later, tighter range replaces an earlier one.

        Args:
            var: the variable.
            extent: how many values it takes, an integer or an expression.
            low: the least one.
        """
        self._analyzer.bind(var, ir.Range.from_min_extent(_typed(low, var), _typed(extent, var)), allow_override=True)

    def bind_value(self, var: Any, value: Any) -> None:
        """Adds ``var == value``, unless the analyzer would misjudge the value.

        The analyzer puts the value in place of the variable: of one that would take it long with the values of its own variables,
        it gets the interval.
        """
        if is_misjudged(value):
            return
        self._sizes[var] = _steps(value, self._sizes)
        if self._sizes[var] < LARGE:
            with suppress(*NO_ANSWER):
                self._analyzer.bind(var, self._seen(value))
                return
        self._sizes[var] = 1
        self.bind_bounds(var, value)

    def bind_bounds(self, var: Any, value: Any) -> None:
        """Adds the bounds that ``value`` has now, as it will change while the variable does not."""
        low, high = interval_of(value, self)
        if low is not None and high is not None and high - low < 2**31 - 1 and not is_misjudged(value):
            self.bind_range(var, high - low + 1, low)

    @contextmanager
    def assuming(self, condition: Any, holds: bool = True) -> Iterator[None]:
        """A context in which ``condition`` holds (or does not).

        Parts that read memory are not used, since the code in the context may store there.
        """
        with ExitStack() as stack:
            for fact in _conjuncts(condition, holds):
                # A condition that the analyzer cannot take is left out: facts may be missing, and never wrong.
                with suppress(*NO_ANSWER):
                    # In the form that questions about the same values get.
                    stack.enter_context(self._analyzer.constraint_scope(self._seen(self.simplify(fact))))
            yield

    def assume(self, condition: Any) -> None:
        """Adds what a condition that holds from now on says of each of its variables: bounds, and what divides it."""
        for var in set(variables(condition)):
            with self.assuming(condition):
                found = self._analyzer.const_int_bound(var), self._analyzer.modular_set(var)
            for info in found:
                self._analyzer.update(var, info, override=True)

    def simplify(self, expr: Any) -> Any:
        """The simplest form; integers stay integers."""
        if isinstance(expr, int):
            return expr
        if isinstance(expr, (ir.Var, ir.IntImm)):
            return int(expr.value) if isinstance(expr, ir.IntImm) else expr
        found = expr if is_misjudged(expr) else self._simplified(expr)
        return int(found.value) if isinstance(found, ir.IntImm) else found

    def _simplified(self, expr: Any) -> Any:
        seen = self._seen(expr)
        try:
            found = self._analyzer.simplify(seen)
        except NO_ANSWER:
            return expr
        return restored(found, self._stand_ins.parts)

    def bounds(self, expr: Any) -> tuple[int, int]:
        """The least and the largest value, inclusive; those of 64 bits where no other is known."""
        if isinstance(expr, int):
            return expr, expr
        if is_misjudged(expr):
            low, high = interval_of(expr, self)
            return _LEAST if low is None else low, _MOST if high is None else high
        found = self._analyzer.const_int_bound(self._seen(expr))
        return int(found.min_value), int(found.max_value)

    def get(self, var: Any, default: Interval) -> Interval:
        """The interval of a variable, as :func:`interval_of` asks for it; ``default`` for a float."""
        if not isinstance(var, ir.PrimExpr) or str(var.ty).startswith(("float", "bfloat")):
            return default
        found = self._analyzer.const_int_bound(var)
        low, high = int(found.min_value), int(found.max_value)
        return None if low <= _LEAST else low, None if high >= _MOST else high

    def _seen(self, expr: Any) -> Any:
        """An expression with stand-ins for the parts that the analyzer would misjudge."""
        return hidden(expr, self._stand_in, is_positive=lambda divisor: self.bounds(divisor)[0] > 0, ranges=self)

    def _stand_in(self, part: Any) -> Any:
        """What the analyzer gets for a part: its value if that is known, else a variable with the part's interval."""
        low, high = interval_of(part, self)
        if low is not None and low == high:
            return ir.IntImm(part.ty, low)
        var = self._stand_ins.variable(part, (low, high))
        if low is not None and high is not None and high < _MOST and str(part.ty) in ("int32", "int64"):
            self.bind_range(var, high - low + 1, low)
        return var

    def holds(self, condition: Any) -> bool:
        """Whether a condition is certainly true."""
        if isinstance(condition, bool):
            return condition
        try:
            return self._analyzer.can_prove(self._seen(condition))
        except NO_ANSWER:
            return False

    def divisor(self, expr: Any) -> int:
        """The largest number that certainly divides the value; 0 where the value is 0."""
        if isinstance(expr, int):
            return abs(expr)
        if is_misjudged(expr):
            return 1
        found = self._analyzer.modular_set(self._seen(expr))
        return math.gcd(int(found.coeff), int(found.base))

    def divisible(self, expr: Any, by: int) -> bool:
        """Whether ``by`` certainly divides the value."""
        return self.divisor(expr) % by == 0


def _steps(value: Any, sizes: Mapping[Any, int]) -> int:
    """About how many nodes the analyzer visits to simplify a value, :data:`LARGE` at most.

    Args:
        value: an integer expression.
        sizes: of variables that stand for their values, the steps for these.
    """
    again = _VISITS.get(type(value), 1)
    count = sizes.get(value, 1) if isinstance(value, ir.Var) else 1
    for part in operands(value):
        if count >= LARGE:
            break
        count += again * _steps(part, sizes)
    return min(count, LARGE)


def _typed(value: Any, var: Any) -> Any:
    return constant(value, str(var.ty)) if isinstance(value, int) else value


def _conjuncts(condition: Any, holds: bool) -> Iterator[Any]:
    """The parts of a conjunction that depend on no memory and no call: they stay true in all of the code below it."""
    if isinstance(condition, ir.Not):
        yield from _conjuncts(condition.a, not holds)
    elif isinstance(condition, ir.And if holds else ir.Or):
        yield from _conjuncts(condition.a, holds)
        yield from _conjuncts(condition.b, holds)
    elif not any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(condition)):
        yield condition if holds else ir.Not(condition)
