"""The rounding of constants: a Python float in each of the floating-point formats.

Rounding is to nearest, ties to even. float8_e4m3fn and float4_e2m1fn, which have no infinity, saturate at their largest value; a
float8_e5m2 or float16 overflow is infinity, a fnuz overflow NaN; float8_e8m0fnu is a power of two without sign, or NaN.
"""

from __future__ import annotations

import math
import struct

LAYOUTS = {
    # mantissa bits, exponent bias, largest finite value, result of an overflow
    "float16": (10, 15, 65504.0, math.inf),
    "bfloat16": (7, 127, 3.3895313892515355e38, math.inf),
    "float8_e4m3fn": (3, 7, 448.0, 448.0),
    "float8_e5m2": (2, 15, 57344.0, math.inf),
    "float8_e4m3fnuz": (3, 8, 240.0, math.nan),
    "float8_e5m2fnuz": (2, 16, 57344.0, math.nan),
    "float4_e2m1fn": (1, 1, 6.0, 6.0),
    "float32": (23, 127, 3.4028234663852886e38, math.inf),
}

FNUZ = ("float8_e4m3fnuz", "float8_e5m2fnuz")
"""Formats with one zero, no infinity, and one NaN, which stands where a negative zero would be."""


def round_constant(value: float, dtype: str) -> float:
    """A Python float rounded to a format."""
    if dtype == "float8_e8m0fnu":
        code = e8m0_code(value)
        return math.nan if code == 255 else math.ldexp(1.0, code - 127)
    if dtype in FNUZ and (value == 0 or math.isinf(value)):
        return 0.0 if value == 0 else math.nan
    if dtype not in LAYOUTS or value == 0 or not math.isfinite(value):
        saturates = math.isinf(value) and math.isfinite(LAYOUTS.get(dtype, (0, 0, 0.0, math.inf))[3])
        return math.copysign(LAYOUTS[dtype][3], value) if saturates else value
    mantissa, bias, largest, overflow = LAYOUTS[dtype]
    # Subnormal numbers have the exponent, and so the distance to their neighbours, of the smallest normal one.
    exponent = max(math.frexp(value)[1] - 1, 1 - bias)
    quantum = math.ldexp(1.0, exponent - mantissa)
    rounded = round(value / quantum) * quantum  # Python rounds halves to even
    return math.copysign(overflow, value) if abs(rounded) > largest else rounded


def e8m0_code(value: float) -> int:
    """The exponent of the power of two nearest to a number's magnitude; 255 is NaN."""
    magnitude = struct.unpack("<I", struct.pack("<f", value))[0] & 0x7FFFFFFF
    exponent, rest = magnitude >> 23, magnitude & 0x7FFFFF
    return exponent if exponent == 255 else exponent + (rest > 0x400000 or (rest == 0x400000 and exponent > 0))
