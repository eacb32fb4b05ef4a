"""Conversions of values between element types."""

from __future__ import annotations

from tilelang.dtypes import DType, canonical
from tilelang.target.cuda.ir.cpp_types import c_type
from tilelang.target.cuda.ir.values import Call, Convert, Value

NATIVE = frozenset({"float64", "float32", "int64", "int32", "int16", "int8", "uint64", "uint32", "uint16", "uint8", "bool"})
"""Types whose conversions to one another C++ knows."""


def converted(value: Value, source: str, target: str) -> Value:
    """A value of one type as one of another; types that only know float pass through it.

    Args:
        value: the value.
        source, target: its element type, and the one wanted.
    """
    source, target = canonical(source), canonical(target)
    if target.base in ("int4", "uint4"):
        return Call(f"tl::wrap_nibble_{'s' if target.kind == 'int' else 'u'}", (converted(value, source, "int32"),))
    if source == target:
        return value
    if "float4_e2m1fn" in (source.base, target.base):
        return _through_codes(value, source, target)
    # The hardware converts these to half alone, which holds all of their values.
    if source in ("float8_e4m3fn", "float8_e5m2") and target != "bool" and c_type(source) != c_type(target):
        return converted(Call("tl::to_half", (value,)), "float16", target)
    source = canonical({"int4": "int32", "uint4": "int32", "uint1": "bool"}.get(source.base, source))
    if target == "uint1" and source != "bool":
        return Convert("bool", converted(value, source, "int32") & 1)
    if c_type(source) == c_type(target):
        return value
    if target == "bool":
        return (value if source in NATIVE else converted(value, source, "float32")).is_("!=", 0)
    if source.is_float and source in NATIVE and target.is_integer:
        return _truncated(value, source, target)
    if source in NATIVE and (target in NATIVE or source == "float32"):
        return Convert(target, value)
    if target == "float32":
        return Convert("float32", value)
    middle = "float64" if source == "float64" else "float32"
    return converted(converted(value, source, middle), middle, target) if source != middle else Convert(target, value)


def _through_codes(value: Value, source: DType, target: DType) -> Value:
    """A conversion from or to float4_e2m1fn, whose values a thread holds as codes."""
    if source.base == "float4_e2m1fn":
        return converted(Call("tl::e2m1_to_float", (value,)), "float32", target)
    wide = "float64" if source == "float64" else "float32"
    return Call("tl::to_e2m1", (converted(value, source, wide),))


def _truncated(value: Value, source: str, target: DType) -> Value:
    """A float32 or float64 as an integer; narrow ones are the low bits of an int."""
    if target.bits < 32:
        return Convert(target, _truncated(value, source, canonical("int32")))
    return Call(f"tl::to_{target.kind}{target.bits}", (value,))
