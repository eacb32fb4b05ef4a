"""Availability: whether an expression can be evaluated before some statements have run, by threads that do not run them."""

from __future__ import annotations

from collections.abc import Callable, Set
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import walk_expr


def is_available(expr: Any, may_read: Callable[[Any], bool], unknown: Set[Any]) -> bool:
    """Whether an expression has its value already.

    Args:
        expr: the expression.
        may_read: whether a buffer has the elements already that the expression would find later.
        unknown: variables that have no value yet.
    """
    if isinstance(expr, int):
        return True
    return not any(
        (isinstance(part, ir.TensorLoad) and not may_read(part.source))
        or (isinstance(part, ir.Var) and part in unknown)
        or (isinstance(part, ir.Call) and isinstance(part.op, ir.Op) and part.op.name.startswith("tl."))
        for part in walk_expr(expr)
    )
