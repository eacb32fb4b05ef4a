"""How element types are written in CUDA C++ and in PTX."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from tilelang.dtypes import DType, canonical

C_TYPES: Mapping[str, str] = {
    "float64": "double",
    "float32": "float",
    "float16": "half",
    "bfloat16": "nv_bfloat16",
    "float8_e4m3fn": "__nv_fp8_e4m3",
    "float8_e5m2": "__nv_fp8_e5m2",
    "float8_e4m3fnuz": "fp8_e4m3fnuz_t",
    "float8_e5m2fnuz": "fp8_e5m2fnuz_t",
    "float8_e8m0fnu": "fp8_e8m0_t",
    "float4_e2m1fn": "uint8_t",
    "int64": "int64_t",
    "int32": "int",
    "int16": "int16_t",
    "int8": "int8_t",
    "int4": "uint8_t",
    "uint64": "uint64_t",
    "uint32": "uint",
    "uint16": "uint16_t",
    "uint8": "uint8_t",
    "uint4": "uint8_t",
    "uint1": "bool",
    "bool": "bool",
    "handle": "void*",
}
"""Element type name -> C++ type. Four-bit types are stored two in a byte."""

_PTX_TYPES: Mapping[str, str] = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "int32": "s32", "int8": "s8",
    "uint8": "u8", "int4": "s4", "uint4": "u4", "uint1": "b1", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
}  # fmt: skip

VECTOR_TYPES: Mapping[int, str] = {1: "uchar", 2: "ushort", 4: "uint", 8: "uint2", 16: "uint4"}
"""Bytes of a vector access -> the type that moves them."""

FLOAT_VECTORS: Mapping[int, str] = {8: "float2", 16: "float4"}
"""Bytes of a vector of float32 -> the type that moves it without a change of the registers' type."""


def c_type(dtype: str) -> str:
    """The C++ type of one element."""
    return C_TYPES[canonical(dtype).base]


def ptx_type(dtype: str) -> str:
    """The PTX type of an element; the name itself where PTX has none."""
    return _PTX_TYPES.get(canonical(dtype), dtype)


def ptx_operand(dtype: str) -> str:
    """The PTX type as which tensor cores multiply elements: of float32 they take the bits of tf32."""
    return "tf32" if canonical(dtype) == "float32" else ptx_type(dtype)


def product_types(a: str, b: str, c: str) -> str:
    """How the device functions of matrix instructions name the element types.

    Args:
        a, b, c: the types of A, B and C.
    """
    left, right, result = ptx_operand(a), ptx_operand(b), ptx_type(c)
    return result if result == "f64" else f"{result}_{left}" if left == right else f"{result}_{left}_{right}"


def is_packed(dtype: str) -> bool:
    """Whether two elements share a byte."""
    return canonical(dtype).bits == 4


def value_type(dtype: str) -> str:
    """The C++ type of a value outside of memory."""
    return "int" if canonical(dtype).base in ("int4", "uint4") else c_type(dtype)


def byte_count(elements: int, dtype: str) -> int:
    """Bytes of some elements in memory."""
    return (elements * canonical(dtype).stored_bits + 7) // 8


def integer_literal(value: int, dtype: DType) -> str:
    """C++ text of an integer constant."""
    if dtype.kind == "bool":
        return "true" if value else "false"
    if dtype == "int32":
        return str(value) if value > -(2**31) else "(-2147483647 - 1)"
    if dtype == "int64":
        return f"{value}ll" if value > -(2**63) else "(-9223372036854775807ll - 1)"
    suffix = {"uint64": "ull", "uint32": "u"}.get(dtype)
    return f"{value}{suffix}" if suffix else f"{c_type(dtype)}({value})"


def float_literal(value: float, dtype: DType) -> str:
    """C++ text of a floating-point constant, with every digit that matters."""
    if dtype == "float64":
        if math.isfinite(value):
            return _with_point(repr(value))
        return f"__longlong_as_double({_special_bits(value, 0x7FF0000000000000, 0x7FF8000000000000, 63)}ll)"
    if dtype == "float8_e5m2" and not math.isfinite(value):  # a conversion saturates
        return f"tl::e5m2_of_bits({_special_bits(value, 0x7C, 0x7F, 7)})"
    if math.isfinite(value):
        single = _with_point(f"{value:.9g}") + "f"
    else:
        single = f"__int_as_float({_special_bits(value, 0x7F800000, 0x7FC00000, 31)})"
    return single if dtype == "float32" else f"{c_type(dtype)}({single})"


def _with_point(text: str) -> str:
    return text if any(ch in text for ch in ".en") else text + ".0"


def _special_bits(value: float, infinity: int, nan: int, sign: int) -> str:
    bits = nan if math.isnan(value) else infinity | ((1 << sign) if value < 0 else 0)
    return hex(bits)


def literal(value: Any, dtype: str) -> str:
    """C++ text of a constant of an element type."""
    kind = canonical(dtype)
    return float_literal(float(value), kind) if kind.is_float else integer_literal(int(value), kind)
