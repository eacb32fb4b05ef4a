"""Conversions to integers: floats are truncated, limited to the range of int32, uint32, int64 or uint64, zero where they are NaN.

This is what a GPU's conversion does (PTX manual, "cvt"); in C and LLVM a value outside of the range is undefined. Narrower
integers are the low bits of the int32.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.rounding import round_constant
from tilelang.target.cpu.functions import bits, bound, scalar_function, select

_SOURCES = ("float32", "float64")
_TARGETS = ("int32", "uint32", "int64", "uint64")


def to_integer(legalizer: Any, value: Any, dtype: str, known: Any) -> Any:
    """A legalised float32 or float64 as an integer of any type.

    Args:
        legalizer: the legaliser.
        value: the float.
        dtype: the integer type.
        known: the expression that ``value`` was legalised from, whose limits may make a test unnecessary.
    """
    wide = dtype if canonical(dtype).bits >= 32 else "int32"
    # Both limits are powers of two, and so exact as floats: the largest int32 itself is no float32.
    low, high = _range(wide)
    least, most, may_be_nan = _limits(known)
    if not (low <= least and most < high):
        converted = legalizer.call(_name(str(value.ty), wide), value)
    elif may_be_nan:
        converted = bound(value, lambda x: select(x >= ir.FloatImm(x.ty, low), ir.Cast(wide, x), ir.IntImm(wide, 0)))
    else:
        converted = ir.Cast(wide, value)
    return converted if wide == dtype else ir.Cast(dtype, converted)


def _range(dtype: str) -> tuple[float, float]:
    """The least value of an integer type, and the first beyond the largest: both are floats exactly."""
    bits = canonical(dtype).bits
    return (-(2.0 ** (bits - 1)), 2.0 ** (bits - 1)) if canonical(dtype).kind == "int" else (0.0, 2.0**bits)


def _limits(node: Any) -> tuple[float, float, bool]:
    """The constant bounds of ``T.clamp`` and of extrema, which hold for numbers; and whether the value may be NaN instead."""
    if isinstance(node, ir.FloatImm):
        # 2147483647.0 of float32 is 2147483648.0.
        value = round_constant(float(node.value), str(node.ty))
        return (-math.inf, math.inf, True) if math.isnan(value) else (value, value, False)
    if isinstance(node, (ir.Min, ir.Max)):
        (a, b, left_nan), (c, d, right_nan) = _limits(node.a), _limits(node.b)
        pick = min if isinstance(node, ir.Min) else max
        # Extrema prefer a number to NaN: where one operand is NaN, only the limits of the other hold.
        ranges = [(pick(a, c), pick(b, d)), *[(c, d)] * left_nan, *[(a, b)] * right_nan]
        return min(low for low, _ in ranges), max(high for _, high in ranges), left_nan and right_nan
    name = node.op.name if isinstance(node, ir.Call) and isinstance(node.op, ir.Op) else ""
    if name == "tl.clamp":
        _, least, most = map(_limits, node.args)
        return min(least[0], most[0]), most[1], True
    if name in _ROUNDING:
        low, high, may_be_nan = _limits(node.args[0])
        return low - 1, high + 1, may_be_nan
    return -math.inf, math.inf, True


_ROUNDING = frozenset({"tirx.round", "tirx.nearbyint", "tirx.floor", "tirx.trunc", "prim.ceil"})


def _name(source: str, target: str) -> str:
    return f"tl_{source}_to_{target}"


CONVERSIONS = frozenset(_name(source, target) for source in _SOURCES for target in _TARGETS)
"""The names of the functions that truncate floats."""


def _register(source: str, target: str) -> None:
    low, high = (ir.FloatImm(source, limit) for limit in _range(target))
    bits, signed = canonical(target).bits, canonical(target).kind == "int"
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)

    @scalar_function(_name(source, target), (source,), target)
    def convert(x: Any) -> Any:
        # Comparisons with NaN are false, so it passes all of them and ends at 0.
        beyond = select(x < low, ir.IntImm(target, least), ir.IntImm(target, 0)) if signed else ir.IntImm(target, 0)
        return select(x >= high, ir.IntImm(target, most), select(x >= low, ir.Cast(target, x), beyond))


for _source in _SOURCES:
    for _target in _TARGETS:
        _register(_source, _target)


def for_llvm(value: Any, target: str) -> Any:
    """A conversion in the form that LLVM's code generation, and TVM's before it, can take.

    TVM's converts the ends of the interval that it knows of a variable, too, and fails where ``target`` has no such number
    (``uint8(max(x, -1))``). Of bits that are only read as another type it knows no interval.
    """
    kind, own, wanted = str(value.ty), canonical(str(value.ty)), canonical(target)
    if kind == "uint64" and wanted.is_float:
        return bound(value, lambda x: _from_signed(x, target))
    if not own.is_integer or not wanted.is_integer or {kind, target} == {"int32", "int64"}:
        return ir.Cast(target, value)
    if wanted.bits > own.bits:
        is_held = own.kind in ("uint", wanted.kind)
        return ir.Cast(target, value) if is_held else bits(ir.Cast(target.removeprefix("u"), value), target)
    unknown = bits(value, kind.removeprefix("u") if own.kind == "uint" else f"u{kind}")
    return unknown if str(unknown.ty) == target else ir.Cast(target, unknown)


def _from_signed(x: Any, target: str) -> Any:
    """A uint64 as a float, by conversions of int64 alone: of numbers that int64 has not, half of them is converted and doubled.

    The bit that the half loses is kept in its lowest one, which decides on which side of a tie a number lies. LLVM 22 ends the
    process on vectors of conversions of uint64 where code uses AVX-512 without its extension DQ, as code with masks in general
    registers must (``codegen_llvm.py``).
    """
    one, top = ir.IntImm("uint64", 1), x >> ir.IntImm("uint64", 63)
    near = ir.Cast(target, bits((x >> top) | (x & top), "int64"))
    return select(top == one, near + near, near)
