"""Operators on bools, and of integers with Python numbers that their type does not hold.

TVM's operators keep the type of their expression: a sum of two bools is a bool, ``~`` of a bool flips all of C's bits, and ``x <<
20`` of a uint16 is zero in one target and not in another, as C computes it in ``int``. Other combinations are refused. After
:func:`install`

- bools are the numbers 0 and 1 in arithmetic, shifts and comparisons (int32 with another bool or a Python int that it holds,
  int64 with a larger one, else of the other operand's type), and stay bools under ``& | ^``; ``~`` negates them;
- an integer narrower than 32 bits is converted to int32 where it is shifted left by a Python int, or meets one that its type
  does not hold; a wider one takes a Python int modulo its range, and an unsigned one keeps its type with every int that it holds;
- two floats of one size and different formats meet in float32;
- a negative constant meets an unsigned integer in the type of that, modulo its range.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import tirx
from tvm.ir import Expr
from tvm.ir.prim import _ffi_api

from tilelang.dtypes import canonical
from tilelang.errors import OperandError
from tilelang.ir.rounding import LAYOUTS, round_constant

_ARITHMETIC = ("_OpAdd", "_OpSub", "_OpMul")
_DIVISIONS = ("_OpFloorDiv", "_OpFloorMod", "_OpTruncDiv", "_OpTruncMod")
_QUOTIENT = ("_OpDiv",)
_INTEGER = ("right_shift", "bitwise_and", "bitwise_or", "bitwise_xor")
_COMPARISONS = ("_OpEQ", "_OpNE", "_OpLT", "_OpLE", "_OpGT", "_OpGE")
_FOLDED = (tirx.IntImm, tirx.FloatImm)
"""Results of operations on constants."""

Operation = Callable[..., Any]


def install() -> None:
    """Gives TVM's operators these meanings, once a process."""
    for names, wrapped in _WRAPPERS.items():
        for name in names:
            operation = getattr(_ffi_api, name)
            if not hasattr(operation, "unpromoted"):
                replacement = wrapped(operation)
                replacement.unpromoted = operation
                setattr(_ffi_api, name, replacement)


def promoted(a: Any, b: Any) -> tuple[Any, Any]:
    """Two operands in types that TVM's operators accept, and for which they give the language's result."""
    if _is_number(a):
        b, a = promoted(b, a)
    elif _is_number(b):
        a, b = _with_number(_numeric(a, b), b)
    else:
        a, b = _with_expression(_numeric(a, b), _numeric(b, a))
    return a, b


def _with_number(a: Any, number: Any) -> tuple[Any, Any]:
    kind = canonical(str(a.ty))
    if kind.is_float and number == number:
        return a, _rounded(number, kind.base if isinstance(number, int) else "float32")
    if isinstance(number, float) or not kind.is_integer:
        return a, number
    if kind.bits < 32:
        return _cast(a, "int32"), int(number)
    # The number modulo the range of the type, as C converts it: -1 beside a uint32 is 2**32 - 1.
    modulus = 1 << kind.bits
    low = -(modulus >> 1) if kind.kind == "int" else 0
    return a, tirx.const((int(number) - low) % modulus + low, kind.base)


def _rounded(number: Any, dtype: str) -> Any:
    """A number beside a float of a type; beyond that type's range it is what a conversion gives."""
    is_beyond = dtype in LAYOUTS and abs(number) > LAYOUTS[dtype][2]
    return tirx.FloatImm(dtype, round_constant(float(number), dtype)) if is_beyond else number


def _with_expression(a: Any, b: Any) -> tuple[Any, Any]:
    return _wrapped(a, canonical(str(b.ty))), _wrapped(b, canonical(str(a.ty)))


def _with_other_format(a: Any, b: Any) -> tuple[Any, Any]:
    """Two floats of one size and different formats as float32; TVM has them meet in one of the formats, or refuses them."""
    if a.ty.same_as(b.ty):
        return a, b
    left, right = canonical(str(a.ty)), canonical(str(b.ty))
    if left.is_float and right.is_float and left.bits == right.bits and left.base != right.base:
        return _cast(a, "float32"), _cast(b, "float32")
    return a, b


def _wrapped(value: Any, other: Any) -> Any:
    """A negative constant beside an unsigned integer of the type ``other``, in that type, to which TVM would not convert it."""
    if other.kind != "uint" or not isinstance(value, tirx.IntImm) or value.value >= 0:
        return value
    return tirx.const(value.value % (1 << other.bits), other.base)


def _numeric(value: Any, other: Any = None) -> Any:
    """A bool as a number, of the type of the other operand if that is an expression and no bool."""
    if not _is_bool(value):
        return value
    if _is_number(other):
        return _cast(value, "int64" if _is_large(other) else "int32")
    return _cast(value, "int32" if other is None or _is_bool(other) else canonical(str(other.ty)).base)


def _cast(value: Any, dtype: str) -> Any:
    lanes = canonical(str(value.ty)).lanes
    return tirx.Cast(dtype if lanes == 1 else f"{dtype}x{lanes}", value)


def _plain(value: Any) -> Any:
    """The underlying expression of a deferred comparison, a program variable or a dynamic size."""
    if isinstance(value, (Expr, int, float)):
        return value
    resolve = getattr(value, "asobject", None) or getattr(value, "__tvm_ffi_object__", None)
    return value if resolve is None else resolve()


def _pair(a: Any, b: Any, exact: bool = False) -> tuple[Any, Any]:
    """Operands for TVM's operators; of an ``exact`` one a large number may not be taken modulo the range of int64.

    TVM makes an int64 of a Python int that int32 does not hold, and then converts the other operand to int64, too; its bitwise
    operators make an int32 of the low bits. Where the other one is of 64 bits, or holds the number, the number is of its type.
    """
    a, b = _plain(a), _plain(b)
    if isinstance(a, Expr) and isinstance(b, Expr):
        return _with_other_format(a, b)
    return _of_type(a, b, exact), _of_type(b, a, exact)


def _of_type(value: Any, other: Any, exact: bool) -> Any:
    """A Python int that int32 does not hold as a constant of the other operand's type, if that fits; else the operand itself.

    Raises:
        OperandError: no integer that the two could meet in holds the number.
    """
    if not _is_large(value) or _is_number(other):
        return value
    kind = canonical(str(other.ty))
    if kind.is_float:
        return float(value)
    is_wide = kind.is_integer and kind.bits == 64
    most = 64 if is_wide and not (exact and kind.kind == "int") else 63
    if not -(1 << 63) <= value < 1 << most:
        what = f"{value} beside a value of type {kind.base}, in which it does not fit"
        raise OperandError(what, hint="use a number that the type holds, or convert the value to one that holds both")
    holds = is_wide or (kind.base == "uint32" and 0 <= value < 1 << 32)
    return _with_number(other, value)[1] if holds else value


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float))


def _is_large(value: Any) -> bool:
    """Whether a value is a Python int that int32 does not hold."""
    return isinstance(value, int) and not -(1 << 31) <= value < 1 << 31


def _is_bool(value: Any) -> bool:
    return str(value.ty).startswith("bool")


def _retrying(operation: Operation) -> Operation:
    """The operation; where TVM refuses the operands, it is tried again on promoted ones."""

    def apply(a: Any, b: Any, span: Any = None) -> Any:
        a, b = _pair(a, b)
        # TVM first: what it accepts keeps the type that it gives, and only what it refuses is promoted.
        try:
            return operation(a, b, span)
        except (RuntimeError, ValueError, TypeError):
            left, right = promoted(a, b)
            if left is a and right is b:
                raise
            return operation(left, right, span)

    return apply


def _arithmetic(operation: Operation) -> Operation:
    """A sum, a difference or a product."""
    attempt = _retrying(operation)

    def apply(a: Any, b: Any, span: Any = None) -> Any:
        a, b = _pair(a, b)
        result = attempt(a, b, span)
        return operation(*promoted(a, b), span) if _is_bool(result) else result

    return apply


def _division(operation: Operation) -> Operation:
    """A quotient or remainder of integers, of which TVM has none by a constant zero."""
    attempt = _retrying(operation)

    def apply(a: Any, b: Any, span: Any = None) -> Any:
        divisor = _plain(b)
        value = divisor.value if isinstance(divisor, tirx.IntImm) else divisor
        if isinstance(value, int) and value == 0:
            raise OperandError("division by zero", hint="the divisor is the constant 0 here")
        return attempt(a, divisor, span)

    return apply


def _shift_left(operation: Operation) -> Operation:
    """``a << b``; by a Python int or a bool in at least 32 bits."""
    operation = _folding(operation)
    attempt = _retrying(operation)

    def apply(a: Any, b: Any, span: Any = None) -> Any:
        a, b = _pair(a, b)
        if _is_number(a) or _is_number(b):
            return operation(*promoted(a, b), span)
        return attempt(a, _numeric(b), span)

    return apply


def _folding(operation: Operation) -> Operation:
    """A shift to the left, of constants modulo the range of int32; TVM refuses a result that int32 does not hold."""

    def apply(a: Any, b: Any, span: Any = None) -> Any:
        are_constants = all(isinstance(each, tirx.IntImm) and str(each.ty) == "int32" for each in (a, b))
        if not are_constants or not 0 <= b.value < 32:
            return operation(a, b, span)
        return tirx.IntImm("int32", ((a.value << b.value) + (1 << 31)) % (1 << 32) - (1 << 31), span)

    return apply


def _comparison(operation: Operation) -> Operation:
    """A comparison, of bools by their numbers."""
    attempt = _retrying(operation)

    def apply(a: Any, b: Any, span: Any = None) -> Any:
        a, b = _pair(a, b, exact=True)
        result = attempt(a, b, span)
        if isinstance(result, _FOLDED) or not (hasattr(result, "a") and _is_bool(result.a)):
            return result
        return operation(*promoted(a, b), span)

    return apply


def _inversion(operation: Operation) -> Operation:
    """``~a``."""

    def apply(a: Any, span: Any = None) -> Any:
        a = _plain(a)
        return tirx.Not(a, span) if _is_bool(a) else operation(a, span)

    return apply


_WRAPPERS: dict[tuple[str, ...], Callable[[Operation], Operation]] = {
    _ARITHMETIC: _arithmetic,
    _DIVISIONS: _division,
    _QUOTIENT: _retrying,
    _INTEGER: _retrying,
    ("left_shift",): _shift_left,
    _COMPARISONS: _comparison,
    ("bitwise_not",): _inversion,
}
