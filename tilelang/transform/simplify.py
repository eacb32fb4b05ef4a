"""Simplification of whole programs, for tools that print them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import variables


def apply_simplify(program: Any, inline_let: bool = False) -> Any:
    """A traced program with simpler index expressions, without branches that are never taken, and without tensors that nothing
    mentions then: it is called without them.

    Args:
        program: the program.
        inline_let: accepted for compatibility; values of bindings are known as they are.
    """
    module = ir.tvm.IRModule.from_expr(program)
    simplified = ir.tirx.transform.StmtSimplify()(module)[program.attrs["global_symbol"]]
    needed = {*ir.tirx.analysis.undefined_vars(simplified.body)}
    params = [param for param in simplified.params if not ir.is_buffer_var(param) or param in needed]
    given = {var for param in params for var in _sizes(param)}
    # A tensor that is not mentioned stays if it alone gives a size that is.
    sources = [param for param in simplified.params if param not in params and needed & _sizes(param) - given]
    kept = [param for param in simplified.params if param in params or param in sources]
    return simplified if len(kept) == len(simplified.params) else ir.PrimFunc(kept, simplified.body, attrs=simplified.attrs)


def _sizes(param: Any) -> set[Any]:
    """The variables that a tensor's shape and strides give."""
    return {var for size in (*param.shape, *param.strides) for var in variables(size)} if ir.is_buffer_var(param) else set()


def simplify_prim_func(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the program (or programs) that a factory returns, simplified by :func:`apply_simplify`."""

    @wraps(func)
    def simplified(*args: Any, **kwargs: Any) -> Any:
        made = func(*args, **kwargs)
        return [apply_simplify(each) for each in made] if isinstance(made, list) else apply_simplify(made)

    return simplified
