"""From size expressions of the IR to the plain :data:`~tilelang.artifact.Dim` of an artifact."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.artifact import Dim
from tilelang.errors import OperandError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import simplify
from tilelang.ir.text import expr_text

_OPERATORS = {
    ir.Add: "add",
    ir.Sub: "sub",
    ir.Mul: "mul",
    ir.FloorDiv: "floordiv",
    ir.FloorMod: "floormod",
    ir.Div: "floordiv",
    ir.Mod: "floormod",
    ir.Min: "min",
    ir.Max: "max",
}
_EXPRESSIONS = {name: kind for kind, name in _OPERATORS.items() if kind not in (ir.Div, ir.Mod)}
_COMPARISONS = {"lt": ir.LT, "le": ir.LE, "eq": ir.EQ, "ne": ir.NE}


def to_dim(expr: Any) -> Dim:
    """The plain form of an integer expression over dynamic sizes. These are not negative, so divisions of C and of Python agree.

    Raises:
        OperandError: the expression uses anything but integer arithmetic.
    """
    if isinstance(expr, int):
        return expr
    expr = simplify(expr)
    if isinstance(expr, ir.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return str(expr.name)
    if isinstance(expr, ir.Cast):
        return to_dim(expr.value)
    name = _OPERATORS.get(type(expr))
    if name is None:
        raise OperandError(f"{expr_text(expr)} is not a size")
    return (name, to_dim(expr.a), to_dim(expr.b))


def to_expr(dim: Dim, variables: Mapping[str, Any]) -> Any:
    """The expression of a size, of type int64; ``variables`` gives its dynamic variables in that type."""
    if isinstance(dim, int):
        return ir.IntImm("int64", dim)
    if isinstance(dim, str):
        return variables[dim]
    left, right = (to_expr(part, variables) for part in dim[1:])
    if dim[0] == "ceildiv":
        return ir.FloorDiv(left + right - 1, right)
    if dim[0] in _COMPARISONS:
        return ir.Cast("int64", _COMPARISONS[dim[0]](left, right))
    return _EXPRESSIONS[dim[0]](left, right)
