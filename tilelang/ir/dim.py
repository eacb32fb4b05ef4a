"""From size expressions of the IR to the plain :data:`~tilelang.artifact.Dim` of an artifact."""

from __future__ import annotations

from typing import Any

from tilelang.artifact import Dim
from tilelang.errors import CompileError
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


def to_dim(expr: Any) -> Dim:
    """The plain form of an integer expression over dynamic variables (all non-negative, so C and Python division agree).

    Raises:
        CompileError: the expression uses anything but integer arithmetic.
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
        raise CompileError(f"{expr_text(expr)} is not a size")
    return (name, to_dim(expr.a), to_dim(expr.b))
