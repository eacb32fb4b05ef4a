"""The types of variables and expressions, for annotations and ``isinstance``.

TVM's own, and with them the values that turn into one where they are used: ``isinstance(T.dynamic("n"), T.Var)``.
"""

from __future__ import annotations

from typing import Any

from tilelang.frontend.values import DynamicSize, ExprLike
from tilelang.ir import nodes as ir


class _Kind(type):
    """The type of classes that stand for one of TVM's and one of the language's.

    Attributes:
        node, like: the two.
    """

    node: type
    like: type

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, (cls.node, cls.like))

    def __subclasscheck__(cls, other: type) -> bool:
        return cls is other or issubclass(other, (cls.node, cls.like))


class Var(metaclass=_Kind):
    """A variable; ``T.Var(name, dtype)`` makes one."""

    node, like = ir.Var, DynamicSize

    def __new__(cls, name: str, dtype: Any = "int32") -> Any:
        return ir.Var(name, str(dtype))


class PrimExpr(metaclass=_Kind):
    """A scalar or vector expression."""

    node, like = ir.PrimExpr, ExprLike
