"""Number formats that are stored narrow and computed wide: float16, bfloat16, float8, float4.

A value of such a type is held as float32 in expressions and as an unsigned integer in memory. Rounding is to nearest, ties to
even; float8_e4m3fn and float4_e2m1fn, which have no infinity, saturate at their largest value (so does a NaN in float4); a
float8_e5m2 or float16 overflow is infinity, a fnuz overflow NaN; float8_e8m0fnu is a power of two without sign, or NaN. All of it
is what ``torch.Tensor.to`` does.
"""

from __future__ import annotations

import math
import struct
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.rounding import FNUZ, LAYOUTS, e8m0_code
from tilelang.target.cpu.functions import bits, f32, is_nan, let, scalar_function, select, u32

STORAGE = {
    "float16": "uint16",
    "bfloat16": "uint16",
    "float8_e4m3fn": "uint8",
    "float8_e5m2": "uint8",
    "float8_e4m3fnuz": "uint8",
    "float8_e5m2fnuz": "uint8",
    "float8_e8m0fnu": "uint8",
    "float4_e2m1fn": "uint8",
    "int4": "uint8",
    "uint4": "uint8",
    "uint1": "uint8",
}
"""Narrow format -> the integer type that holds it in memory; of some, :mod:`~tilelang.target.cpu.packed` says how."""

WIDEN = {
    "float16": "tl_f16_to_f32",
    "bfloat16": "tl_bf16_to_f32",
    "float8_e4m3fn": "tl_e4m3_to_f32",
    "float8_e5m2": "tl_e5m2_to_f32",
    "float8_e4m3fnuz": "tl_e4m3fnuz_to_f32",
    "float8_e5m2fnuz": "tl_e5m2fnuz_to_f32",
    "float8_e8m0fnu": "tl_e8m0_to_f32",
    "float4_e2m1fn": "tl_e2m1_to_f32",
}
NARROW = {
    "float16": "tl_f32_to_f16",
    "bfloat16": "tl_f32_to_bf16",
    "float8_e4m3fn": "tl_f32_to_e4m3",
    "float8_e5m2": "tl_f32_to_e5m2",
    "float8_e4m3fnuz": "tl_f32_to_e4m3fnuz",
    "float8_e5m2fnuz": "tl_f32_to_e5m2fnuz",
    "float8_e8m0fnu": "tl_f32_to_e8m0",
    "float4_e2m1fn": "tl_f32_to_e2m1",
}
"""Names of the conversion functions in :data:`~tilelang.target.cpu.functions.FUNCTIONS`."""

_FNUZ_NAN = 0x80


def bit_pattern(value: float, dtype: str) -> int:
    """The bits of a rounded constant in float32, or in a narrow format by way of its definition."""
    return struct.unpack("<I", struct.pack("<f", value))[0] if dtype == "float32" else _encode(value, dtype)


def _encode(value: float, dtype: str) -> int:
    if dtype == "float8_e8m0fnu":
        return e8m0_code(value)
    if dtype in FNUZ and (value == 0 or not math.isfinite(value)):
        return 0 if value == 0 else _FNUZ_NAN
    mantissa, bias, _, _ = LAYOUTS[dtype]
    width = canonical(dtype).bits
    sign = (1 << (width - 1)) if math.copysign(1.0, value) < 0 else 0
    if math.isnan(value):
        return sign | ((1 << (width - 1)) - 1)
    if math.isinf(value):
        return sign | (((1 << (width - 1 - mantissa)) - 1) << mantissa)
    if value == 0:
        return sign
    # frexp's mantissa lies between 1/2 and 1, that of IEEE 754 between 1 and 2. Below the smallest normal number the exponent
    # stays, and the mantissa has no leading one.
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    scaled = int(abs(value) / math.ldexp(1.0, exponent - mantissa))
    biased = exponent + bias if scaled >> mantissa else 0
    return sign | (biased << mantissa) | (scaled & ((1 << mantissa) - 1))


def _u32(value: Any) -> Any:
    return ir.Cast("uint32", value)


@scalar_function("tl_f64_to_odd", ("float64",), "float32")
def _f64_to_odd(x: Any) -> Any:
    """Rounded to odd: towards zero, and the last bit is set where that is not exact. Rounded to nearest, it could become a tie of
    the narrower format that it is rounded to next."""
    zero = ir.FloatImm("float64", 0.0)

    def rounded(near: Any) -> Any:
        def of(wide: Any) -> Any:
            # Comparisons with NaN are false, so it stays.
            away = select(ir.Or(ir.And(x > zero, wide > x), ir.And(x < zero, wide < x)), u32(1), u32(0))
            truncated = bits(near, "uint32") - away
            inexact = ir.Or(wide > x, wide < x)
            return bits(truncated | select(inexact, u32(1), u32(0)), "float32")

        return let(ir.Cast("float64", near), of, "wide")

    return let(ir.Cast("float32", x), rounded, "near")


@scalar_function("tl_bf16_to_f32", ("uint16",), "float32")
def _bf16_to_f32(x: Any) -> Any:
    return bits(_u32(x) << u32(16), "float32")


@scalar_function("tl_f32_to_bf16", ("float32",), "uint16")
def _f32_to_bf16(x: Any) -> Any:
    def rounded(b: Any) -> Any:
        # Rounded as in `_f32_to_small`. A NaN whose payload lies in the low bits would become an infinity, and one of all ones,
        # by the carry, a zero.
        up = (b + u32(0x7FFF) + ((b >> u32(16)) & u32(1))) >> u32(16)
        return ir.Cast("uint16", select(is_nan(x), u32(0x7FC0), up))

    return let(bits(x, "uint32"), rounded, "b")


@scalar_function("tl_f16_to_f32", ("uint16",), "float32")
def _f16_to_f32(x: Any) -> Any:
    return _small_to_f32(x, mantissa=10, bias=15, width=16, infinity=True)


@scalar_function("tl_e5m2_to_f32", ("uint8",), "float32")
def _e5m2_to_f32(x: Any) -> Any:
    return _small_to_f32(x, mantissa=2, bias=15, width=8, infinity=True)


@scalar_function("tl_e4m3_to_f32", ("uint8",), "float32")
def _e4m3_to_f32(x: Any) -> Any:
    return _small_to_f32(x, mantissa=3, bias=7, width=8, infinity=False)


@scalar_function("tl_e2m1_to_f32", ("uint8",), "float32")
def _e2m1_to_f32(x: Any) -> Any:
    return _small_to_f32(x, mantissa=1, bias=1, width=4, infinity=False, nan=False)


@scalar_function("tl_e4m3fnuz_to_f32", ("uint8",), "float32")
def _e4m3fnuz_to_f32(x: Any) -> Any:
    return _fnuz_to_f32(x, mantissa=3, bias=8)


@scalar_function("tl_e5m2fnuz_to_f32", ("uint8",), "float32")
def _e5m2fnuz_to_f32(x: Any) -> Any:
    return _fnuz_to_f32(x, mantissa=2, bias=16)


def _fnuz_to_f32(x: Any, mantissa: int, bias: int) -> Any:
    value = _small_to_f32(x, mantissa, bias, width=8, infinity=False, nan=False)
    return select(_u32(x) == u32(_FNUZ_NAN), bits(u32(0x7FC00000), "float32"), value)


@scalar_function("tl_e8m0_to_f32", ("uint8",), "float32")
def _e8m0_to_f32(x: Any) -> Any:
    # Code 0 is 2**-127, which float32 has as a subnormal number only.
    power = select(_u32(x) == u32(0), u32(1 << 22), _u32(x) << u32(23))
    return bits(select(_u32(x) == u32(255), u32(0x7FC00000), power), "float32")


def _small_to_f32(x: Any, mantissa: int, bias: int, width: int, infinity: bool, nan: bool = True) -> Any:
    """Shifts the fields into place; subnormals are converted as integers, so that no float32 subnormal is ever formed."""
    magnitude_mask = (1 << (width - 1)) - 1
    shift = 23 - mantissa
    top = magnitude_mask >> mantissa  # the exponent field of all ones

    def value(m: Any) -> Any:
        exponent = m >> u32(mantissa)
        normal = (m << u32(shift)) + u32((127 - bias) << 23)
        if infinity:
            special = (m << u32(shift)) | u32(0x7F800000)
            normal = select(exponent == u32(top), special, normal)
        elif nan:
            normal = select(m == u32(magnitude_mask), u32(0x7FC00000), normal)
        # A subnormal is its mantissa times the smallest step, 2**(1 - bias - mantissa).
        small = bits(ir.Cast("float32", bits(m, "int32")) * f32(2.0 ** (1 - bias - mantissa)), "uint32")
        magnitude = select(exponent == u32(0), small, normal)
        sign = (_u32(x) >> u32(width - 1)) << u32(31)
        return bits(magnitude | sign, "float32")

    return let(_u32(x) & u32(magnitude_mask), value, "m")


@scalar_function("tl_f32_to_f16", ("float32",), "uint16")
def _f32_to_f16(x: Any) -> Any:
    return _f32_to_small(x, "float16", mantissa=10, bias=15, overflow_bits=0x7C00, nan_bits=0x7E00)


@scalar_function("tl_f32_to_e5m2", ("float32",), "uint8")
def _f32_to_e5m2(x: Any) -> Any:
    return _f32_to_small(x, "float8_e5m2", mantissa=2, bias=15, overflow_bits=0x7C, nan_bits=0x7F)


@scalar_function("tl_f32_to_e4m3", ("float32",), "uint8")
def _f32_to_e4m3(x: Any) -> Any:
    return _f32_to_small(x, "float8_e4m3fn", mantissa=3, bias=7, overflow_bits=0x7E, nan_bits=0x7F)


@scalar_function("tl_f32_to_e2m1", ("float32",), "uint8")
def _f32_to_e2m1(x: Any) -> Any:
    return _f32_to_small(x, "float4_e2m1fn", mantissa=1, bias=1, overflow_bits=0x7, nan_bits=0x7)


@scalar_function("tl_f32_to_e4m3fnuz", ("float32",), "uint8")
def _f32_to_e4m3fnuz(x: Any) -> Any:
    return _f32_to_small(x, "float8_e4m3fnuz", mantissa=3, bias=8, overflow_bits=_FNUZ_NAN, nan_bits=_FNUZ_NAN)


@scalar_function("tl_f32_to_e5m2fnuz", ("float32",), "uint8")
def _f32_to_e5m2fnuz(x: Any) -> Any:
    return _f32_to_small(x, "float8_e5m2fnuz", mantissa=2, bias=16, overflow_bits=_FNUZ_NAN, nan_bits=_FNUZ_NAN)


@scalar_function("tl_f32_to_e8m0", ("float32",), "uint8")
def _f32_to_e8m0(x: Any) -> Any:
    def power(m: Any) -> Any:
        exponent, rest = m >> u32(23), m & u32(0x7FFFFF)
        # Ties go up, except from zero, whose power has no smaller neighbour to be even.
        up = select(
            rest > u32(0x400000), u32(1), select(rest == u32(0x400000), select(exponent > u32(0), u32(1), u32(0)), u32(0))
        )
        return ir.Cast("uint8", select(exponent == u32(255), u32(255), exponent + up))

    return let(bits(x, "uint32") & u32(0x7FFFFFFF), power, "m")


def _f32_to_small(x: Any, dtype: str, mantissa: int, bias: int, overflow_bits: int, nan_bits: int) -> Any:
    """Rounds the mantissa by an integer addition; below the smallest normal, by adding a float that aligns the last bit."""
    storage = STORAGE[dtype]
    width = canonical(dtype).bits
    shift = 23 - mantissa
    smallest_normal = (127 + 1 - bias) << 23
    half = (1 << (shift - 1)) - 1
    # A float whose last mantissa bit weighs as much as the format's smallest subnormal.
    align = 2.0 ** (1 - bias - mantissa + 23)
    largest = bit_pattern(LAYOUTS[dtype][2], "float32")
    # A number half a step above the largest one is a tie, which goes to the even neighbour: out of the format where the last bit
    # of the largest is one, and back to 448 in float8_e4m3fn, whose code above that is NaN.
    too_large = largest + (1 << (shift - 1)) + (1 if dtype == "float8_e4m3fn" else 0)

    def value(m: Any) -> Any:
        # Just less than half of the last kept bit is added, and one more where that bit is odd: the carry rounds to nearest, ties
        # to even. It may run into the exponent, which is then right as well.
        normal = (m + u32(half) + ((m >> u32(shift)) & u32(1)) - u32((127 - bias) << 23)) >> u32(shift)
        # The processor rounds the sum at the last bit of `align`, to nearest and ties to even; what the sum exceeds `align` by,
        # as an integer, is the subnormal's mantissa.
        small = bits(bits(m, "float32") + f32(align), "uint32") - u32(bit_pattern(align, "float32"))
        magnitude = select(m < u32(smallest_normal), small, normal)
        magnitude = select(m >= u32(too_large), u32(overflow_bits), magnitude)
        magnitude = select(m > u32(0x7F800000), u32(nan_bits), magnitude)
        sign = (bits(x, "uint32") >> u32(31)) << u32(width - 1)
        # These formats have no negative zero: its code is their NaN.
        if dtype in FNUZ:
            sign = select(magnitude == u32(0), u32(0), sign)
        return ir.Cast(storage, magnitude | sign)

    return let(bits(x, "uint32") & u32(0x7FFFFFFF), value, "m")


def hardware_f16_to_f32(x: Any) -> Any:
    """The conversion as LLVM has it: one instruction where the machine has F16C."""
    return ir.Cast("float32", bits(x, "float16"))


def hardware_f32_to_f16(x: Any) -> Any:
    """The inverse of :func:`hardware_f16_to_f32`."""
    return bits(ir.Cast("float16", x), "uint16")
