"""``T.cast(x, dtype, round=…)``: floats that become narrower toward zero, up or down, by arithmetic that every target has.

The nearest value of the narrower type takes one step where it is on the wrong side: neighbours of one sign have neighbouring
bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.dtypes import DType
from tilelang.errors import UnsupportedError
from tilelang.frontend.conversion import convert
from tilelang.frontend.values import as_expr
from tilelang.language.casts import dtype_of, reinterpret
from tilelang.language.math import And, abs, if_then_else

_LARGEST = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}
"""The largest number of formats whose conversions stay in the range."""

_ROUNDED = frozenset({"float32", "float16", "bfloat16", *_LARGEST})

_STEPS: Mapping[str, tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]] = {
    "rz": (lambda value, back: abs(back) > abs(value), lambda value, back: as_expr(False)),
    "rp": (lambda value, back: And(back < value, value < 0), lambda value, back: And(back < value, value > 0)),
    "rm": (lambda value, back: And(back > value, value > 0), lambda value, back: And(back > value, value < 0)),
}
"""Mode -> whether the nearest value takes a step toward zero, and whether it takes one away from it."""


def directed(value: Any, nearest: Any, kind: DType, round: str) -> Any:
    """The conversion of a float to a narrower type toward zero, up or down.

    Args:
        value: what is converted, an expression.
        nearest: the conversion to the nearest value.
        kind: the new type.
        round: ``"rz"``, ``"rp"`` or ``"rm"``.

    Returns:
        An expression of the new type.

    Raises:
        UnsupportedError: an integer or a vector, or a type that is not rounded so.
    """
    source = dtype_of(value)
    if not source.is_float or source.lanes > 1 or str(kind) not in _ROUNDED:
        raise UnsupportedError(
            f"T.cast(round={round!r}) does not convert {source} to {kind}",
            hint="single floats become narrower so; T.floor, T.ceil, T.trunc and T.nearbyint round to integers",
        )
    if source.bits <= kind.bits:
        return nearest
    back, bits = convert(nearest, str(source)), reinterpret(nearest, f"uint{kind.bits}")
    inward, outward = (step(value, back) for step in _STEPS[round])
    if str(kind) in _LARGEST:
        outward = And(outward, abs(back) < _LARGEST[str(kind)])
    step = if_then_else(inward, as_expr(-1), if_then_else(outward, as_expr(1), as_expr(0)))
    wide = convert(bits, "int64" if kind.bits == 32 else "int32")
    return reinterpret(convert(wide + convert(step, str(wide.ty)), f"uint{kind.bits}"), str(kind))
