"""Names, literals and types of C for the C code generator."""

from __future__ import annotations

import math
import struct
from typing import Any

from tilelang.dtypes import DType, canonical
from tilelang.identifiers import is_taken, usable

SCALARS = {
    "float64": "double", "float32": "float", "int64": "int64_t", "uint64": "uint64_t", "int32": "int32_t", "uint32": "uint32_t",
    "int16": "int16_t", "uint16": "uint16_t", "int8": "int8_t", "uint8": "uint8_t", "bool": "bool", "handle": "void*",
    # Narrow formats only ever appear as what pointers point to.
    "float16": "uint16_t", "bfloat16": "uint16_t", "float8_e4m3fn": "uint8_t", "float8_e5m2": "uint8_t",
    "float8_e4m3fnuz": "uint8_t", "float8_e5m2fnuz": "uint8_t", "float8_e8m0fnu": "uint8_t",
    "float4_e2m1fn": "uint8_t", "int4": "uint8_t", "uint4": "uint8_t", "uint1": "uint8_t",
}  # fmt: skip

_SHORT = {
    "float64": "f64", "float32": "f32", "int64": "i64", "uint64": "u64", "int32": "i32", "uint32": "u32", "int16": "i16",
    "uint16": "u16", "int8": "i8", "uint8": "u8",
}  # fmt: skip


def type_of(node: Any) -> DType:
    """The dtype of an expression or buffer."""
    return canonical(str(node.ty))


def c_type(dtype: str) -> str:
    """The C type of a scalar or vector dtype."""
    dtype = canonical(dtype)
    return SCALARS[dtype] if dtype.lanes == 1 else f"{_SHORT[dtype.base]}x{dtype.lanes}"


def short(dtype: str) -> str:
    """The suffix that stands for a scalar dtype in names of helpers."""
    return _SHORT[canonical(dtype)]


def vector_typedef(dtype: str) -> str:
    """The declaration of a vector type; it may lie at the alignment of its elements and alias them."""
    dtype = canonical(dtype)
    size = dtype.lanes * dtype.bytes
    return (
        f"typedef {SCALARS[dtype.base]} {c_type(dtype)} __attribute__((vector_size({size}), aligned({dtype.bytes}), may_alias));"
    )


def float_literal(value: float, dtype: str) -> str:
    """The shortest decimal that reads back as exactly this value."""
    if math.isnan(value):
        return "NAN" if dtype == "float32" else "((double)NAN)"
    if math.isinf(value):
        text = "INFINITY" if dtype == "float32" else "((double)INFINITY)"
        return text if value > 0 else f"(-{text})"
    if dtype == "float64":
        return _signed(_with_point(repr(value)))
    for digits in range(6, 10):
        text = f"{value:.{digits}g}"
        if struct.pack("<f", float(text)) == struct.pack("<f", value):
            break
    return _signed(_with_point(text) + "f")


def _with_point(text: str) -> str:
    return text if any(mark in text for mark in ".en") else text + ".0"


def _signed(text: str) -> str:
    return f"({text})" if text.startswith("-") else text


def int_literal(value: int, dtype: str) -> str:
    """An integer constant of a type."""
    dtype = canonical(dtype)
    if dtype == "bool":
        return "true" if value else "false"
    if dtype.kind == "uint":
        return f"{value & ((1 << dtype.bits) - 1)}" + {64: "ull", 32: "u"}.get(dtype.bits, "u")
    if value == -(1 << (dtype.bits - 1)) and dtype.bits >= 32:
        return f"({value + 1}{'ll' if dtype.bits == 64 else ''} - 1)"
    text = f"{value}ll" if dtype.bits == 64 else str(value)
    return f"({text})" if value < 0 else text


def string_literal(text: str) -> str:
    """A C string."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
    parts = []
    for char in text:
        if char in escapes:
            parts.append(escapes[char])
        elif 32 <= ord(char) < 127:
            parts.append(char)
        else:
            parts += [f"\\{byte:03o}" for byte in char.encode()]
    return '"' + "".join(parts) + '"'


_TASK_NAMES = ("closure", "first", "last", "task")
"""What the functions over ranges of blocks call their own arguments."""


class Names:
    """C identifiers of IR variables: the user's names, numbered where they would clash."""

    def __init__(self) -> None:
        self._names: dict[Any, str] = {}
        self._used: dict[str, int] = dict.fromkeys(_TASK_NAMES, 1)

    def __call__(self, var: Any) -> str:
        found = self._names.get(var)
        if found is None:
            found = self._names[var] = self.fresh(str(var.name))
        return found

    def fresh(self, wanted: str) -> str:
        """An identifier like ``wanted`` that nothing else has."""
        base = "".join(char if char.isalnum() or char == "_" else "_" for char in wanted) or "v"
        base = usable(base)
        base = f"{base}_" if is_taken(base) or base[0].isdigit() or base.startswith("tl_") else base
        count = self._used.get(base, 0)
        self._used[base] = count + 1
        if not count:
            return base
        return self.fresh(f"{base}_{count}")
