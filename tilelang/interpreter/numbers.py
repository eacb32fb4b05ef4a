"""Element types: the NumPy type of a value while it is computed with, and its bits in memory.

A float of at most 32 bits is computed with as float32, an integer in its own width (four bits in eight), a bool as a bool. In
memory every type has its own bits. Formats that NumPy lacks are unsigned integers there, decoded by a table of all their values.
Two elements of four bits share a byte.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from tilelang.dtypes import canonical
from tilelang.errors import UnsupportedError

_SMALL_FLOATS = {
    # name -> mantissa bits, exponent bias, code of the largest number, code of an overflow, code of NaN (None: as an overflow)
    "float8_e4m3fn": (3, 7, 0x7E, 0x7E, 0x7F),
    "float8_e5m2": (2, 15, 0x7B, 0x7C, 0x7F),
    "float8_e4m3fnuz": (3, 8, 0x7F, 0x80, 0x80),
    "float8_e5m2fnuz": (2, 16, 0x7F, 0x80, 0x80),
    "float4_e2m1fn": (1, 1, 0x7, 0x7, 0x7),
}


@dataclass(frozen=True, slots=True, eq=False)
class Element:
    """An element type.

    Attributes:
        name: canonical dtype name.
        kind: ``"float"``, ``"int"``, ``"uint"``, ``"bool"`` or ``"handle"``.
        bits: of one element in memory (uint1 takes a byte).
        value: NumPy's type of a value in a register.
        memory: NumPy's type of an element in memory (a byte for types of four bits).
    """

    name: str
    kind: str
    bits: int
    value: np.dtype
    memory: np.dtype

    def decode(self, stored: Any) -> Any:
        """Decodes memory into values."""
        decoder = _DECODERS.get(self.name)
        return decoder(stored) if decoder is not None else stored

    def encode(self, value: Any) -> Any:
        """Encodes values for memory, rounded to nearest even or wrapped around."""
        encoder = _ENCODERS.get(self.name)
        return encoder(value) if encoder is not None else np.asarray(value, self.memory)

    @property
    def is_narrow(self) -> bool:
        """Whether it is an integer of fewer bits than its value has in a register."""
        return self.kind != "float" and self.name in _ENCODERS

    def rounded(self, value: Any) -> Any:
        """A float rounded to this type."""
        return self.decode(self.encode(value)) if self.kind == "float" and self.bits < 32 else value


@cache
def element(dtype: str) -> Element:
    """The element type of a dtype name.

    Raises:
        UnsupportedError: a vector type.
    """
    kind = canonical(dtype)
    if kind.lanes > 1:
        raise UnsupportedError(f"the interpreter computes with scalars, not with {kind}")
    if kind.kind == "handle":
        return Element(str(kind), "handle", 64, np.dtype(object), np.dtype("int64"))
    if kind.kind == "bool":
        return Element("bool", "bool", 8, np.dtype(bool), np.dtype(bool))
    if kind.is_float:
        value = np.dtype("float64" if kind.bits == 64 else "float32")
        memory = np.dtype(str(kind)) if kind in ("float64", "float32", "float16") else np.dtype(f"uint{max(8, kind.bits)}")
        return Element(str(kind), "float", kind.bits, value, memory)
    width = np.dtype(f"{kind.kind}{max(8, kind.bits)}")
    return Element(
        str(kind), kind.kind, 8 if kind.bits == 1 else kind.bits, width, width if kind.bits >= 8 else np.dtype("uint8")
    )


# Formats that NumPy lacks --------------------------------------------------------------------------------------------


def _float_of_code(code: int, mantissa: int, bias: int, name: str) -> float:
    """The number that the bits of a small float stand for (OCP's specifications of 8-bit floats and of microscaling formats)."""
    width = canonical(name).bits
    magnitude, sign = code & ((1 << (width - 1)) - 1), -1.0 if code >> (width - 1) else 1.0
    _, _, largest, overflow, nan = _SMALL_FLOATS[name]
    # These formats have neither infinities nor a negative zero, whose code is the only NaN.
    if name.endswith("fnuz"):
        if code == nan:
            return math.nan
    elif magnitude > largest:
        return sign * math.inf if magnitude == overflow else math.nan
    exponent, fraction = magnitude >> mantissa, magnitude & ((1 << mantissa) - 1)
    # Subnormal: no implicit leading one, and the exponent of the smallest normal numbers.
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - mantissa)
    return sign * math.ldexp((1 << mantissa) + fraction, exponent - bias - mantissa)


@cache
def _table(name: str) -> np.ndarray:
    """The values of all codes of a format."""
    if name == "float8_e8m0fnu":
        return np.array([math.nan if code == 255 else math.ldexp(1.0, code - 127) for code in range(256)], "float32")
    mantissa, bias = _SMALL_FLOATS[name][:2]
    codes = range(1 << canonical(name).bits)
    return np.array([_float_of_code(code, mantissa, bias, name) for code in codes], "float32")


@cache
def _middles(name: str) -> np.ndarray:
    """The middle between each magnitude of a format and the next; last, that between the largest and what would follow it."""
    values = _table(name)[: _SMALL_FLOATS[name][2] + 1].astype("float64")
    return np.append((values[1:] + values[:-1]) / 2, values[-1] + (values[-1] - values[-2]) / 2)


def _encode_small(name: str) -> Any:
    """The function that rounds floats to the nearest code of a format, ties to the even one."""
    _, _, largest, overflow, nan = _SMALL_FLOATS[name]
    sign_bit = 1 << (canonical(name).bits - 1)

    def encode(value: Any) -> Any:
        value = np.asarray(value, "float64")
        middles = _middles(name)
        magnitude = np.abs(value)
        # Code k is nearest between the middles k-1 and k. On a tie this finds the lower code, which is right only if it is even.
        code = np.searchsorted(middles, magnitude, side="left")
        tie = middles[np.minimum(code, largest)] == magnitude
        code = code + (tie & (code % 2 == 1))
        code = np.where(code > largest, overflow, code)
        code = np.where(np.isnan(value), nan, code)
        # The "fnuz" formats have no -0: its code is their NaN.
        signed = np.signbit(value) & (code != 0 if name.endswith("fnuz") else True)
        return np.where(signed, code | sign_bit, code).astype("uint8")

    return encode


def _decode_table(name: str) -> Any:
    mask = (1 << canonical(name).bits) - 1
    return lambda stored: _table(name)[np.bitwise_and(stored, mask)]


def _encode_e8m0(value: Any) -> Any:
    bits = np.asarray(value, "float32").view("uint32") & np.uint32(0x7FFFFFFF)
    exponent, rest = bits >> np.uint32(23), bits & np.uint32(0x7FFFFF)
    # A mantissa of 1.5 is a tie between two powers, which goes up. In a subnormal float these bits are 2**-127 itself, code 0.
    up = (rest > 0x400000) | ((rest == 0x400000) & (exponent > 0))
    return np.where(exponent == 255, 255, exponent + up).astype("uint8")


def _decode_bfloat16(stored: Any) -> Any:
    return (np.asarray(stored, "uint32") << np.uint32(16)).view("float32")[()]


def _encode_bfloat16(value: Any) -> Any:
    bits = to_odd(value).view("uint32")
    # Adds just less than half of the last kept bit, and a little more where that bit is odd: the carry rounds to nearest, ties to
    # even.
    kept = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    return np.where(np.isnan(value), 0x7FC0, kept).astype("uint16")


def to_odd(value: Any) -> np.ndarray:
    """float64 values as float32, rounded to odd (see :func:`~tilelang.interpreter.elementary.sum_to_odd`), so that rounding them
    once more to a narrower type gives what one rounding would."""
    value = np.asarray(value)
    single = value.astype("float32")
    if value.dtype != np.float64:
        return single
    inexact = np.isfinite(value) & (single.astype("float64") != value)
    away = inexact & (np.abs(single.astype("float64")) > np.abs(value))
    towards_zero = np.where(away, np.nextafter(single, np.float32(0)), single)
    return np.where(inexact, (towards_zero.view("uint32") | np.uint32(1)).view("float32"), towards_zero)


def _decode_nibble(name: str) -> Any:
    if name == "uint4":
        return lambda stored: np.bitwise_and(stored, np.uint8(15))
    # Sign extension: flipping the sign bit and subtracting its weight maps 0…7 to themselves and 8…15 to -8…-1.
    return lambda stored: ((np.bitwise_and(stored, np.uint8(15)) ^ np.uint8(8)).astype("int8") - np.int8(8)).astype("int8")


def _encode_bits(mask: int) -> Any:
    return lambda value: np.asarray(value).astype("uint8") & np.uint8(mask)


_DECODERS = {
    "float16": lambda stored: np.asarray(stored).astype("float32")[()],
    "bfloat16": _decode_bfloat16,
    **{name: _decode_table(name) for name in (*_SMALL_FLOATS, "float8_e8m0fnu")},
    "int4": _decode_nibble("int4"),
    "uint4": _decode_nibble("uint4"),
    "uint1": lambda stored: np.asarray(stored).astype("uint8"),
}

_ENCODERS = {
    "float16": lambda value: np.asarray(value).astype("float16"),
    "bfloat16": _encode_bfloat16,
    **{name: _encode_small(name) for name in _SMALL_FLOATS},
    "float8_e8m0fnu": _encode_e8m0,
    "int4": _encode_bits(15),
    "uint4": _encode_bits(15),
    "uint1": _encode_bits(1),
}


# Conversions ---------------------------------------------------------------------------------------------------------


def convert(value: Any, source: Element, target: Element) -> Any:
    """A value converted as ``T.cast`` does.

    Args:
        value: a number, or an array over the lanes.
        source: its type.
        target: the type of the result.
    """
    if source is target:
        return value
    if target.kind == "bool":
        return np.not_equal(value, 0)
    if target.kind == "float":
        return target.rounded(np.asarray(value).astype(target.value)[()] if source.kind != "float" else _narrowed(value, target))
    if source.kind == "float":
        value = truncated(value, target)
    return wrapped(value, target)


def _narrowed(value: Any, target: Element) -> Any:
    """A float value for a floating-point type, not yet rounded to a type narrower than float32."""
    return value if target.bits < 32 else np.asarray(value).astype(target.value)[()]


def wrapped(value: Any, target: Element) -> Any:
    """An integer's low bits as an integer type."""
    if target.is_narrow:
        return target.decode(target.encode(np.asarray(value).astype("int64")))
    return np.asarray(value).astype(target.value)[()]


def truncated(value: Any, target: Element) -> Any:
    """The integral part of a float, saturated to the range of ``target`` (of int32 for a narrower type); 0 for NaN."""
    wide = target.value if target.bits >= 32 else np.dtype("int32")
    limits = np.iinfo(wide)
    # The largest number of 64 bits is no float64: it is rounded up to the first one that is out of range.
    end = float(limits.max) + (0 if wide.itemsize == 8 else 1)
    number = np.trunc(np.asarray(value, "float64"))
    # The conversion of NumPy is undefined outside of the range, so what is outside is replaced before, and set after it.
    inside = (number >= float(limits.min)) & (number < end)
    whole = np.where(inside, number, 0).astype(wide)
    whole = np.where(number >= end, limits.max, whole)
    return np.where(number < float(limits.min), limits.min, whole).astype(wide)[()]


def constant(value: Any, kind: Element) -> Any:
    """A number of the program as a value."""
    if kind.kind == "float":
        return kind.rounded(kind.value.type(value))
    if kind.kind == "bool":
        return np.bool_(value)
    return wrapped(np.array(int(value) & ((1 << 64) - 1), "uint64"), kind)


def reinterpreted(value: Any, source: Element, target: Element) -> Any:
    """The bits of a value as a value of another type.

    Args:
        value: a number, or an array over the lanes.
        source: its type.
        target: a type of the same size.
    """
    stored = np.asarray(source.encode(value), source.memory)
    return target.decode(stored.view(target.memory)[()])
