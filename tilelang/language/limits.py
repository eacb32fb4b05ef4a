"""The largest, smallest and infinite values of a dtype.

Inside a kernel they are typed constants; outside of one they are Python numbers, so that a constant of a module does not load
the compiler.
"""

from __future__ import annotations

import math
import struct
import sys
from typing import Any

from tilelang.dtypes import DType, canonical
from tilelang.errors import DtypeError
from tilelang.frontend.values import as_expr


def _typed(value: float, dtype: DType) -> Any:
    # The builder loads TVM; without it nothing is being traced.
    builder = sys.modules.get("tilelang.frontend.builder")
    return as_expr(value, dtype) if builder is not None and builder.is_tracing() else value


_FLOAT_MAX = {
    "float64": struct.unpack("<d", bytes.fromhex("ffffffffffffef7f"))[0],
    "float32": struct.unpack("<f", bytes.fromhex("ffff7f7f"))[0],
    "float16": 65504.0,
    "bfloat16": struct.unpack("<f", bytes.fromhex("00007f7f"))[0],
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
    "float8_e4m3fnuz": 240.0,
    "float8_e5m2fnuz": 57344.0,
    "float8_e8m0fnu": 2.0**127,
    "float4_e2m1fn": 6.0,
}
_NO_INFINITY = ("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu", "float4_e2m1fn")


def infinity(dtype: Any) -> Any:
    """Positive infinity of a floating-point type.

    Raises:
        DtypeError: the type has none.
    """
    kind = canonical(dtype)
    if not kind.is_float or kind in _NO_INFINITY:
        raise DtypeError(f"{kind} has no infinity", hint=f"T.max_value({str(kind)!r}) is its largest value")
    return _typed(math.inf, kind)


def max_value(dtype: Any) -> Any:
    """The largest finite value of a type."""
    kind = canonical(dtype)
    if kind.is_float:
        return _typed(_FLOAT_MAX[kind], kind)
    return _typed(1 if kind.kind == "bool" else (1 << (kind.bits - (kind.kind == "int"))) - 1, kind)


def min_value(dtype: Any) -> Any:
    """The smallest (most negative) finite value of a type."""
    kind = canonical(dtype)
    if kind.is_float:
        return _typed(2.0**-127 if kind == "float8_e8m0fnu" else -_FLOAT_MAX[kind], kind)  # e8m0 has no sign
    return _typed(-(1 << (kind.bits - 1)) if kind.kind == "int" else 0, kind)
