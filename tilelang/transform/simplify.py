"""Simplification of whole programs, for tools that print them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tilelang.ir import nodes as ir


def apply_simplify(program: Any) -> Any:
    """A traced program with simpler index expressions, and without branches that are never taken."""
    module = ir.tvm.IRModule.from_expr(program)
    return ir.tirx.transform.StmtSimplify()(module)[program.attrs["global_symbol"]]


def simplify_prim_func(factory: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the program (or programs) that a factory returns, simplified by :func:`apply_simplify`."""

    @wraps(factory)
    def simplified(*args: Any, **kwargs: Any) -> Any:
        made = factory(*args, **kwargs)
        return [apply_simplify(each) for each in made] if isinstance(made, list) else apply_simplify(made)

    return simplified
