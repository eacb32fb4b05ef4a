"""Floating-point arithmetic with a chosen precision: approximations (``T.__exp`` …), IEEE operations with a rounding mode,
fused and packed ones."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tilelang.errors import DtypeError, OptionError
from tilelang.frontend.conversion import dtype_of, operands
from tilelang.frontend.values import Tile, as_expr
from tilelang.language.casts import cast
from tilelang.language.math import abs as absolute
from tilelang.language.math import lifted, max, min
from tilelang.language.signatures import parameters, taking
from tilelang.tileop.thread import intrinsic_call

_ROUNDING = {"rn": "to nearest even", "rz": "towards zero", "ru": "up", "rd": "down"}
_NUMBER = (int, float)


def _floats(name: str, args: tuple[Any, ...]) -> list[Any]:
    exprs = operands(*args)
    kind = dtype_of(exprs[0])
    if not kind.is_float or kind.bits < 16:
        raise DtypeError(f"T.{name} takes floating-point values of 16 bits or more, got {kind}", hint="cast the arguments first")
    return exprs


_FAST: dict[str, tuple[str, Callable[..., float], str]] = {
    # public name -> (intrinsic, the same of Python numbers, meaning)
    "__exp": ("fast_exp", math.exp, "e to the power of ``x``"),
    "__exp10": ("fast_exp10", lambda x: 10.0**x, "10 to the power of ``x``"),
    "__log": ("fast_log", math.log, "The natural logarithm"),
    "__log2": ("fast_log2", math.log2, "The logarithm to base 2"),
    "__log10": ("fast_log10", math.log10, "The logarithm to base 10"),
    "__sin": ("fast_sin", math.sin, "The sine"),
    "__cos": ("fast_cos", math.cos, "The cosine"),
    "__tan": ("fast_tan", math.tan, "The tangent"),
    "__pow": ("fast_pow", math.pow, "``x`` to the power of ``y``"),
    "fast_rcp": ("fast_rcp", lambda x: 1.0 / x, "One over ``x``"),
}


def _fast(name: str, intrinsic: str, python: Callable[..., float], meaning: str) -> Callable[..., Any]:
    names = "x y" if intrinsic == "fast_pow" else "x"

    @taking(parameters(names), name, f"{meaning}, by the hardware's approximation where it has one.")
    def function(*args: Any) -> Any:
        if all(isinstance(arg, _NUMBER) for arg in args):
            return python(*args)
        return intrinsic_call(intrinsic, *_floats(name, args))

    return lifted(function)


_IEEE: dict[str, tuple[str, str, str]] = {
    # public name -> (intrinsic, operands, meaning)
    "ieee_add": ("ieee_add", "x y", "``x + y``"),
    "ieee_sub": ("ieee_sub", "x y", "``x - y``"),
    "ieee_mul": ("ieee_mul", "x y", "``x * y``"),
    "ieee_fmaf": ("ieee_fma", "x y z", "``x * y + z`` rounded once"),
    "ieee_frcp": ("ieee_rcp", "x", "``1 / x``"),
    "ieee_fsqrt": ("ieee_sqrt", "x", "The square root of ``x``"),
    "ieee_frsqrt": ("ieee_rsqrt", "x", "``1 / sqrt(x)``"),
    "ieee_fdiv": ("ieee_div", "x y", "``x / y``"),
}


def _ieee(name: str, intrinsic: str, names: str, meaning: str) -> Callable[..., Any]:
    modes = ("rn",) if name == "ieee_frsqrt" else tuple(_ROUNDING)
    choices = "; ".join(f'``"{mode}"`` {_ROUNDING[mode]}' for mode in modes)
    doc = f"""{meaning}, correctly rounded and never contracted or approximated.

    Args:
        rounding_mode: {choices}.
    """

    @taking(parameters(names, rounding_mode="rn"), name, doc)
    def function(*operands_and_mode: Any) -> Any:
        *args, rounding_mode = operands_and_mode
        if rounding_mode not in modes:
            raise OptionError(f"T.{name}: rounding_mode={rounding_mode!r} is none of {', '.join(modes)}")
        exprs = _floats(name, tuple(args))
        if dtype_of(exprs[0]).bits < 32:
            return _ieee_of_halves(name, intrinsic, exprs, rounding_mode)
        return intrinsic_call(intrinsic, *exprs, attrs={"rounding": rounding_mode})

    return lifted(function)


def _ieee_of_halves(name: str, intrinsic: str, exprs: list[Any], rounding_mode: str) -> Any:
    """A 16-bit operation: float32 has more than twice their digits, so that rounding its result once more changes nothing."""
    if rounding_mode != "rn":
        raise OptionError(f"T.{name} of {dtype_of(exprs[0])} rounds to nearest only, not rounding_mode={rounding_mode!r}")
    if intrinsic == "ieee_fma":
        return intrinsic_call("fma", *exprs)
    wide = intrinsic_call(intrinsic, *(cast(expr, "float32") for expr in exprs), attrs={"rounding": "rn"})
    return cast(wide, dtype_of(exprs[0]))


for _name, (_intrinsic, _python, _meaning) in _FAST.items():
    globals()[_name] = _fast(_name, _intrinsic, _python, _meaning)
for _name, (_intrinsic, _names, _meaning) in _IEEE.items():
    globals()[_name] = _ieee(_name, _intrinsic, _names, _meaning)


@lifted
def fma(x: Any, y: Any, z: Any) -> Any:
    """``x * y + z`` rounded once, in the common type of the operands.

    Args:
        x, y, z: scalars or vectors of floating-point types of 16 bits or more; numbers take the type of the others.

    Returns:
        The result, in the common type.

    Raises:
        CompileError: an operand of another type.
    """
    return intrinsic_call("fma", *_floats("fma", (x, y, z)))


@lifted
def fmul(x: Any, y: Any) -> Any:
    """``x * y`` that is never fused with an addition."""
    exprs = _floats("fmul", (x, y))
    wide = dtype_of(exprs[0]).bits >= 32
    return intrinsic_call("ieee_mul", *exprs, attrs={"rounding": "rn"}) if wide else exprs[0] * exprs[1]


_PACKED: dict[str, tuple[str, Callable[..., Any], str]] = {
    # public name -> (operands, what it computes, meaning)
    "add2": ("x y", lambda x, y: x + y, "``x + y``"),
    "sub2": ("x y", lambda x, y: x - y, "``x - y``"),
    "mul2": ("x y", lambda x, y: x * y, "``x * y``"),
    "fma2": ("x y z", lambda x, y, z: x * y + z, "``x * y + z``"),
    "max2": ("x y", max, "The larger one"),
    "min2": ("x y", min, "The smaller one"),
    "abs2": ("x", absolute, "The absolute value"),
}


def _packed(name: str, names: str, compute: Callable[..., Any], meaning: str) -> Callable[..., Any]:
    @taking(parameters(names), name, f"{meaning}, for each of the two elements of packed vectors.")
    def function(*args: Any) -> Any:
        from tilelang.frontend.tiles import as_vector

        exprs = [as_expr(as_vector(arg) if isinstance(arg, Tile) else arg) for arg in args]
        kinds = {str(dtype_of(expr)) for expr in exprs}
        if len(kinds) != 1 or dtype_of(exprs[0]).lanes != 2:
            raise DtypeError(f"T.{name} takes vectors of two elements of one type, got {', '.join(sorted(kinds))}")
        return compute(*exprs)

    return function


for _name, (_names, _compute, _meaning) in _PACKED.items():
    globals()[_name] = _packed(_name, _names, _compute, _meaning)
