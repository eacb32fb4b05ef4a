"""Operators of an expression with a slice on its right: ``x % tile[:]``.

TVM's expressions take any operand for ``// % & | ^ << >>`` and comparisons. They leave one that is a slice, or arithmetic on
slices, to its own operators, as Python's numbers do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.frontend.values import Tile
from tilelang.ir import nodes as ir

_NAMES = "floordiv mod lshift rshift and or xor lt le gt ge eq ne".split()


def _leaving_tiles(operation: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def apply(self: Any, other: Any) -> Any:
        return NotImplemented if isinstance(other, Tile) else operation(self, other)

    return apply


def install() -> None:
    """Gives expressions, and comparisons that TVM defers, these operators; twice is the same as once."""
    for owner in (ir.expression_operators, ir.expression_operators.ExprOp):
        for name in (f"__{each}__" for each in _NAMES):
            operation = getattr(owner, name)
            if operation.__module__ != __name__:
                setattr(owner, name, _leaving_tiles(operation))


install()
