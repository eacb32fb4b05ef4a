"""How many iterations of a nest on memory alone are written out: more of them cost time to compile and instruction cache."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk, walk_expr
from tilelang.tileop.thread import intrinsic_name

_ITERATIONS = 64

_CALLS = 512
"""Calls of short functions that are written out, over all elements of all iterations."""

_LONG = {
    # function -> the short functions whose code is as long
    **dict.fromkeys(("sin", "cos", "tan", "rng_rand", "rng_rand_float"), 32),
    **dict.fromkeys(("pow", "fmod", "asin", "acos", "atan2", "erf"), 4),
}

_DOUBLE = 8
"""How much longer the functions of float64 are, which have no instruction."""


def iterations_written_out(body: Any, width: int) -> int:
    """The limit for a nest.

    Args:
        body: the statement of an iteration.
        width: elements that an iteration computes.
    """
    exprs = (expr for stmt in walk(body) for expr in statement_exprs(stmt))
    calls = sum(_length(node) for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.Call))
    return min(_ITERATIONS, max(1, _CALLS // (calls * width))) if calls else _ITERATIONS


def _length(call: Any) -> int:
    name = intrinsic_name(call) or str(getattr(call.op, "name", "")).rpartition(".")[2]
    return _LONG.get(name, 1) * (_DOUBLE if str(call.ty) == "float64" else 1)
