"""Classes whose instances exist while a program is traced, with variables of the kernel as their state.

@T.meta_class
class Odd:
    def __init__(self, last):
        self.last, self._at = last, T.alloc_var("int32", init=1)

    def more(self):
        return self._at[0] < self.last

    def advance(self):
        self._at[0] = self._at[0] + 2
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

from tilelang.errors import OperandError
from tilelang.frontend.macro import Macro, macro

_C = TypeVar("_C", bound=type)


def inline(func: Callable[..., Any]) -> Macro:
    """Decorator: a method (or function) that is traced where it is called, as one of ``T.macro`` is."""
    return macro(func)


def meta_class(cls: _C) -> _C:
    """Decorator: makes macros of the methods of a class that store to elements (``self._at[0] = ...``).

    The other methods stay Python: they allocate, or give values and expressions.

    Returns:
        The class.

    Raises:
        OperandError: no class.
    """
    if not isinstance(cls, type):
        raise OperandError(f"T.meta_class decorates a class, got {type(cls).__name__}")
    for name, member in list(vars(cls).items()):
        if inspect.isfunction(member) and not name.startswith("__") and _stores(member):
            setattr(cls, name, inline(member))
    return cls


def _stores(method: Callable[..., Any]) -> bool:
    """Whether a method assigns to a subscript; a method without source may, so it is traced."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(method)))
    except (OSError, SyntaxError):
        return True
    return any(isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) for node in ast.walk(tree))
