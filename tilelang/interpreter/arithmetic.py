"""The operators' arithmetic, one table entry each, as docs/language.md defines it.

An entry takes the element type of the operands and their values, scalars or arrays over the lanes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.numbers import Element, wrapped
from tilelang.ir import nodes as ir

Operation = Callable[[Element, Any, Any], Any]


def _in_type(function: Callable[[Any, Any], Any]) -> Operation:
    """An operation whose result has the type of its operands: integers wrap around."""

    def compute(kind: Element, a: Any, b: Any) -> Any:
        if kind.kind == "bool":
            return np.not_equal(function(np.asarray(a, np.int32), np.asarray(b, np.int32)), 0)
        result = function(a, b)
        return wrapped(result, kind) if kind.is_narrow else result

    return compute


def _floor_divide(kind: Element, a: Any, b: Any) -> Any:
    return np.floor(np.divide(a, b)) if kind.kind == "float" else np.floor_divide(a, b)


def _floor_remainder(kind: Element, a: Any, b: Any) -> Any:
    return a - np.floor(np.divide(a, b)) * b if kind.kind == "float" else np.where(np.equal(b, 0), b, np.remainder(a, b))[()]


def _divide(kind: Element, a: Any, b: Any) -> Any:
    """A quotient of floats; of integers rounded towards zero, and 0 where they are divided by zero."""
    if kind.kind == "float":
        return np.divide(a, b)
    # Rounded down; towards zero it is one more where the exact quotient is negative and not whole.
    quotient = np.floor_divide(a, b)
    rest = a - quotient * b
    return quotient + ((rest != 0) & ((a < 0) != (b < 0)) & (b != 0)).astype(kind.value)


def _remainder(kind: Element, a: Any, b: Any) -> Any:
    if kind.kind == "float":
        return np.fmod(a, b)
    return np.where(np.equal(b, 0), b, np.fmod(a, b))[()]


def _largest(kind: Element, a: Any, b: Any) -> Any:
    return np.fmax(a, b) if kind.kind == "float" else np.maximum(a, b)


def _smallest(kind: Element, a: Any, b: Any) -> Any:
    return np.fmin(a, b) if kind.kind == "float" else np.minimum(a, b)


def shift_left(kind: Element, a: Any, b: Any) -> Any:
    """``a << b``; 0 where ``b`` is negative, or the width or more.

    Args:
        kind: element type of ``a`` and of the result.
        a, b: numbers, or arrays over the lanes.
    """
    inside = (b >= 0) & (b < kind.bits)
    return wrapped(np.where(inside, np.left_shift(a, np.where(inside, b, 0).astype(kind.value)), np.zeros_like(a))[()], kind)


def shift_right(kind: Element, a: Any, b: Any) -> Any:
    """``a >> b``; where ``b`` is the width or more, 0, or -1 of a negative number.

    Args:
        kind: element type of ``a`` and of the result.
        a, b: numbers, or arrays over the lanes.
    """
    inside = (b >= 0) & (b < kind.bits)
    count = np.where(inside, b, 0).astype(kind.value)
    beyond = np.where(np.less(a, 0), -1, 0).astype(kind.value) if kind.kind == "int" else np.zeros_like(a)
    return np.where(inside, np.right_shift(a, count), beyond)[()]


def _of_any_type(function: Callable[[Any, Any], Any]) -> Operation:
    """An operation that is the same for all types and never leaves their range."""
    return lambda kind, a, b: function(a, b)


BINARY: Mapping[type, Operation] = {
    ir.Add: _in_type(np.add),
    ir.Sub: _in_type(np.subtract),
    ir.Mul: _in_type(np.multiply),
    ir.Div: _divide,
    ir.Mod: _remainder,
    ir.FloorDiv: _floor_divide,
    ir.FloorMod: _floor_remainder,
    ir.Max: _largest,
    ir.Min: _smallest,
    ir.BitwiseAnd: _of_any_type(np.bitwise_and),
    ir.BitwiseOr: _of_any_type(np.bitwise_or),
    ir.BitwiseXor: _of_any_type(np.bitwise_xor),
    ir.LShift: shift_left,
    ir.RShift: shift_right,
    ir.EQ: _of_any_type(np.equal),
    ir.NE: _of_any_type(np.not_equal),
    ir.LT: _of_any_type(np.less),
    ir.LE: _of_any_type(np.less_equal),
    ir.GT: _of_any_type(np.greater),
    ir.GE: _of_any_type(np.greater_equal),
}
"""Node of two operands -> what it computes."""

CALLED: Mapping[str, Operation] = {
    "bitwise_and": BINARY[ir.BitwiseAnd],
    "bitwise_or": BINARY[ir.BitwiseOr],
    "bitwise_xor": BINARY[ir.BitwiseXor],
    "shift_left": shift_left,
    "shift_right": shift_right,
}
"""The same as calls of TVM's operators."""
