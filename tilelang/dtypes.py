"""Data types of the language, as strings with behaviour; this module imports neither TVM nor torch.

A :class:`DType` *is* its canonical name (a ``str``), so ``T.float16 == "float16"`` and either may be passed wherever a
dtype is wanted. Calling one converts an expression: ``T.float16(x)``.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from typing import Any

from tilelang.errors import DtypeError
from tilelang.provided import provided

_BASES: Mapping[str, tuple[str, int]] = {
    # canonical name -> (kind, bits)
    "float64": ("float", 64),
    "float32": ("float", 32),
    "float16": ("float", 16),
    "bfloat16": ("float", 16),
    "float8_e4m3fn": ("float", 8),
    "float8_e5m2": ("float", 8),
    "float8_e4m3fnuz": ("float", 8),
    "float8_e5m2fnuz": ("float", 8),
    "float8_e8m0fnu": ("float", 8),
    "float4_e2m1fn": ("float", 4),
    "int64": ("int", 64),
    "int32": ("int", 32),
    "int16": ("int", 16),
    "int8": ("int", 8),
    "int4": ("int", 4),
    "uint64": ("uint", 64),
    "uint32": ("uint", 32),
    "uint16": ("uint", 16),
    "uint8": ("uint", 8),
    "uint4": ("uint", 4),
    "uint1": ("uint", 1),
    "bool": ("bool", 8),
    "handle": ("handle", 64),
}

_ALIASES: Mapping[str, str] = {
    "float8_e4m3": "float8_e4m3fn",
    "e4m3_float8": "float8_e4m3fn",
    "e5m2_float8": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "float4_e2m1": "float4_e2m1fn",
    "e2m1_float4": "float4_e2m1fn",
    "tf32": "float32",  # tensor cores read float32 operands as tf32, so that it is no type of its own
    "tfloat32": "float32",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "long": "int64",
    "boolean": "bool",
    "short": "int16",
    "ptr": "int64",  # an element of a table of addresses: T.Tensor((n,), T.ptr)
}

_VECTOR = re.compile(r"^(.*\D|.*_e\dm\d(?:fn)?|\D+\d+)x(\d+)$")


class DType(str):
    """A canonical dtype name; vectors carry their lane count as ``x<lanes>``, for example ``"float16x8"``."""

    __slots__ = ()

    def __new__(cls, value: Any) -> DType:
        """The type that ``value`` names; see :func:`canonical`."""
        return canonical(value)

    @property
    def base(self) -> str:
        """The scalar type's name."""
        return _split(self)[0]

    @property
    def lanes(self) -> int:
        """Lane count, 1 for a scalar."""
        return _split(self)[1]

    @property
    def kind(self) -> str:
        """``"float"``, ``"int"``, ``"uint"``, ``"bool"`` or ``"handle"``."""
        return _BASES[self.base][0]

    @property
    def bits(self) -> int:
        """Bits of a value of the scalar type (8 for bool)."""
        return _BASES[self.base][1]

    @property
    def stored_bits(self) -> int:
        """Bits of one element in memory: types of half a byte are packed, uint1 takes a byte."""
        return self.bits if self.bits == 4 else self.bytes * 8

    @property
    def bytes(self) -> int:
        """Whole bytes of the scalar type, at least 1."""
        return max(1, self.bits // 8)

    @property
    def is_float(self) -> bool:
        """Whether the scalar type is a floating-point type."""
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        """Whether the scalar type is a signed or unsigned integer (bool is not)."""
        return self.kind in ("int", "uint")

    def as_torch(self) -> Any:
        """The ``torch.dtype`` of the same name."""
        return to_torch(self)

    def __call__(self, *args: Any, is_size_var: bool = False) -> Any:
        """Converts a value to this type: a cast of an expression, or a typed constant of a number.

        Without a value it is a new immutable variable, which ``T.let`` gives its value; a vector type takes one value a lane too.
        That a variable is a size is nothing that the compiler needs to be told.
        """
        return provided("call_dtype")(self, *args)


def _split(name: str) -> tuple[str, int]:
    if name in _BASES:
        return name, 1
    match = _VECTOR.match(name)
    return (match.group(1), int(match.group(2))) if match else (name, 1)


_CANONICAL: dict[Any, DType] = {}


def canonical(dtype: Any) -> DType:
    """The :class:`DType` that a string, a ``torch.dtype``, a numpy dtype, ``int``/``float``/``bool`` or a TVM type names.

    Raises:
        CompileError: no such dtype; the message offers the nearest name.
    """
    try:
        return _CANONICAL[dtype]
    except (KeyError, TypeError):
        pass
    found = _parse(dtype)
    try:
        _CANONICAL[dtype] = found
    except TypeError:
        pass
    return found


def _parse(dtype: Any) -> DType:
    name = dtype if isinstance(dtype, str) else getattr(dtype, "__name__", None) or str(dtype)
    name = name.rpartition(".")[2] if name.startswith(("torch.", "T.", "numpy.")) else name
    # The whole name may be an alias ("float"), or only its part before the lanes ("float8_e4m3x4").
    base, lanes = _split(_ALIASES.get(name, name))
    base = _ALIASES.get(base, base)
    if base not in _BASES:
        near = _abbreviated(name) or next(iter(difflib.get_close_matches(name, [*_BASES, *_ALIASES], n=1)), None)
        # T.alloc_shared(64, 64, "float16") takes the second size for the dtype.
        hint = f"did you mean {near!r}?" if near else _ONE_ARGUMENT if isinstance(dtype, int) else None
        raise DtypeError(f"unknown dtype {name!r}", hint=hint)
    return _make(base if lanes == 1 else f"{base}x{lanes}")


_ONE_ARGUMENT = "the sizes of a shape are one argument, as in (m, n)"


_ABBREVIATIONS = {"f": "float", "fp": "float", "bf": "bfloat", "i": "int", "u": "uint"}
"""Short names of kinds in other languages: ``fp16``, ``i32``. By its letters alone ``fp32`` would be nearest to ``tf32``."""


def _abbreviated(name: str) -> str | None:
    """The dtype that a name of another language, such as ``fp16``, stands for."""
    match = re.fullmatch(r"([a-z]+)(\d+)", name)
    full = match and f"{_ABBREVIATIONS.get(match.group(1))}{match.group(2)}"
    return full if full in _BASES else None


def _make(name: str) -> DType:
    """The type of a canonical name."""
    return str.__new__(DType, name)


def is_dtype(value: Any) -> bool:
    """Whether ``value`` is of a kind that names dtypes: a string, or a dtype object of torch, numpy or TVM."""
    return isinstance(value, str) or type(value).__name__ == "dtype"


def is_float4(value: Any) -> bool:
    """Whether elements of a dtype are float4_e2m1fn."""
    return canonical(value).base == "float4_e2m1fn"


is_float4_e2m1fn = is_float4


def is_f8f6f4_family(value: Any) -> bool:
    """Whether elements of a dtype are floats of 8 or 4 bits."""
    kind = canonical(value)
    return kind.is_float and kind.bits <= 8


def to_torch(dtype: Any) -> Any:
    """The ``torch.dtype`` of a dtype.

    Raises:
        DtypeError: torch has no such type (``int4``, vectors …).
    """
    import torch

    name = canonical(dtype)
    found = getattr(torch, _TORCH_NAMES.get(name, name), None)
    if not isinstance(found, torch.dtype):
        raise DtypeError(f"torch has no dtype {name}")
    return found


_TORCH_NAMES = {"float4_e2m1fn": "float4_e2m1fn_x2"}


def vector(base: str, lanes: int) -> DType:
    """The vector type of ``lanes`` elements of ``base``."""
    return _make(base if lanes == 1 else f"{base}x{lanes}")


def get_tvm_dtype(value: Any) -> DType:
    """:func:`canonical`."""
    return canonical(value)


_LANES = (2, 4, 8, 16, 32, 64)

scalar_types: Mapping[str, DType] = {name: _make(name) for name in _BASES}
"""Every scalar type by canonical name."""

all_names: Mapping[str, DType] = {
    **scalar_types,
    **{alias: _make(name) for alias, name in _ALIASES.items()},
    **{f"{name}x{lanes}": _make(f"{name}x{lanes}") for name in _BASES if name != "handle" for lanes in _LANES},
    **{f"{name}x{lanes}": _make(f"{_ALIASES[name]}x{lanes}") for name in ("float8_e4m3", "tfloat32") for lanes in _LANES},
}
"""Every name that ``T.<name>`` offers, aliases and vectors included."""


def __getattr__(name: str) -> Any:
    if name.startswith("_"):  # asked for by every import
        raise AttributeError(name)
    from tilelang.attributes import attributes

    return attributes(__name__, {})(name)
