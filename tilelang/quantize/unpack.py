"""Expressions that unpack an element of few bits from the integer that stores it.

The functions that take a storage type give a converter ``f(nbit, val, pos, dtype)``: the element number ``pos`` of ``val``, which
holds ``storage_nbit // nbit`` of them, the first in the lowest bits. Their names are those that public programs use.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tilelang.language as T
from tilelang.dtypes import canonical
from tilelang.errors import OptionError


def _field(val: Any, pos: Any, nbit: int) -> Any:
    """The bits of an element, as uint32."""
    return (T.Cast("uint32", val) >> T.Cast("uint32", pos * nbit)) & T.uint32((1 << nbit) - 1)


def _expect(what: str, value: Any, expected: Any) -> None:
    if value != expected:
        raise OptionError(f"{what} is {value}, and {expected} is needed")


def _checked(storage_type: str, storage_nbit: int, convert: Callable[..., Any]) -> Callable[..., Any]:
    """The converter, which refuses values of another type than the one that it is for."""
    storage = canonical(f"{storage_type}{storage_nbit}")

    def f_convert(nbit: int, val: Any, *rest: Any, **options: Any) -> Any:
        _expect("the packed value's dtype", canonical(val.dtype), storage)
        return convert(nbit, val, *rest, **options)

    return f_convert


def _tir_packed_to_unsigned_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable[..., Any]:
    """A converter to the numbers ``0 … 2**nbit - 1``."""

    def convert(nbit: int, val: Any, pos: Any, dtype: Any) -> Any:
        return T.Cast(dtype, _field(val, pos, nbit))

    return _checked(storage_type, storage_nbit, convert)


def _tir_packed_to_signed_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable[..., Any]:
    """A converter to the numbers ``-2**(nbit - 1) … 2**(nbit - 1) - 1``, which are stored with ``2**(nbit - 1)`` added."""

    def convert(nbit: int, val: Any, pos: Any, dtype: Any) -> Any:
        return T.Cast(dtype, T.Cast("int32", _field(val, pos, nbit)) - (1 << (nbit - 1)))

    return _checked(storage_type, storage_nbit, convert)


def _tir_packed_int_to_int_convert(storage_type: str = "uint", storage_nbit: int = 8) -> Callable[..., Any]:
    """A converter to the numbers ``-2**(nbit - 1) … 2**(nbit - 1) - 1``, which are stored in two's complement."""

    def convert(nbit: int, val: Any, pos: Any, dtype: Any) -> Any:
        return T.Cast(dtype, (T.Cast("int32", _field(val, pos, nbit)) << (32 - nbit)) >> (32 - nbit))

    return _checked(storage_type, storage_nbit, convert)


def _tir_packed_to_unsigned_convert_with_zeros(storage_type: str = "uint", storage_nbit: int = 8) -> Callable[..., Any]:
    """A converter ``f(nbit, val, pos, zero, dtype)`` to the unsigned number minus its zero point."""

    def convert(nbit: int, val: Any, pos: Any, zero: Any, dtype: Any) -> Any:
        return T.Cast(dtype, T.Cast("int32", _field(val, pos, nbit)) - zero)

    return _checked(storage_type, storage_nbit, convert)


def _tir_packed_to_fp4_to_f16(storage_type: str = "uint", storage_nbit: int = 8) -> Callable[..., Any]:
    """A converter of numbers with a sign and three bits of exponent e: 0 for e = 0, and else ``2**(e - 7)``; to float16."""

    def convert(nbit: int, val: Any, pos: Any, dtype: Any) -> Any:
        _expect("the number of bits", nbit, 4)
        _expect("the converted dtype", canonical(dtype), "float16")
        bits = _field(val, pos, nbit)
        exponent = bits & T.uint32(7)
        number = ((bits & T.uint32(8)) << T.uint32(12)) | ((exponent + T.uint32(8)) << T.uint32(10))
        return T.if_then_else(exponent == T.uint32(0), T.float16(0), T.reinterpret(T.Cast("uint16", number), "float16"))

    return _checked(storage_type, storage_nbit, convert)


def _tir_u8_to_f8_e4m3_to_f16(nbit: int, val: Any, dtype: Any) -> Any:
    """The float8_e4m3fn whose bits an integer holds, as float16 (exact, zero and the numbers below the normal range included).

    Args:
        nbit: 8.
        val: a uint8, or an int8.
        dtype: float16.

    Returns:
        The number.
    """
    _expect("the number of bits", nbit, 8)
    _expect("the converted dtype", canonical(dtype), "float16")
    return T.Cast("float16", T.reinterpret(T.Cast("uint8", val), "float8_e4m3fn"))


def _tir_u8_to_f4_to_bf16(nbit: int, val: Any, pos: Any, scale: Any, dtype: Any) -> Any:
    """An element of float4 (a sign, two bits of exponent, one of mantissa) times a power of two, as bfloat16.

    The bits become those of a bfloat16 whose exponent is the element's plus 126 plus ``scale``, at most 255: an exponent of 0 is
    no special case, so that the elements 0 and 0.5 come out as ``2**(scale - 1)`` and ``1.5 * 2**(scale - 1)``.

    Args:
        nbit: 4.
        val: a uint8 with two elements, the first in the low half.
        pos: which of them.
        scale: the exponent, a non-negative integer.
        dtype: bfloat16.

    Returns:
        The number.
    """
    _expect("the number of bits", nbit, 4)
    _expect("the converted dtype", canonical(dtype), "bfloat16")
    _expect("the packed value's dtype", canonical(val.dtype), "uint8")
    bits = _field(val, pos, nbit)
    exponent = T.min((bits >> T.uint32(1) & T.uint32(3)) + T.uint32(126) + T.Cast("uint32", scale), T.uint32(255))
    number = ((bits & T.uint32(8)) << T.uint32(12)) | (exponent << T.uint32(7)) | ((bits & T.uint32(1)) << T.uint32(6))
    return T.reinterpret(T.Cast("uint16", number), "bfloat16")
