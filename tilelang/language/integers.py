"""Integer division and bit operations.

Python integers give Python integers (``T.ceildiv(1024, 128)`` is 8), so that sizes computed with these functions stay
compile-time values and need no compiler.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from tilelang.errors import DtypeError
from tilelang.frontend.conversion import dtype_of
from tilelang.frontend.values import as_expr
from tilelang.language.casts import cast
from tilelang.language.math import if_then_else, lifted
from tilelang.language.signatures import parameters, taking

_WORD = 32
"""Bits of a Python integer where a function needs a width: it stands for an int32."""


def _truncdiv(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _integer(name: str, names: str, python: Callable[..., int], build: Callable[..., Any], meaning: str) -> Callable[..., Any]:
    doc = f"""{meaning} Python integers give a Python integer.

    Raises:
        CompileError: an argument is not an integer.
    """

    @taking(parameters(names), name, doc)
    def function(*args: Any) -> Any:
        if all(isinstance(arg, int) for arg in args):
            return python(*args)
        exprs = [arg if isinstance(arg, int) else as_expr(arg) for arg in args]
        kinds = ["int" if isinstance(expr, int) else dtype_of(expr) for expr in exprs]
        if any("float" in kind for kind in kinds):
            raise DtypeError(f"T.{name} takes integers, got {', '.join(kinds)}")
        return build(*exprs)

    return lifted(function)


def _tvm(name: str) -> Callable[..., Any]:
    def build(*exprs: Any) -> Any:
        from tilelang.ir import nodes as ir

        return getattr(ir.tirx, name)(*exprs)

    return build


def _first_set(value: Any) -> Any:
    from tilelang.ir import nodes as ir

    kind = str(value.ty)
    position = dtype_of(value).bits - ir.tirx.clz(value & (~value + ir.IntImm(kind, 1)))
    return if_then_else(value == 0, 0, cast(position, "int32"))


ceildiv = _integer(
    "ceildiv", "lhs rhs", lambda a, b: -(-a // b), lambda a, b: (a + (b - 1)) // b, "``lhs / rhs`` rounded up (``rhs`` positive)."
)
align_up = _integer(
    "align_up", "x y", lambda a, b: -(-a // b) * b, lambda a, b: (a + (b - 1)) // b * b,
    "The next multiple of ``y`` (positive) from ``x`` on.",
)  # fmt: skip
floordiv = _integer("floordiv", "a b", operator.floordiv, _tvm("floordiv"), "``a / b`` rounded down.")
floormod = _integer(
    "floormod", "a b", operator.mod, _tvm("floormod"), "The remainder of :func:`floordiv`, with the sign of ``b``."
)
truncdiv = _integer("truncdiv", "a b", _truncdiv, _tvm("truncdiv"), "``a / b`` rounded towards zero, as in C.")
truncmod = _integer(
    "truncmod", "a b", lambda a, b: a - b * _truncdiv(a, b), _tvm("truncmod"),
    "The remainder of :func:`truncdiv`, with the sign of ``a``.",
)  # fmt: skip
div = truncdiv
"""The name of :func:`truncdiv` in TVM's scripts."""
shift_left = _integer("shift_left", "x y", operator.lshift, operator.lshift, "``x`` shifted left by ``y`` bits.")
shift_right = _integer(
    "shift_right", "x y", operator.rshift, _tvm("shift_right"), "``x`` shifted right by ``y`` bits; a signed one keeps its sign."
)
bitwise_and = _integer("bitwise_and", "x y", operator.and_, operator.and_, "The bits that are set in both.")
bitwise_or = _integer("bitwise_or", "x y", operator.or_, operator.or_, "The bits that are set in either.")
bitwise_xor = _integer("bitwise_xor", "x y", operator.xor, operator.xor, "The bits that differ.")
bitwise_not = _integer("bitwise_not", "x", lambda a: ~a, operator.invert, "Every bit flipped.")
popcount = _integer("popcount", "x", lambda a: bin(a & ((1 << _WORD) - 1)).count("1"), _tvm("popcount"), "How many bits are set.")
__ffs = _integer(
    "__ffs", "value", lambda a: (a & -a).bit_length(), _first_set,
    "The position of the lowest set bit, counted from 1; 0 without one.",
)  # fmt: skip
clz = _integer(
    "clz",
    "x",
    lambda a: _WORD - (a & ((1 << _WORD) - 1)).bit_length(),
    _tvm("clz"),
    "How many zero bits precede the highest one.",
)
