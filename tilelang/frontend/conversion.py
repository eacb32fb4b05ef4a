"""Types of scalars: conversion from one to another, and the type that operands of different types have in common.

TVM is loaded only when a function gets an expression.
"""

from __future__ import annotations

import functools
import math
from typing import Any

from tilelang.dtypes import DType, canonical, vector
from tilelang.errors import DtypeError
from tilelang.frontend.values import as_expr, as_operand


def is_number(value: Any) -> bool:
    """Whether ``value`` is known while the program is traced."""
    return isinstance(value, (int, float))


def dtype_of(expr: Any) -> DType:
    """The type of an expression."""
    return canonical(str(expr.ty))


def convert(expr: Any, dtype: Any, lanes: int = 1) -> Any:
    """The expression ``expr`` in the scalar type of ``dtype``, repeated over ``lanes`` where it has only one.

    Args:
        expr: an expression of TVM.
        dtype: of the result; lanes of it do not count.
        lanes: of the result.

    Raises:
        DtypeError: ``expr`` has some other number of lanes.
    """
    from tilelang.ir import nodes as ir

    base, source = canonical(dtype).base, dtype_of(expr)
    if source.base != base:
        expr = _converted(expr, source, canonical(base))
    if source.lanes == lanes:
        return expr
    if source.lanes != 1:
        raise DtypeError(f"a value of type {source} does not fit {vector(base, lanes)}")
    return ir.Broadcast(expr, lanes)


def _converted(expr: Any, source: DType, target: DType) -> Any:
    """``expr`` in the scalar type ``target``, with as many lanes as it has."""
    from tilelang.ir import nodes as ir

    if isinstance(expr, (ir.IntImm, ir.FloatImm)):
        return _converted_constant(expr, source, target)
    if target.kind == "bool":
        if source.base == "float8_e8m0fnu":  # it has no zero: that would become its least power of two
            expr, source = ir.Cast(str(vector("float32", source.lanes)), expr), vector("float32", source.lanes)
        zero = as_expr(0, source.base)
        return ir.NE(expr, zero if source.lanes == 1 else ir.Broadcast(zero, source.lanes))
    may_narrow = (
        target.is_integer and target.bits < source.bits and (source.kind == "int" or source.kind == target.kind == "uint")
    )
    narrow = _narrowed(expr, vector(target, source.lanes)) if may_narrow else None
    return narrow if narrow is not None else ir.Cast(str(vector(target, source.lanes)), expr)


def _narrowed(expr: Any, target: DType) -> Any:
    """``expr`` computed in ``target``, where that gives the same value; else None.

    It does for choices and extrema of values that were of that type before they were promoted, and of numbers that it holds:
    ``tile[i] = T.max(tile[i], 0)`` of int8 stays a computation of int8.
    """
    from tilelang.ir import nodes as ir
    from tilelang.ir.visit import is_choice

    if isinstance(expr, ir.Cast):
        return expr.value if dtype_of(expr.value) == target else None
    if isinstance(expr, ir.IntImm):
        return ir.IntImm(str(target), expr.value) if wrapped(expr.value, target) == expr.value else None
    if isinstance(expr, ir.Broadcast):
        narrow = _narrowed(expr.value, canonical(target.base))
        return None if narrow is None else ir.Broadcast(narrow, expr.lanes)
    if isinstance(expr, (ir.Max, ir.Min)):
        sides, make = (expr.a, expr.b), type(expr)
    elif isinstance(expr, ir.Select):
        sides, make = (expr.true_value, expr.false_value), functools.partial(ir.Select, expr.condition)
    elif is_choice(expr):
        sides, make = tuple(expr.args[1:]), functools.partial(ir.tirx.if_then_else, expr.args[0])
    else:
        return None
    # No sums or products here: those may leave the narrow type, and would wrap around there but not in int32.
    narrow = [_narrowed(side, target) for side in sides]
    return None if any(side is None for side in narrow) else make(*narrow)


def _converted_constant(expr: Any, source: DType, target: DType) -> Any:
    """The number of a constant in another type; integers wrap around, floats are rounded or truncated."""
    from tilelang.ir import nodes as ir
    from tilelang.ir.expr import float_constant
    from tilelang.ir.rounding import round_constant

    value = expr.value
    if source.is_float and (target.bits > source.bits or source.bits < 32 and not target.is_float):
        # A constant keeps all digits that the program writes; its value is what remains of them in its own type.
        value = round_constant(float(value), str(source))
    if target.is_float:
        return float_constant(float(value), str(target))
    if target.kind == "bool":
        return ir.IntImm("bool", int(value != 0))
    return ir.IntImm(str(target), wrapped(truncated(float(value), target) if source.is_float else int(value), target))


def truncated(value: float, dtype: DType) -> int:
    """The integral part of a float, saturated to the range of ``dtype`` (of int32 for a narrower type); 0 for NaN, as on GPUs."""
    if math.isnan(value):
        return 0
    wide = dtype if dtype.bits >= 32 else canonical("int32")
    low, high = (-(1 << (wide.bits - 1)), (1 << (wide.bits - 1)) - 1) if wide.kind == "int" else (0, (1 << wide.bits) - 1)
    return high if value > high else low if value < low else int(value)


def wrapped(value: int, dtype: DType) -> int:
    """``value`` modulo the range of an integer type."""
    value &= (1 << dtype.bits) - 1
    signed = dtype.kind == "int" and value >> (dtype.bits - 1)
    return value - (1 << dtype.bits) if signed else value


def promoted_type(left: DType, right: DType) -> DType:
    """The scalar type that two operands of different types are computed in."""
    a, b = canonical(left.base), canonical(right.base)
    if a == b:
        return a
    if a.kind == b.kind and a.bits == b.bits:
        return canonical("float32")  # two float formats of one size, neither of which holds the other
    if a.kind == b.kind:
        return a if a.bits > b.bits else b
    return max(a, b, key=_rank)


def _rank(kind: DType) -> tuple[bool, bool, int, bool]:
    """Floats before integers before bools, the wider before the narrower, unsigned before signed ones of one size."""
    return kind.is_float, kind.kind != "bool", kind.bits, kind.kind == "uint"


def operands(*values: Any) -> list[Any]:
    """``values`` as expressions of one type; a Python integer takes that of the others, but is no narrower than int32, as in
    ``x + 1``."""
    raw = [as_operand(value) for value in values]
    symbolic = [as_expr(value) for value in raw if not is_number(value)]
    kinds = [canonical(dtype_of(expr).base) for expr in symbolic]
    kind = functools.reduce(promoted_type, kinds) if kinds else None
    # A Python float is a float32, beside an integer or a 16-bit float too.
    if kind is None or (not kind.is_float or kind.bits < 32) and any(isinstance(value, float) for value in raw):
        kind = canonical("float32")
    lanes = max((dtype_of(expr).lanes for expr in symbolic), default=1)
    if not kind.is_float:
        numbers = [value for value in raw if isinstance(value, int)]
        narrow = kind.bits < 32 and any(not isinstance(value, bool) for value in numbers)
        kind = holding(numbers, canonical("int32") if narrow else kind)
    return [convert(as_expr(value, kind if is_number(value) else None), kind, lanes) for value in raw]


def holding(values: list[int], kind: DType) -> DType:
    """``kind``, or the signed type that holds its numbers and ``values``."""
    if kind.kind == "bool":
        return kind if all(isinstance(value, bool) for value in values) else holding(values, canonical("int32"))
    # `x + 3000000000` of an int32 is computed in int64; where no type holds all numbers, they wrap around in `kind`.
    for candidate in (kind, canonical("int32"), canonical("int64")):
        wide_enough = candidate.bits > kind.bits or candidate.kind == kind.kind and candidate.bits == kind.bits
        if wide_enough and all(wrapped(value, candidate) == value for value in values):
            return candidate
    return kind
