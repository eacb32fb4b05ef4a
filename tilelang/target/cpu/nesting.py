"""Elementary functions of elementary functions: how large an expression becomes where variables are replaced by their values.

TVM's simplifier and its LLVM code generator both bind a variable to its value, so the inline form of ``f(g(h(x)))`` costs the
product of the three. Beyond :data:`MAX_INLINE_WEIGHT` the outer function is a call of the C library, whose cost is its
argument's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import operands

MAX_INLINE_WEIGHT = 400
"""Two levels of any function stay below it (compiled in 0.1 s); three took 5 s, four did not end."""


def weight(expr: Any, known: Mapping[Any, int]) -> int:
    """Nodes of ``expr`` with every variable replaced by its value; ``known`` gives the weight of bound variables."""
    if isinstance(expr, ir.Var):
        return known.get(expr, 1)
    if isinstance(expr, ir.Let):
        return weight(expr.body, {**known, expr.var: weight(expr.value, known)})
    return 1 + sum(weight(operand, known) for operand in operands(expr))


def _call(name: str, *first: Any) -> Callable[[Any], Any]:
    op = ir.Op.get("tirx.call_pure_extern")
    return lambda argument: ir.Call(op, [ir.StringImm(name), *first, argument], ret_ty="float32")


def _sigmoid(argument: Any) -> Any:
    one = ir.FloatImm("float32", 1.0)
    return one / (one + _call("expf")(ir.FloatImm("float32", 0.0) - argument))


C_LIBRARY: Mapping[str, Callable[[Any], Any]] = {
    "tl_expf": _call("expf"),
    "tl_exp2f": _call("exp2f"),
    "tl_exp10f": _call("powf", ir.FloatImm("float32", 10.0)),
    "tl_logf": _call("logf"),
    "tl_log2f": _call("log2f"),
    "tl_log10f": _call("log10f"),
    "tl_tanhf": _call("tanhf"),
    "tl_erff": _call("erff"),
    "tl_sigmoidf": _sigmoid,
}
"""Scalar function -> the C library's."""
