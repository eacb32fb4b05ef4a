"""``T.cast``, ``T.reinterpret`` and what a call of a type means, ``T.float16(x)``."""

from __future__ import annotations

import operator
from typing import Any

from tilelang.dtypes import DType, canonical, is_dtype
from tilelang.errors import DtypeError, OperandError, UnsupportedError
from tilelang.frontend.conversion import convert, dtype_of, wrapped
from tilelang.frontend.values import Tile, as_expr, is_symbolic


def cast(value: Any, dtype: Any, round: str = "", sat: bool = True, rbits: Any = None) -> Any:
    """``value`` converted to ``dtype``: floats round to nearest even, integers wrap around, a float that becomes an integer
    is truncated and limited to the range of int32 (uint32, int64, uint64 where ``dtype`` is one), NaN gives 0.

    Args:
        value: a scalar, a vector or a tile.
        dtype: the new element type.
        round: of floats that become narrower, ``"rz"`` rounds toward zero, ``"rp"`` up, ``"rm"`` down, and ``"rn"`` to the
            nearest, as without it; of floats that become integers only ``"rz"`` is accepted.
        rbits: only None is accepted.
        sat: False makes NaN of what is beyond the range of float8_e4m3fn, and infinity of what is beyond float8_e5m2's; float16
            and bfloat16 overflow to infinity in any case.

    Returns:
        An expression of ``dtype``.

    Raises:
        OperandError: unknown dtype, ``value`` is no scalar, or another way to round or to leave the range.
    """
    _check_rounding(round, rbits)
    if is_symbolic(dtype):
        raise OperandError("T.cast takes the value first, then its new dtype", hint="T.Cast takes them in the other order")
    kind = canonical(dtype)
    if isinstance(value, Tile):
        from tilelang.frontend.tiles import as_vector, elementwise

        if kind.lanes == 1:
            return elementwise(lambda each: cast(each, kind, round, sat), value)
        value = as_vector(value)
    if isinstance(value, int) and kind.kind == "bool":
        value = bool(value)
    elif isinstance(value, int) and kind.is_integer:
        value = wrapped(value, kind)
    is_nearest = round in ("", "rn" if kind.is_float else "rz")
    expr = as_expr(value, kind.base if is_nearest and (kind.is_float or not isinstance(value, float)) else None)
    found = convert(_kept_wide(expr) if dtype_of(expr).base == kind.base else expr, kind, kind.lanes)
    if is_nearest:
        return found if sat or not (kind.is_float and kind.bits <= 8) else _unsaturated(expr, found, kind)
    if not sat:
        raise UnsupportedError(f"T.cast(sat=False) rounds to the nearest value, and not by round={round!r}")
    from tilelang.language.rounding import directed

    return directed(expr, found, kind, round)


_OVERFLOW = {"float8_e4m3fn": (operator.gt, 464.0, 0x7F), "float8_e5m2": (operator.ge, 61440.0, 0x7C)}
"""Which magnitudes of a float round beyond the largest number of a format, and the bits of what comes after it."""


def _unsaturated(value: Any, converted: Any, kind: DType) -> Any:
    """A conversion that leaves the range: NaN of a format without infinities, which has no larger number either."""
    from tilelang.language.math import abs, if_then_else

    if str(kind) not in _OVERFLOW:
        raise UnsupportedError(f"T.cast(sat=False): {kind} keeps to its range", hint="test for the range before the cast")
    exceeds, limit, bits = _OVERFLOW[str(kind)]
    wide = value if dtype_of(value) == "float64" else convert(value, "float32")
    beyond = (reinterpret(str(kind), as_expr(each, "uint8")) for each in (bits | 0x80, bits))
    return if_then_else(exceeds(abs(wide), limit), if_then_else(wide < 0, *beyond), converted)


def _kept_wide(expr: Any) -> Any:
    """Arithmetic on floats narrower than float32 as a float32, from which a conversion to its own type rounds.

    Targets may compute it with more digits, which end where the program converts: ``high = T.bfloat16(a * b)``.
    """
    from tilelang.ir import nodes as ir

    kind = dtype_of(expr)
    is_exact = isinstance(expr, (ir.Var, ir.TensorLoad, ir.Cast, ir.FloatImm)) or is_reinterpreted(expr)
    return expr if is_exact or not kind.is_float or kind.bits >= 32 else convert(expr, "float32", kind.lanes)


def _check_rounding(round: str, rbits: Any) -> None:
    if round == "rs" or rbits is not None:
        raise UnsupportedError("T.cast(round='rs', rbits=...): stochastic rounding is of sm_100 and not lowered yet")
    if round not in ("", "rn", "rz", "rp", "rm"):
        raise OperandError(f"T.cast(round={round!r}): the modes are 'rn', 'rz' (toward zero), 'rp' (up) and 'rm' (down)")


def Cast(dtype: Any, value: Any) -> Any:
    """:func:`cast` with its arguments in the other order."""
    return cast(value, dtype)


def call_dtype(dtype: DType, *value: Any) -> Any:
    """``dtype(value)``: a conversion; of one value a lane, a vector; without a value, a new immutable variable.

    Raises:
        OperandError: another number of values.
    """
    if len(value) <= 1:
        return cast(value[0], dtype) if value else variable(dtype)
    if len(value) != dtype.lanes:
        lanes = f", or one for each of its {dtype.lanes} lanes" if dtype.lanes > 1 else ""
        raise OperandError(f"T.{dtype} takes one value{lanes}, got {len(value)}")
    from tilelang.language.vectors import Shuffle

    return Shuffle([cast(each, dtype.base) for each in value], range(dtype.lanes))


def variable(dtype: DType) -> Any:
    """An immutable variable without a value; see :func:`tilelang.language.scopes.let`."""
    from tilelang.frontend.builder import active_builder
    from tilelang.ir import nodes as ir

    builder = active_builder()
    return ir.Var("v" if builder is None else builder.take_name("v"), str(dtype))


def is_reinterpreted(expr: Any) -> bool:
    """Whether an expression is another one's bits."""
    from tilelang.ir import nodes as ir

    return isinstance(expr, ir.Call) and isinstance(expr.op, ir.Op) and expr.op.name.endswith(".reinterpret")


def reinterpret(value: Any, dtype: Any) -> Any:
    """The bits of ``value`` read as ``dtype``; both must have the same size in all. The order of the two does not matter.

    Raises:
        DtypeError: the sizes differ.
    """
    from tilelang.ir import nodes as ir

    if is_dtype(value):
        value, dtype = dtype, value
    target = canonical(dtype)
    if isinstance(value, Tile):
        from tilelang.frontend.tiles import as_vector

        value = as_vector(value)
    expr = _of_bits(as_expr(value), target.bits * target.lanes)
    source = dtype_of(expr)
    if source.bits * source.lanes != target.bits * target.lanes:
        raise DtypeError(
            f"T.reinterpret: {source} has {source.bits * source.lanes} bits, {target} has {target.bits * target.lanes}",
            hint="a slice is one vector; T.view(tile, dtype=...) has the bits of all elements" if source.lanes > 1 else None,
        )
    if is_reinterpreted(expr):
        return reinterpret(expr.args[0], target)
    if source == target:
        return expr
    if source.lanes > 1 and target.lanes == 1:
        from tilelang.frontend.builder import current
        from tilelang.frontend.lanes import joined_bits

        return joined_bits(current("T.reinterpret"), expr, str(target))
    return ir.tirx.reinterpret(str(target), expr)


def _of_bits(expr: Any, bits: int) -> Any:
    """An int32 that began as an integer of ``bits`` bits, ``T.uint16(x) << 7``, in that integer's type; anything else as it is.

    The low bits of such arithmetic are those of the narrow type, whatever type it is done in.
    """
    from tilelang.ir import nodes as ir

    origin = expr
    while isinstance(origin, (ir.Add, ir.Sub, ir.Mul, ir.LShift)) and isinstance(origin.b, ir.IntImm):
        origin = origin.a
    if isinstance(origin, ir.Cast) and str(expr.ty) == str(origin.ty) == "int32":
        narrow = dtype_of(origin.value)
        if narrow.is_integer and narrow.bits == bits < 32:
            return ir.Cast(str(narrow), expr)
    return expr
