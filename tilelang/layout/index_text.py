"""Index functions as text: a function is called with symbols that record what is done to them, and the text is evaluated later.

The text is what a layout is compared and kept by; it works on integers, on IR expressions, and on symbols again.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from tilelang.errors import LayoutError

_NODES = (
    ast.Expression, ast.BinOp, ast.UnaryOp, ast.USub, ast.Name, ast.Load, ast.Constant, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv,
    ast.Mod, ast.BitXor, ast.BitAnd, ast.BitOr, ast.LShift, ast.RShift,
)  # fmt: skip
"""What a text may consist of: integer arithmetic over the indices."""


class Symbol:
    """An index that records what is done to it."""

    def __init__(self, text: str):
        self.text = text


def _recorder(symbol: str, swapped: bool) -> Callable[[Symbol, Any], Symbol]:
    def record(self: Symbol, other: Any) -> Symbol:
        left, right = (other, self) if swapped else (self, other)
        return Symbol(f"({text_of(left)} {symbol} {text_of(right)})")

    return record


for _name, _symbol in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%"), ("xor", "^"), ("and", "&"), ("or", "|"),
    ("lshift", "<<"), ("rshift", ">>"), ("truediv", "//"),
):  # fmt: skip
    setattr(Symbol, f"__{_name}__", _recorder(_symbol, False))
    setattr(Symbol, f"__r{_name}__", _recorder(_symbol, True))


def text_of(value: Any) -> str:
    """The text of a symbol, or of an integer (a constant of the IR included)."""
    if isinstance(value, Symbol):
        return value.text
    return str(int(getattr(value, "value", value)))


@lru_cache(maxsize=256)
def _compiled(text: str, rank: int) -> Callable[..., Any]:
    tree = ast.parse(text, mode="eval")
    if not all(isinstance(node, _NODES) for node in ast.walk(tree)):
        raise LayoutError("a layout's text holds something else than integer arithmetic")
    names = ", ".join(f"i{axis}" for axis in range(rank))
    return eval(f"lambda {names}: {ast.unparse(tree)}", {"__builtins__": {}})  # noqa: S307 - checked just now


def evaluate(text: str, index: Sequence[Any]) -> Any:
    """The value of ``text``, in which ``i0, i1, ...`` are the entries of ``index``."""
    return _compiled(text, len(index))(*index)
