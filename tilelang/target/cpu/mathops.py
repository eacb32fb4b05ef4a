"""How each of TVM's mathematical operators is computed on a CPU: one table.

An entry takes the legaliser and the call. float32 (and every narrower format) goes to
:mod:`~tilelang.target.cpu.elementary` where a function is there; anything else, and float64, to the C library.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.target.cpu import elementary, formats  # noqa: F401  (elementary registers its functions)
from tilelang.target.cpu.emit import extern_call
from tilelang.target.cpu.functions import bound, is_nan, let

Entry = Callable[[Any, Any], Any]


def _floats(legalizer: Any, node: Any) -> tuple[list[Any], str]:
    """The legalised arguments, integers as float32, and their common type."""
    arguments = [legalizer.expr(argument) for argument in node.args]
    arguments = [a if str(a.ty).startswith("float") else legalizer.converted(a, "float32") for a in arguments]
    wide = any(str(a.ty) == "float64" for a in arguments)
    dtype = "float64" if wide else "float32"
    return [legalizer.converted(a, dtype) for a in arguments], dtype


def _library(name: str) -> Entry:
    """The C library's function, in its float or double form."""

    def entry(legalizer: Any, node: Any) -> Any:
        arguments, dtype = _floats(legalizer, node)
        return extern_call(name + ("f" if dtype == "float32" else ""), arguments, dtype)

    return entry


def _elementary(name: str, library: str | None = None) -> Entry:
    """Our function for float32, the C library's for float64."""

    def entry(legalizer: Any, node: Any) -> Any:
        arguments, dtype = _floats(legalizer, node)
        if dtype == "float64":
            return extern_call(library or name, arguments, dtype)
        return legalizer.call(f"tl_{name}f", *arguments)

    return entry


def _operator(name: str) -> Entry:
    """An operator that both targets have as an instruction."""

    def entry(legalizer: Any, node: Any) -> Any:
        arguments, dtype = _floats(legalizer, node)
        return ir.Call(ir.Op.get(f"tirx.{name}"), arguments, ret_ty=dtype)

    return entry


def _ceil(legalizer: Any, node: Any) -> Any:
    (x,), dtype = _floats(legalizer, node)
    return ir.Call(ir.Op.get("prim.ceil"), [x], ret_ty=dtype)


def _round(legalizer: Any, node: Any) -> Any:
    """Halves away from zero, as C's ``round``; LLVM's lowering in TVM rounds them to even."""
    (x,), dtype = _floats(legalizer, node)

    def imm(value: float) -> Any:
        return ir.FloatImm(dtype, value)

    def rounded(v: Any, whole: Any) -> Any:
        step = ir.Select(v < imm(0.0), imm(-1.0), imm(1.0))
        # v - trunc(v) is exact, so that 0.49999997 is not rounded up as floor(v + 0.5) would.
        far = ir.Call(ir.Op.get("tirx.fabs"), [v - whole], ret_ty=dtype) >= imm(0.5)
        return ir.Select(far, whole + step, whole)

    return let(x, lambda v: let(ir.Call(ir.Op.get("tirx.trunc"), [v], ret_ty=dtype), lambda whole: rounded(v, whole)))


def _rsqrt(legalizer: Any, node: Any) -> Any:
    (x,), dtype = _floats(legalizer, node)
    return ir.Div(ir.FloatImm(dtype, 1.0), ir.Call(ir.Op.get("tirx.sqrt"), [x], ret_ty=dtype))


def _sigmoid(legalizer: Any, node: Any) -> Any:
    (x,), dtype = _floats(legalizer, node)
    if dtype == "float32":
        return legalizer.call("tl_sigmoidf", x)
    one = ir.FloatImm(dtype, 1.0)
    return one / (one + extern_call("exp", [ir.FloatImm(dtype, 0.0) - x], dtype))


def _exp10(legalizer: Any, node: Any) -> Any:
    (x,), dtype = _floats(legalizer, node)
    if dtype == "float32":
        return legalizer.call("tl_exp10f", x)
    return extern_call("pow", [ir.FloatImm(dtype, 10.0), x], dtype)


def _fabs(legalizer: Any, node: Any) -> Any:
    x = legalizer.expr(node.args[0])
    dtype = str(x.ty)
    if dtype.startswith("float"):
        return ir.Call(ir.Op.get("tirx.fabs"), [x], ret_ty=dtype)
    if dtype.startswith("uint") or dtype == "bool":
        return x
    zero = ir.IntImm(dtype, 0)
    return let(x, lambda v: ir.Select(v < zero, zero - v, v))


def _is_nan(legalizer: Any, node: Any) -> Any:
    x = legalizer.expr(node.args[0])
    return is_nan(x) if str(x.ty).startswith("float") else ir.IntImm("bool", 0)


def _compare_magnitude(compare: Callable[[Any, Any], Any], otherwise: int) -> Entry:
    def entry(legalizer: Any, node: Any) -> Any:
        x = legalizer.expr(node.args[0])
        dtype = str(x.ty)
        if not dtype.startswith("float"):
            return ir.IntImm("bool", otherwise)
        magnitude = ir.Call(ir.Op.get("tirx.fabs"), [x], ret_ty=dtype)
        return compare(magnitude, ir.FloatImm(dtype, math.inf))

    return entry


def _fma(legalizer: Any, node: Any) -> Any:
    (a, b, c), dtype = _floats(legalizer, node)
    return (
        extern_call("fma" + ("f" if dtype == "float32" else ""), [a, b, c], dtype)
        if legalizer.context.emits_c
        else ir.Call(ir.Op.get("tirx.fma"), [a, b, c], ret_ty=dtype)
    )


def clamp(legalizer: Any, node: Any) -> Any:
    """A number within two bounds, NaN where one of the three is.

    Comparisons with NaN are false and keep the value: a select is one instruction, as ``vmaxps`` gives its second operand then.
    """
    (value, low, high), _ = _floats(legalizer, node)
    return _limited(_limited(value, low, operator.lt), high, operator.gt)


def propagating(is_beyond: Callable[[Any, Any], Any]) -> Entry:
    """The larger (``<``) or smaller (``>``) of two numbers, NaN where one of them is."""

    def entry(legalizer: Any, node: Any) -> Any:
        if canonical(str(node.ty)).is_float:
            (a, b), _ = _floats(legalizer, node)
            return _limited(a, b, is_beyond)
        a, b = map(legalizer.expr, node.args)
        return bound(a, lambda a: bound(b, lambda b: ir.Select(is_beyond(a, b), b, a)))

    return entry


def _limited(value: Any, limit: Any, is_beyond: Callable[[Any, Any], Any]) -> Any:
    """A limit where a number is beyond it or the limit is NaN, else the number."""

    def chosen(value: Any, limit: Any) -> Any:
        if isinstance(limit, ir.FloatImm):
            return limit if math.isnan(limit.value) else ir.Select(is_beyond(value, limit), limit, value)
        return ir.Select(ir.Or(is_beyond(value, limit), is_nan(limit)), limit, value)

    return bound(value, lambda value: bound(limit, lambda limit: chosen(value, limit)))


def _reinterpret(legalizer: Any, node: Any) -> Any:
    """Bits of one type as another, either of which may be a narrow format."""
    value, source, target = node.args[0], str(node.args[0].ty), str(node.ty)
    bits = legalizer.stored(value, source) if source in formats.STORAGE else legalizer.expr(value)
    storage = formats.STORAGE.get(target, target)
    same_type = str(bits.ty) == storage
    bits = bits if same_type else ir.Call(node.op, [bits], ret_ty=node.ty if storage == target else storage)
    return legalizer.widen(bits, target) if target in formats.STORAGE else bits


def _integer_power(legalizer: Any, node: Any) -> Any | None:
    """Small integer powers, such as ``x ** 2``, as products."""
    exponent = node.args[1]
    if not isinstance(exponent, (ir.IntImm, ir.FloatImm)) or float(exponent.value) not in (1.0, 2.0, 3.0, 4.0):
        return None
    x = legalizer.expr(node.args[0])
    products = {1: lambda v: v, 2: lambda v: v * v, 3: lambda v: v * v * v, 4: lambda v: (v * v) * (v * v)}
    return let(x, products[int(exponent.value)])


def _pow(legalizer: Any, node: Any) -> Any:
    product = _integer_power(legalizer, node)
    return _library("pow")(legalizer, node) if product is None else product


def _bits(legalizer: Any, node: Any) -> Any:
    """A count of bits: in 32 or 64 unsigned bits, where only those of the argument's own type are set."""
    (argument,) = node.args
    own, word = canonical(str(argument.ty)).bits, 64 if canonical(str(argument.ty)).bits == 64 else 32
    unsigned = f"uint{word}"
    value = ir.Cast(unsigned, legalizer.expr(argument))
    if own < word:
        # A negative int8 is sign-extended by the cast: the bits above its own are cleared again, and clz counts them below.
        value = value & ir.IntImm(unsigned, (1 << own) - 1)
    count = ir.Cast(str(node.ty), ir.Call(node.op, [value], ret_ty=unsigned))
    return count - ir.IntImm(str(node.ty), word - own) if node.op.name == "prim.clz" else count


OPERATORS: dict[str, Entry] = {
    "tirx.popcount": _bits,
    "prim.clz": _bits,
    "tirx.exp": _elementary("exp"),
    "tirx.exp2": _elementary("exp2"),
    "tirx.exp10": _exp10,
    "tirx.log": _elementary("log"),
    "prim.log2": _elementary("log2"),
    "tirx.log10": _elementary("log10"),
    "tirx.tanh": _elementary("tanh"),
    "tirx.erf": _elementary("erf"),
    "tirx.sigmoid": _sigmoid,
    "tirx.pow": _pow,
    "tirx.fma": _fma,
    "tirx.rsqrt": _rsqrt,
    "tirx.fabs": _fabs,
    "tirx.isnan": _is_nan,
    "tirx.isinf": _compare_magnitude(lambda m, inf: m == inf, 0),
    "tirx.isfinite": _compare_magnitude(lambda m, inf: m < inf, 1),
    "tirx.reinterpret": _reinterpret,
    "prim.ceil": _ceil,
    "tirx.round": _round,
    **{f"tirx.{name}": _operator(name) for name in ("sqrt", "floor", "trunc", "nearbyint")},
    **{
        f"tirx.{name}": _library(name)
        for name in (
            "log1p", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh", "atan2", "fmod",
            "hypot", "copysign", "nextafter",
        )
    },
}  # fmt: skip
"""Operator name -> how it is legalised."""
