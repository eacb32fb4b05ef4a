"""Small helpers over scalar expressions."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import prod
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.misjudged import StandIns, hidden, is_misjudged, restored
from tilelang.ir.rounding import LAYOUTS, round_constant
from tilelang.ir.visit import is_large, walk_expr

_READS_ONLY = 2
"""TVM's effect kinds up to this one (``kReadState``) change nothing."""

NO_ANSWER = (ir.tvm.error.InternalError, ValueError)
"""What TVM's analyzer raises where it has no answer: for quotients by an expression that it simplifies to zero, and for
coefficients beyond their type, such as 2400000000 for ``(i - i // 4 * 4) * 600000000``, whose values int32 holds."""


def is_pure(call: Any) -> bool:
    """Whether a call does nothing but compute its value."""
    if not isinstance(call.op, ir.Op):
        return False
    effect = call.op.get_attr("TCallEffectKind")
    return effect is not None and int(effect) <= _READS_ONLY


@cache
def _analyzer() -> Any:
    """The analyzer of the process. Nothing is ever bound in it, so no answer depends on an earlier query."""
    return ir.Analyzer()


def simplify(expr: Any) -> Any:
    """``expr`` in its simplest form without assumptions about its variables; a large one, and one about which the analyzer has no
    answer, stays as it is.
    """
    if isinstance(expr, int) or is_misjudged(expr) or is_large(expr):
        return expr
    stand_ins = StandIns()
    seen = hidden(expr, stand_ins.variable, is_positive=lambda divisor: False, ranges={})  # nothing is known about a variable
    try:
        found = _analyzer().simplify(seen)
    except NO_ANSWER:
        return expr
    return found if seen is expr else restored(found, stand_ins.parts)


def as_int(value: Any) -> Any:
    """A Python ``int`` where ``value`` is a known integer (simplifying it first), else ``value`` itself."""
    if isinstance(value, int):
        return value
    if isinstance(value, ir.IntImm):
        return int(value.value)
    if isinstance(value, (ir.Var, float)):
        return value
    reduced = simplify(value)
    return int(reduced.value) if isinstance(reduced, ir.IntImm) else reduced


def constant(value: Any, dtype: str = "int32") -> Any:
    """``value`` as an expression; a Python number becomes an immediate of ``dtype`` (int64 where int32 cannot hold it)."""
    if isinstance(value, bool):
        return ir.IntImm("bool", int(value))
    if isinstance(value, int):
        if dtype == "int32" and not -(2**31) <= value < 2**31:
            dtype = "int64"
        return ir.IntImm(dtype, value)
    return value


def float_constant(value: float, dtype: str) -> Any:
    """A number as an expression of a floating-point type; one beyond the type's range as what a conversion gives.

    TVM takes formats whose name ends in ``u`` for unsigned, and refuses negative constants of them: these are converted from
    float32.
    """
    if dtype in LAYOUTS and abs(value) > LAYOUTS[dtype][2]:
        value = round_constant(value, dtype)
    if dtype.endswith(("fnuz", "fnu")) and value < 0:
        return ir.Cast(dtype, ir.FloatImm("float32", value))
    return ir.FloatImm(dtype, value)


def difference(left: Any, right: Any) -> Any:
    """``left - right`` of indices or sizes; of constants a Python number, as TVM refuses zero less another unsigned one."""
    if isinstance(left, ir.IntImm) and isinstance(right, ir.IntImm):
        return int(left.value) - int(right.value)
    # The analyzer sees no integers that wrap around, and so not that such a value is itself.
    if is_misjudged(left) and tvm_ffi.structural_equal(left, right) and is_settled(left):
        return 0
    return left - right


def is_settled(expr: Any) -> bool:
    """Whether an expression has the same value each time that it is evaluated at one place."""
    return not any(isinstance(part, ir.Call) and not is_pure(part) for part in walk_expr(expr))


def same(left: Any, right: Any) -> bool:
    """Whether two sizes are provably equal."""
    if isinstance(left, int) and isinstance(right, int):
        return left == right
    distance = as_int(difference(constant(left), constant(right)))
    return isinstance(distance, int) and distance == 0


def same_product(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether the products of some sizes are provably equal.

    Equal factors are cancelled first, as TVM's analyzer does not find that ``(n + 1) * (m + 2) * 4`` is ``(n + 1) * 4 * (m +
    2)``.
    """
    rest, theirs = [], _factors(right)
    for factor in _factors(left):
        twin = next((other for other in theirs if same(factor, other)), None)
        if twin is None:
            rest.append(factor)
        else:
            theirs = [other for other in theirs if other is not twin]
    return same(_product(rest), _product(theirs))


def _factors(values: Sequence[Any]) -> list[Any]:
    """The factors of a product, products among them opened; the first one is the product of all known integers."""
    known, found, stack = 1, [], list(values)
    while stack:
        value = as_int(stack.pop())
        if isinstance(value, ir.Mul):
            stack += [value.a, value.b]
        elif isinstance(value, int):
            known *= value
        else:
            found.append(value)
    return [known, *found]


def _product(values: Sequence[Any]) -> Any:
    return as_int(prod(values))


def index_variables(count: int) -> list[Any]:
    """New variables ``i0``, ``i1``, … for the indices of a tile of ``count`` axes."""
    return [ir.Var(f"i{axis}", "int32") for axis in range(count)]


@cache
def _place_variable(axis: int) -> Any:
    return ir.Var(f"i{axis}", "int32")


def place_variables(count: int) -> list[Any]:
    """As :func:`index_variables`, but the same ones each time, so that places of two layouts can be compared."""
    return [_place_variable(axis) for axis in range(count)]
