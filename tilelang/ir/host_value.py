"""Integer expressions as the host of a kernel computes them: sizes, integer arguments and conditions over them, in 64 bits."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.artifact import Dim
from tilelang.ir import nodes as ir
from tilelang.ir.visit import variables

_ARITHMETIC = {
    ir.Add: "add",
    ir.Sub: "sub",
    ir.Mul: "mul",
    ir.Min: "min",
    ir.Max: "max",
    ir.FloorDiv: "floordiv",
    ir.FloorMod: "floormod",
}
_COMPARISONS = {ir.LT: "lt", ir.LE: "le", ir.EQ: "eq", ir.NE: "ne"}
_SWAPPED = {ir.GT: "lt", ir.GE: "le"}
_LOGIC = {ir.And: "min", ir.Or: "max"}
_NARROW = ("uint8", "uint16", "uint32")
"""Unsigned types whose values fit a signed integer of 64 bits. Their arithmetic wraps around, which the host's does not."""


def host_names(func: Any) -> dict[Any, str]:
    """The variables that the host of a program knows, with their names there: its scalar arguments and its sizes."""
    names = {param: str(param.name) for param in func.params if not ir.is_buffer_var(param)}
    return names | {var: str(var.name) for var in dynamic_variables(func)}


def dynamic_variables(func: Any) -> dict[Any, None]:
    """The variables in the sizes and strides of a program's tensors, in order."""
    sizes = (size for param in func.params if ir.is_buffer_var(param) for size in (*param.shape, *param.strides))
    return {var: None for size in sizes for var in variables(size)}


def host_value(expr: Any, names: Mapping[Any, str]) -> Dim | None:
    """An integer expression as the host computes it in 64 bits; None where it cannot, or would compute something else.

    Args:
        expr: the expression; a condition is 0 or 1.
        names: the variables that the host knows, with their names there.
    """
    if isinstance(expr, int):
        return int(expr)
    if isinstance(expr, ir.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return names.get(expr) if _is_signed(expr) or str(expr.ty) in _NARROW else None
    if isinstance(expr, ir.Cast):
        return host_value(expr.value, names) if _widens(expr) else None
    if isinstance(expr, ir.Not):
        return _combined("eq", expr.a, ir.IntImm("int32", 0), names)
    for table, left, right in ((_COMPARISONS, "a", "b"), (_SWAPPED, "b", "a"), (_LOGIC, "a", "b")):
        # The host computes with signed 64-bit numbers, among which the upper half of uint64 is negative.
        if type(expr) in table and str(expr.a.ty) == "uint64":
            return _unsigned(table[type(expr)], getattr(expr, left), getattr(expr, right), names)
        if type(expr) in table:
            return _combined(table[type(expr)], getattr(expr, left), getattr(expr, right), names)
    if type(expr) in _ARITHMETIC and _is_signed(expr) and not _divides_by_unknown(expr):
        return _combined(_ARITHMETIC[type(expr)], expr.a, expr.b, names)
    return None


def _combined(name: str, a: Any, b: Any, names: Mapping[Any, str]) -> Dim | None:
    left, right = host_value(a, names), host_value(b, names)
    return None if left is None or right is None else (name, left, right)


def _unsigned(name: str, a: Any, b: Any, names: Mapping[Any, str]) -> Dim | None:
    """A comparison of numbers of uint64, which hosts hold as signed or as unsigned ones: from 2**63 on they may be negative."""
    left, right = _uint64(a, names), _uint64(b, names)
    if left is None or right is None:
        return None
    if name == "lt":
        return _below(left, right)
    return ("eq", _below(right, left), 0) if name == "le" else (name, left, right)


def _below(left: Dim, right: Dim) -> Dim:
    """Whether ``left`` is less: of numbers of one sign the lesser one, else the one that is not negative."""
    one_sign = ("eq", ("lt", left, 0), ("lt", right, 0))
    return ("max", ("min", ("lt", left, right), one_sign), ("min", ("le", 0, left), ("lt", right, 0)))


def _uint64(expr: Any, names: Mapping[Any, str]) -> Dim | None:
    """A number of uint64: an argument, a constant that int64 holds, a narrower argument."""
    if isinstance(expr, ir.IntImm):
        return int(expr.value) if int(expr.value) < 2**63 else None
    if isinstance(expr, ir.Var):
        return names.get(expr)
    return host_value(expr.value, names) if isinstance(expr, ir.Cast) and str(expr.value.ty) in _NARROW else None


def _is_signed(expr: Any) -> bool:
    return str(expr.ty).startswith(("int", "bool"))


def _widens(cast: Any) -> bool:
    """Whether a cast changes no value: from an integer to one that is at least as wide."""
    source, target = str(cast.value.ty), str(cast.ty)
    if not (_is_signed(cast) and _is_signed(cast.value)) or target == "bool":
        return False
    return source == "bool" or int(target[3:]) >= int(source[3:])


def _divides_by_unknown(expr: Any) -> bool:
    """Whether an expression divides by what may be zero: that has a value in the language, but not on the host."""
    return isinstance(expr, (ir.FloorDiv, ir.FloorMod)) and not (isinstance(expr.b, ir.IntImm) and int(expr.b.value) != 0)
