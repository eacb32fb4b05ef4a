"""Scalar arithmetic: conversions, elementary functions, powers, extrema, choices, classification.

Functions of Python numbers give Python numbers (``T.ceildiv(1024, 128)`` is the ``int`` 8), so that sizes computed with them
stay compile-time values; anything else becomes an expression of the kernel. Operands of different types are promoted as the
operators ``+ - *`` promote them; a Python ``float`` counts as float32, a Python ``int`` takes the other operand's type.
Elementary functions of integers and of float8 values are computed in float32.

Nothing here needs TVM until it meets an expression.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import DType, canonical, is_dtype, vector
from tilelang.errors import CompileError
from tilelang.frontend.values import as_expr, as_operand


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def dtype_of(expr: Any) -> DType:
    """The type of an expression."""
    return canonical(str(expr.ty))


# Conversions ---------------------------------------------------------------------------------------------------------


def cast(value: Any, dtype: Any) -> Any:
    """``value`` converted to ``dtype``: floats round to nearest even, integers wrap around, a float that becomes an integer
    is truncated and limited to the range of int32 (uint32, int64, uint64 where ``dtype`` is one), NaN gives 0.

    Raises:
        CompileError: unknown dtype, or ``value`` is no scalar.
    """
    kind = canonical(dtype)
    if isinstance(value, int) and kind.is_integer:
        value = wrapped(value, kind)
    return convert(as_expr(value, None if isinstance(value, float) and not kind.is_float else kind.base), kind, kind.lanes)


def Cast(dtype: Any, value: Any) -> Any:
    """:func:`cast` with its arguments in the other order."""
    return cast(value, dtype)


def convert(expr: Any, dtype: Any, lanes: int = 1) -> Any:
    """The expression ``expr`` in the scalar type of ``dtype``, repeated over ``lanes`` where it has only one.

    Raises:
        CompileError: ``expr`` has some other number of lanes.
    """
    from tilelang.ir import nodes as ir

    base, source = canonical(dtype).base, dtype_of(expr)
    if source.base != base:
        expr = _converted(expr, source, canonical(base))
    if source.lanes == lanes:
        return expr
    if source.lanes != 1:
        raise CompileError(f"a value of type {source} does not fit {vector(base, lanes)}")
    return ir.Broadcast(expr, lanes)


def _converted(expr: Any, source: DType, target: DType) -> Any:
    from tilelang.ir import nodes as ir

    if isinstance(expr, (ir.IntImm, ir.FloatImm)):
        return _converted_constant(expr, source, target)
    if target.kind == "bool":
        zero = as_expr(0, source.base)
        return ir.NE(expr, zero if source.lanes == 1 else ir.Broadcast(zero, source.lanes))
    return ir.Cast(str(vector(target, source.lanes)), expr)


def _converted_constant(expr: Any, source: DType, target: DType) -> Any:
    from tilelang.ir import nodes as ir
    from tilelang.ir.expr import float_constant

    value = expr.value
    if target.is_float:
        return float_constant(float(value), str(target))
    if target.kind == "bool":
        return ir.IntImm("bool", int(value != 0))
    return ir.IntImm(str(target), wrapped(truncated(float(value), target) if source.is_float else int(value), target))


def truncated(value: float, dtype: DType) -> int:
    """The whole part of a float, limited to the range of ``dtype`` (of int32, where that is wider); of NaN, zero."""
    if math.isnan(value):
        return 0
    held = dtype if dtype.bits >= 32 else canonical("int32")
    low, high = (-(1 << (held.bits - 1)), (1 << (held.bits - 1)) - 1) if held.kind == "int" else (0, (1 << held.bits) - 1)
    return high if value > high else low if value < low else int(value)


def wrapped(value: int, dtype: DType) -> int:
    """``value`` modulo the range of an integer type."""
    value &= (1 << dtype.bits) - 1
    signed = dtype.kind == "int" and value >> (dtype.bits - 1)
    return value - (1 << dtype.bits) if signed else value


def variable(dtype: DType) -> Any:
    """An immutable variable without a value; see :func:`tilelang.language.scopes.let`."""
    from tilelang.frontend.builder import active_builder
    from tilelang.ir import nodes as ir

    builder = active_builder()
    return ir.Var("v" if builder is None else builder.take_name("v"), str(dtype))


def reinterpret(value: Any, dtype: Any) -> Any:
    """The bits of ``value`` read as ``dtype``; both must have the same size in all. The order of the two does not matter.

    Raises:
        CompileError: the sizes differ.
    """
    from tilelang.ir import nodes as ir

    if is_dtype(value):
        value, dtype = dtype, value
    target = canonical(dtype)
    expr = as_expr(value)
    source = dtype_of(expr)
    if source.bits * source.lanes != target.bits * target.lanes:
        raise CompileError(
            f"T.reinterpret: {source} has {source.bits * source.lanes} bits, {target} has {target.bits * target.lanes}"
        )
    if isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name.endswith(".reinterpret"):
        return reinterpret(expr.args[0], target)
    if source == target:
        return expr
    if source.lanes > 1 and target.lanes == 1:
        from tilelang.frontend.builder import current
        from tilelang.frontend.lanes import joined_bits

        return joined_bits(current("T.reinterpret"), expr, str(target))
    return ir.tirx.reinterpret(str(target), expr)


def condition(value: Any) -> Any:
    """``value`` as a boolean expression; a number counts as whether it is not zero."""
    expr = as_expr(value)
    kind = dtype_of(expr)
    return expr if kind.kind == "bool" else convert(expr, "bool", kind.lanes)


def Not(value: Any) -> Any:
    """Whether ``value`` is zero or false."""
    if _is_number(value):
        return not value
    from tilelang.ir import nodes as ir

    return ir.Not(condition(value))


def _logical(name: str, python: Callable[[Any, Any], bool], meaning: str) -> Callable[[Any, Any], Any]:
    def function(left: Any, right: Any) -> Any:
        if _is_number(left) and _is_number(right):
            return python(left, right)
        from tilelang.ir import nodes as ir

        return getattr(ir, name)(condition(left), condition(right))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether {meaning} hold."
    return function


And = _logical("And", lambda left, right: bool(left and right), "both conditions")
Or = _logical("Or", lambda left, right: bool(left or right), "one of the two conditions or both")


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
    """

    name: str
    python: Callable[..., float]
    meaning: str
    tvm: str = ""
    exact: bool = False
    arity: int = 1

    def function(self) -> Callable[..., Any]:
        """The public function."""
        row = self

        def apply(*args: Any) -> Any:
            if len(args) != row.arity:
                raise CompileError(f"T.{row.name} takes {row.arity} argument(s), got {len(args)}")
            if all(_is_number(arg) for arg in args):
                return row.python(*args)
            return row.build(args)

        apply.__name__ = apply.__qualname__ = self.name
        kept = "An integer is its own result." if self.exact else "An integer or float8 argument is converted to float32."
        apply.__doc__ = f"""{self.meaning}

    {kept} The result has the type of the (promoted) argument; Python numbers give Python numbers.
    """
        return apply

    def build(self, args: tuple[Any, ...]) -> Any:
        """The expression."""
        from tilelang.ir import nodes as ir

        exprs = [as_expr(arg) for arg in args]
        if self.exact and not dtype_of(exprs[0]).is_float:
            return exprs[0]
        exprs = [_floating(expr) for expr in exprs] if self.arity == 1 else list(_promoted(*map(_floating, exprs)))
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
    _Elementary("trunc", math.trunc, "The whole part, rounding towards zero.", exact=True),
    _Elementary("nearbyint", builtins.round, "The nearest whole number, halves to even.", exact=True),
    _Elementary("atan2", math.atan2, "The angle of the point (second, first argument), in radians.", arity=2),
    _Elementary("fmod", math.fmod, "The remainder of division, with the sign of the dividend.", arity=2),
    _Elementary("hypot", math.hypot, "The square root of the sum of two squares.", arity=2),
    _Elementary("copysign", math.copysign, "The first argument with the sign of the second.", arity=2),
]

for _row in _ELEMENTARY:
    globals()[_row.name] = _row.function()


def round(value: Any, rounding_mode: str = "ties-to-even") -> Any:
    """The nearest whole number; an integer is its own result.

    Args:
        value: a number or an expression.
        rounding_mode: where halves go, ``"ties-to-even"`` or ``"ties-away-from-zero"``.
    """
    if rounding_mode not in _ROUNDED:
        raise CompileError(f"T.round: rounding_mode={rounding_mode!r} is none of {', '.join(map(repr, _ROUNDED))}")
    return _ROUNDED[rounding_mode](value)


_ROUNDED: dict[str, Callable[[Any], Any]] = {
    "ties-to-even": globals()["nearbyint"],
    "ties-away-from-zero": _Elementary("round", _away_from_zero, "", exact=True).function(),
}


def _promoted(left: Any, right: Any) -> tuple[Any, Any]:
    """Both operands in their common type."""
    common = promoted_type(dtype_of(left), dtype_of(right))
    lanes = builtins.max(dtype_of(left).lanes, dtype_of(right).lanes)
    return convert(left, common, lanes), convert(right, common, lanes)


_RANK = {"bool": 0, "uint": 1, "int": 2, "float": 3}


def promoted_type(left: DType, right: DType) -> DType:
    """The scalar type that two operands of different types are computed in."""
    a, b = canonical(left.base), canonical(right.base)
    if a == b:
        return a
    if a.kind == b.kind and a.bits == b.bits:
        return canonical("float32")  # two float formats of one size, neither of which holds the other
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    wide, narrow = (a, b) if _RANK[a.kind] > _RANK[b.kind] else (b, a)
    if wide.kind == "int" and narrow.kind == "uint" and narrow.bits > wide.bits:
        return canonical(f"int{narrow.bits}")
    return wide


def operands(*values: Any) -> list[Any]:
    """``values`` as expressions of one type; a Python integer takes the type of the others."""
    raw = [as_operand(value) for value in values]
    symbolic = [as_expr(value) for value in raw if not _is_number(value)]
    kind = canonical(dtype_of(symbolic[0]).base) if symbolic else None
    for expr in symbolic[1:]:
        kind = promoted_type(kind, dtype_of(expr))
    if kind is None or (not kind.is_float or kind.bits < 32) and any(isinstance(value, float) for value in raw):
        kind = canonical("float32" if kind is None or kind.bits < 64 else "float64")
    lanes = builtins.max((dtype_of(expr).lanes for expr in symbolic), default=1)
    if not kind.is_float:
        kind = _holding([value for value in raw if isinstance(value, int)], kind)
    return [convert(as_expr(value, kind if _is_number(value) else None), kind, lanes) for value in raw]


def _holding(values: list[int], kind: DType) -> DType:
    """``kind``, or the signed type that also holds ``values``."""
    for candidate in (kind, canonical("int32"), canonical("int64")):
        if candidate.bits >= kind.bits and all(wrapped(value, candidate) == value for value in values):
            return candidate
    return kind


def abs(value: Any) -> Any:
    """The absolute value."""
    if _is_number(value):
        return builtins.abs(value)
    from tilelang.ir import nodes as ir

    expr = as_expr(value)
    kind = dtype_of(expr)
    if kind.kind in ("uint", "bool"):
        return expr
    return ir.tirx.abs(_floating(expr) if kind.is_float else expr)


fabs = abs


def pow(base: Any, exponent: Any) -> Any:
    """``base`` to the power of ``exponent``.

    A whole exponent known at compile time, at most 4, becomes products in the type of ``base``; every other power is computed
    in floating point.
    """
    if _is_number(base) and _is_number(exponent):
        return base**exponent
    from tilelang.ir import nodes as ir
    from tilelang.ir.visit import walk_expr

    power = as_operand(exponent)
    power = int(power.value) if isinstance(power, ir.IntImm) else power
    if isinstance(power, float) and power.is_integer():
        power = int(power)
    base = as_expr(base)
    repeatable = not any(isinstance(node, ir.Call) for node in walk_expr(base))
    if isinstance(power, int) and 1 <= power <= 4 and repeatable:
        square = base if power == 1 else base * base
        return {1: base, 2: square, 3: square * base, 4: square * square}[power]
    left, right = map(_floating, operands(_floating(base), exponent))
    kind = dtype_of(left)
    if kind.base != "bfloat16":
        return ir.tirx.pow(left, right)
    single = (convert(side, "float32", kind.lanes) for side in (left, right))  # TVM's operator does not know bfloat16
    return convert(ir.tirx.pow(*single), "bfloat16", kind.lanes)


power = pow


# Extrema and choices -------------------------------------------------------------------------------------------------


def _extremum(name: str, python: Callable[..., Any], meaning: str) -> Callable[..., Any]:
    def function(*values: Any) -> Any:
        if not values:
            raise CompileError(f"T.{name} needs at least one argument")
        numbers = [value for value in values if _is_number(value)]
        others = [value for value in values if not _is_number(value)]
        if not others:
            return python(numbers)
        from tilelang.ir import nodes as ir

        result, *rest = operands(*others, *([python(numbers)] if numbers else []))
        for value in rest:
            result = getattr(ir.tirx, name)(result, value)
        return result

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"The {meaning} of the arguments, in their common type; Python numbers are folded first."
    return function


max = _extremum("max", builtins.max, "largest")
min = _extremum("min", builtins.min, "smallest")


def clamp(dst: Any, min_val: Any, max_val: Any) -> Any:
    """``dst`` limited to ``min_val`` … ``max_val``."""
    return min(max(dst, min_val), max_val)


def if_then_else(test: Any, then: Any, otherwise: Any) -> Any:
    """``then`` where ``test`` holds, else ``otherwise``; the side that is not chosen is not evaluated."""
    return _choice("if_then_else", test, then, otherwise)


def Select(test: Any, then: Any, otherwise: Any) -> Any:
    """Like :func:`if_then_else`, but both sides may be evaluated: neither may read outside of its buffer."""
    return _choice("Select", test, then, otherwise)


def _choice(name: str, test: Any, then: Any, otherwise: Any) -> Any:
    test = as_operand(test)
    if _is_number(test):
        return then if test else otherwise
    from tilelang.ir import nodes as ir

    both = (then, otherwise)
    if all(isinstance(value, int) for value in both):
        kind = "bool" if all(isinstance(value, bool) for value in both) else "int32"
        return getattr(ir.tirx, name)(condition(test), *(as_expr(int(value), kind) for value in both))
    return getattr(ir.tirx, name)(condition(test), *operands(*both))


def likely(test: Any) -> Any:
    """``test``, with the hint that it usually holds."""
    from tilelang.ir import nodes as ir

    return ir.tirx.likely(condition(test))


# Classification ------------------------------------------------------------------------------------------------------


def _classifier(name: str, of_finite: bool, python: Callable[[float], bool], meaning: str) -> Callable[[Any], Any]:
    def function(value: Any) -> Any:
        if _is_number(value):
            return python(value)
        from tilelang.ir import nodes as ir

        expr = as_expr(value)
        kind = dtype_of(expr)
        if not kind.is_float:
            return ir.IntImm("bool", int(of_finite))
        return getattr(ir.tirx, name)(expr if kind.bits >= 32 else convert(expr, "float32", kind.lanes))

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Whether the argument is {meaning}; an integer is finite."
    return function


isnan = _classifier("isnan", False, math.isnan, "not a number")
isinf = _classifier("isinf", False, math.isinf, "positive or negative infinity")
isfinite = _classifier("isfinite", True, math.isfinite, "neither infinite nor NaN")
