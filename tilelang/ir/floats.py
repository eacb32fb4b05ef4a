"""Arithmetic on floats without identities that hold for real numbers only.

TVM's operators fold as they build: ``x * 0.0`` and ``0.0 / x`` become ``0.0`` (infinities and NaN are lost), ``x + 0.0`` becomes
``x`` (a negative zero stays one), ``x / 0.0`` is an error. :func:`install` replaces the four operators: they fold two constants,
and operands that change no value (``x * 1``), and nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir.prim import _ffi_api

_OPERATORS = {"_OpAdd": tirx.Add, "_OpSub": tirx.Sub, "_OpMul": tirx.Mul, "_OpDiv": tirx.Div}
_CONSTANT = (int, float, tirx.IntImm, tirx.FloatImm)


def install() -> None:
    """Makes TVM's operators on floats exact, once a process."""
    for name, node in _OPERATORS.items():
        operation = getattr(_ffi_api, name)
        if not hasattr(operation, "folding"):
            setattr(_ffi_api, name, _exact(operation, node))


def is_float(dtype: Any) -> bool:
    """Whether values of a type are floating-point numbers."""
    return str(dtype).startswith(("float", "bfloat", "tfloat"))


def _exact(folding: Callable, node: type) -> Callable:
    """An operator without the folding of floats.

    Args:
        folding: TVM's operator.
        node: the node that it makes.
    """

    def operation(a: Any, b: Any, span: Any = None) -> Any:
        if node is tirx.Div and _is_zero(a, b):
            # TVM neither builds nor prints a division by constant zero. A product with infinity has the same value for every
            # ``a``: ``0 / 0`` and ``0 * inf`` are both NaN.
            return _ffi_api._OpMul(a, _number_like(b, math.copysign(math.inf, _number(b))), span)
        result = folding(a, b, span)
        # Two constants may be folded, and an operation that TVM has built is right; what is left is one that TVM has simplified
        # away.
        folded = isinstance(a, _CONSTANT) and isinstance(b, _CONSTANT)
        if folded or isinstance(result, node) or not is_float(result.ty) or _is_neutral(a, b, node):
            return result
        return node(_typed(a, result.ty), _typed(b, result.ty), span)

    operation.folding = folding
    return operation


def _is_neutral(a: Any, b: Any, node: type) -> bool:
    """Whether one operand leaves every value of the other as it is: ``x * 1``, ``x / 1``, ``x - 0``."""
    if node is tirx.Sub:
        return isinstance(b, _CONSTANT) and _number(b) == 0 and math.copysign(1.0, _number(b)) > 0
    constants = (a, b) if node is tirx.Mul else (b,)
    return node is not tirx.Add and any(isinstance(value, _CONSTANT) and _number(value) == 1 for value in constants)


def _is_zero(a: Any, b: Any) -> bool:
    """Whether ``a / b`` divides a float by the constant zero."""
    if isinstance(b, (float, tirx.FloatImm)):
        return _number(b) == 0
    return isinstance(b, (int, tirx.IntImm)) and _number(b) == 0 and is_float(a.ty)


def _number(value: Any) -> float:
    return float(getattr(value, "value", value))


def _number_like(value: Any, number: float) -> Any:
    return tirx.FloatImm(value.ty, number) if isinstance(value, tirx.FloatImm) else number


def _typed(value: Any, dtype: Any) -> Any:
    """An operand in the type of the result."""
    if isinstance(value, _CONSTANT):
        return tirx.FloatImm(dtype, _number(value))
    return value if value.ty == dtype else tirx.Cast(dtype, value)
