"""Scalar arithmetic: elementary functions, powers, extrema, choices, classification.

Functions of Python numbers give Python numbers (``T.ceildiv(1024, 128)`` is the ``int`` 8), so that sizes computed with them
stay compile-time values; anything else becomes an expression of the kernel. Operands of different types are promoted as the
operators ``+ - *`` promote them; a Python ``float`` counts as float32, a Python ``int`` beside an int8 as int32.
Elementary functions of integers and of float8 values are computed in float32.

TVM is loaded only when a function gets an expression.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import OptionError
from tilelang.frontend.conversion import convert, dtype_of, holding, is_number, operands
from tilelang.frontend.values import Tile, as_expr, as_operand
from tilelang.language.signatures import parameters, taking

if TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        """The functions that are made from the table of elementary functions."""


def lifted(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, also of each element of slices (``T.exp(A[:])``)."""

    @functools.wraps(function)
    def apply(*args: Any, **kwargs: Any) -> Any:
        if not any(isinstance(arg, Tile) for arg in (*args, *kwargs.values())):
            return function(*args, **kwargs)
        from tilelang.frontend.tiles import elementwise

        def of_elements(*values: Any) -> Any:
            return function(*values[: len(args)], **dict(zip(kwargs, values[len(args) :])))

        return elementwise(of_elements, *args, *kwargs.values())

    return apply


def condition(value: Any) -> Any:
    """``value`` as a boolean expression; a number counts as whether it is not zero."""
    expr = as_expr(value)
    kind = dtype_of(expr)
    return expr if kind.kind == "bool" else convert(expr, "bool", kind.lanes)


@lifted
def Not(a: Any) -> Any:
    """Whether ``a`` is zero or false."""
    if is_number(a):
        return not a
    from tilelang.ir import nodes as ir

    return ir.Not(condition(a))


def _logical(name: str, python: Callable[[Any, Any], bool], meaning: str) -> Callable[[Any, Any], Any]:
    def function(a: Any, b: Any) -> Any:
        if is_number(a) and is_number(b):
            return python(a, b)
        from tilelang.ir import nodes as ir

        return getattr(ir, name)(condition(a), condition(b))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether {meaning} hold."
    return lifted(function)


And = _logical("And", lambda a, b: bool(a and b), "both conditions")
Or = _logical("Or", lambda a, b: bool(a or b), "one of the two conditions or both")


# Elementary functions ------------------------------------------------------------------------------------------------


def _floating(value: Any) -> Any:
    """``value`` as an expression of a type that has elementary functions."""
    expr = as_expr(value)
    kind = dtype_of(expr)
    return expr if kind.is_float and kind.bits > 8 else convert(expr, "float32", kind.lanes)


def _away_from_zero(x: float) -> float:
    return math.copysign(math.floor(builtins.abs(x) + 0.5), x)


@dataclass(frozen=True, slots=True)
class _Elementary:
    """A function of floating-point values.

    Attributes:
        name: of the function, and of TVM's unless ``tvm`` says otherwise.
        python: what it is for Python numbers.
        meaning: first line of its documentation.
        exact: whether an integer is its own result.
        parameters: names of its arguments.
    """

    name: str
    python: Callable[..., float]
    meaning: str
    tvm: str = ""
    exact: bool = False
    parameters: str = "x"

    def function(self) -> Callable[..., Any]:
        """The public function."""
        row = self
        kept = "An integer is its own result." if self.exact else "An integer or float8 argument is converted to float32."
        meaning = f"""{self.meaning}

    {kept} The result has the type of the (promoted) argument; Python numbers give Python numbers.
    """

        @taking(parameters(self.parameters), self.name, meaning)
        def apply(*args: Any) -> Any:
            return row.python(*args) if all(is_number(arg) for arg in args) else row.build(args)

        return apply

    def build(self, args: tuple[Any, ...]) -> Any:
        """The expression."""
        from tilelang.ir import nodes as ir

        exprs = [as_expr(arg) for arg in args]
        if self.exact and not dtype_of(exprs[0]).is_float:
            return exprs[0]
        exprs = [_floating(expr) for expr in exprs] if len(exprs) == 1 else operands(*map(_floating, exprs))
        return getattr(ir.tirx, self.tvm or self.name)(*exprs)


_ELEMENTARY = [
    _Elementary("exp", math.exp, "e to the power of ``x``."),
    _Elementary("exp2", lambda x: 2.0**x, "2 to the power of ``x``."),
    _Elementary("exp10", lambda x: 10.0**x, "10 to the power of ``x``."),
    _Elementary("log", math.log, "The natural logarithm."),
    _Elementary("log2", math.log2, "The logarithm to base 2."),
    _Elementary("log10", math.log10, "The logarithm to base 10."),
    _Elementary("log1p", math.log1p, "The natural logarithm of ``1 + x``, exact near zero."),
    _Elementary("sqrt", math.sqrt, "The square root."),
    _Elementary("rsqrt", lambda x: 1.0 / math.sqrt(x), "One over the square root."),
    _Elementary("sin", math.sin, "The sine of an angle in radians."),
    _Elementary("cos", math.cos, "The cosine of an angle in radians."),
    _Elementary("tan", math.tan, "The tangent of an angle in radians."),
    _Elementary("asin", math.asin, "The arc sine, in radians."),
    _Elementary("acos", math.acos, "The arc cosine, in radians."),
    _Elementary("atan", math.atan, "The arc tangent, in radians."),
    _Elementary("sinh", math.sinh, "The hyperbolic sine."),
    _Elementary("cosh", math.cosh, "The hyperbolic cosine."),
    _Elementary("tanh", math.tanh, "The hyperbolic tangent."),
    _Elementary("asinh", math.asinh, "The inverse hyperbolic sine."),
    _Elementary("acosh", math.acosh, "The inverse hyperbolic cosine."),
    _Elementary("atanh", math.atanh, "The inverse hyperbolic tangent."),
    _Elementary("sigmoid", lambda x: 1.0 / (1.0 + math.exp(-x)), "The logistic function ``1 / (1 + exp(-x))``."),
    _Elementary("erf", math.erf, "The error function."),
    _Elementary("ceil", math.ceil, "The smallest whole number that is not less.", exact=True),
    _Elementary("floor", math.floor, "The largest whole number that is not greater.", exact=True),
    _Elementary("trunc", lambda x: math.trunc(x), "The whole part, rounding towards zero.", exact=True),
    _Elementary("nearbyint", builtins.round, "The nearest whole number, halves to even.", exact=True),
    _Elementary("atan2", math.atan2, "The angle of the point (second, first argument), in radians.", parameters="x1 x2"),
    _Elementary("fmod", math.fmod, "The remainder of division, with the sign of the dividend.", parameters="x y"),
    _Elementary("hypot", math.hypot, "The square root of the sum of two squares.", parameters="x1 x2"),
    _Elementary("copysign", math.copysign, "The first argument with the sign of the second.", parameters="x1 x2"),
]

for _row in _ELEMENTARY:
    globals()[_row.name] = lifted(_row.function())


@lifted
def round(x: Any, rounding_mode: str = "ties-to-even") -> Any:
    """The nearest whole number; an integer is its own result.

    Args:
        x: a number or an expression.
        rounding_mode: where halves go, ``"ties-to-even"`` or ``"ties-away-from-zero"``.
    """
    if rounding_mode not in _ROUNDED:
        raise OptionError(f"T.round: rounding_mode={rounding_mode!r} is none of {', '.join(map(repr, _ROUNDED))}")
    return _ROUNDED[rounding_mode](x)


_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "ties-to-even": globals()["nearbyint"],
    "ties-away-from-zero": _Elementary("round", _away_from_zero, "", exact=True).function(),
}


@lifted
def abs(x: Any) -> Any:
    """The absolute value."""
    if is_number(x):
        return builtins.abs(x)
    from tilelang.ir import nodes as ir

    expr = as_expr(x)
    kind = dtype_of(expr)
    if kind.kind in ("uint", "bool"):
        return expr
    return ir.tirx.abs(_floating(expr) if kind.is_float else expr)


fabs = abs
"""The name of :func:`abs` for floats in C."""


@lifted
def pow(x: Any, y: Any) -> Any:
    """``x`` to the power of ``y``.

    A whole exponent known at compile time, at most 4, becomes products in the type of ``x``, of an integer beside a Python float
    in float32; every other power is computed in floating point.
    """
    if is_number(x) and is_number(y):
        return x**y
    from tilelang.ir import nodes as ir
    from tilelang.ir.visit import walk_expr

    power = as_operand(y)
    power = int(power.value) if isinstance(power, ir.IntImm) else power
    if isinstance(power, float) and power.is_integer():
        power = int(power)
    base = as_expr(x)
    if isinstance(y, float) and not dtype_of(base).is_float:
        base = _floating(base)
    # A product names the base several times: a call, which may cost much or draw a random number, must stand once.
    repeatable = not any(isinstance(node, ir.Call) for node in walk_expr(base))
    if isinstance(power, int) and 1 <= power <= 4 and repeatable:
        square = base if power == 1 else base * base
        return {1: base, 2: square, 3: square * base, 4: square * square}[power]
    left, right = map(_floating, operands(_floating(base), y))
    kind = dtype_of(left)
    if kind.base != "bfloat16":
        return ir.tirx.pow(left, right)
    single = (convert(side, "float32", kind.lanes) for side in (left, right))  # TVM's operator does not know bfloat16
    return convert(ir.tirx.pow(*single), "bfloat16", kind.lanes)


power = pow
"""Another name of :func:`pow`."""


# Extrema and choices -------------------------------------------------------------------------------------------------


def _extremum(name: str, python: Callable[..., Any], of_bools: str, which: str) -> Callable[..., Any]:
    meaning = f"The {which} of the arguments, in their common type; Python numbers are folded first."

    @taking(parameters("a b *more"), name, meaning)
    def function(*values: Any) -> Any:
        numbers = [value for value in values if is_number(value)]
        others = [value for value in values if not is_number(value)]
        if not others:
            return python(numbers)
        from tilelang.ir import nodes as ir

        result, *rest = operands(*others, *([python(numbers)] if numbers else []))
        combine = getattr(ir, of_bools) if dtype_of(result).kind == "bool" else getattr(ir.tirx, name)
        for value in rest:
            result = combine(result, value)
        return result

    return function


max = lifted(_extremum("max", builtins.max, "Or", "largest"))
min = lifted(_extremum("min", builtins.min, "And", "smallest"))


@lifted
def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """``dst`` limited to ``min_val`` … ``max_val``; NaN if one of the three is, unlike :func:`max` and :func:`min`.

    Args:
        dst: a number, an expression or a slice.
        min_val, max_val: the limits; ``max_val`` wins where they cross.

    Returns:
        The limited value, in the common type of the three.
    """
    values = (dst, min_val, max_val)
    if all(map(is_number, values)):
        return math.nan if any(map(math.isnan, values)) else builtins.min(builtins.max(dst, min_val), max_val)
    exprs = operands(*values)
    if not dtype_of(exprs[0]).is_float:
        return min(max(dst, min_val), max_val)
    from tilelang.tileop.thread import intrinsic_call

    return intrinsic_call("clamp", *exprs)


@lifted
def if_then_else(cond: Any, t: Any, f: Any) -> Any:
    """``t`` where ``cond`` holds, else ``f``; the side that is not chosen is not evaluated.

    Args:
        cond: a condition; a number counts as whether it is not zero.
        t, f: scalars or vectors, promoted to their common type; or addresses, for foreign code.

    Returns:
        The chosen value; that very argument where ``cond`` is a number.
    """
    return _choice("if_then_else", cond, t, f)


@lifted
def Select(condition: Any, true_value: Any, false_value: Any) -> Any:
    """Like :func:`if_then_else`, but both sides may be evaluated: neither may read outside of its buffer.

    Args:
        condition, true_value, false_value: as ``cond``, ``t`` and ``f`` of :func:`if_then_else`.

    Returns:
        The chosen value.
    """
    return _choice("Select", condition, true_value, false_value)


def _choice(name: str, test: Any, then: Any, otherwise: Any) -> Any:
    test = as_operand(test)
    if is_number(test):
        return then if test else otherwise
    from tilelang.frontend.builder import noted
    from tilelang.ir import nodes as ir

    both = (then, otherwise)
    if all(isinstance(value, int) for value in both):
        kind = str(holding([then, otherwise], canonical("bool")))
        return getattr(ir.tirx, name)(condition(test), *(as_expr(int(value), kind) for value in both))
    # Addresses (T.address_of, .data) have no type to promote, and are no operands of TVM's constructors; foreign code gets one.
    if all(map(ir.is_pointer, both)):
        return ir.Call(ir.Op.get("prim.if_then_else"), [condition(test), *both], ret_ty=then.ty)
    return noted(getattr(ir.tirx, name)(condition(test), *operands(*both)))


where = if_then_else
"""The name of :func:`if_then_else` in torch and NumPy."""


@lifted
def likely(cond: Any) -> Any:
    """``cond`` itself. The hint that it usually holds changes no target's code."""
    return condition(cond)


# Classification ------------------------------------------------------------------------------------------------------


def _classifier(name: str, of_finite: bool, python: Callable[[float], bool], meaning: str) -> Callable[[Any], Any]:
    def function(x: Any) -> Any:
        if is_number(x):
            return python(x)
        from tilelang.ir import nodes as ir

        expr = as_expr(x)
        kind = dtype_of(expr)
        if not kind.is_float:
            return ir.IntImm("bool", int(of_finite))
        return getattr(ir.tirx, name)(expr if kind.bits >= 32 else convert(expr, "float32", kind.lanes))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether the argument is {meaning}; an integer is finite."
    return lifted(function)


isnan = _classifier("isnan", False, math.isnan, "not a number")
isinf = _classifier("isinf", False, math.isinf, "positive or negative infinity")
isfinite = _classifier("isfinite", True, math.isfinite, "neither infinite nor NaN")
