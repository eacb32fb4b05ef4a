"""Values at the ends of element types: the least and the largest number, zeros of both signs, subnormals, infinities, NaN."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch

from testing.fuzz import dtypes

INTS = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64")
FLOATS = ("float16", "bfloat16", "float32", "float64")
"""Types in which operations on any value have one result."""
TYPES = (*INTS, *FLOATS, "bool", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", *dtypes.PACKED)
ARGUMENTS = (*INTS, *FLOATS, "bool")
"""Types of the scalar arguments of a call (CUDA passes no floats of 8 bits)."""

_WHOLE = (0, 1, 2, 3, 5, 7, 31, 32, 33, 63, 64, 100, 2**24 + 1, 2**53 + 1, 2**62)
_FRACTIONS = (
    0.0, -0.0, 0.5, 1.0, 1.5, 2.5, 2.0**-24, 2.0**-25, 2.0**-126, 2.0**-127, 1e-39, 1e-45, 5e-324, 0.1, 1 / 3, 3.0,
    255.5, 448.0, 449.0, 464.0, 465.0, 57344.0, 61440.0, 65504.0, 65519.0, 65520.0, 2.0**24 + 1, 3.4e38, 1e300,
    float("inf"), float("nan"),
)  # fmt: skip
_POWERS = (7, 8, 15, 16, 31, 32, 63, 64)


def whole(dtype: str) -> list[int]:
    """Integers of a type: its ends, ends of other types, small numbers."""
    low, high = limits(dtype)
    near = [sign * (2**power) + step for power in _POWERS for sign in (1, -1) for step in (-1, 0, 1)]
    candidates = {*_WHOLE, *(-value for value in _WHOLE), *near, low, low + 1, high - 1, high}
    return sorted(value for value in candidates if low <= value <= high)


def limits(dtype: str) -> tuple[int, int]:
    """The least and the largest integer of a type."""
    size = dtypes.bits(dtype)
    return (0, 2**size - 1) if dtypes.is_unsigned(dtype) else (-(2 ** (size - 1)), 2 ** (size - 1) - 1)


def fractions() -> list[float]:
    """Numbers of float64, of both signs."""
    powers = [float(sign * 2**power + step) for power in _POWERS for sign in (1, -1) for step in (-1, 0, 1)]
    return [*_FRACTIONS, *(-value for value in _FRACTIONS), *powers]


def scalar(dtype: str, place: int) -> int | float | bool:
    """A number to pass as an argument of type ``dtype``; ``place`` chooses which."""
    if dtype == "bool":
        return bool(place % 2)
    if dtype in INTS:
        values = whole(dtype)
        return values[place % len(values)]
    value = float(_table(dtype)[place % len(_table(dtype))])
    return 1.0 if value != value else value  # a NaN in the text of an error is no help


def tensor(dtype: str, shape: tuple[int, ...], generator: torch.Generator) -> torch.Tensor:
    """Random ends; a packed type's as bytes with two codes each."""
    count = 16 if dtype in dtypes.PACKED else len(_table(dtype))
    chosen = torch.randint(0, count, shape, generator=generator)
    if dtype in dtypes.PACKED:
        return dtypes.pack(chosen)
    if dtype in INTS:
        return torch.from_numpy(_table(dtype)[chosen.numpy()])
    return _table(dtype)[chosen]


@cache
def _table(dtype: str):
    """All ends of a type: of an integer type in NumPy, which can index all of them."""
    if dtype == "bool":
        return torch.tensor([False, True])
    if dtype in INTS:
        return np.array(whole(dtype), dtype=dtype)
    kind = getattr(torch, dtype)
    if kind.itemsize == 1:
        found = torch.arange(256).to(torch.uint8).view(kind)
    else:
        found = torch.tensor(fractions(), dtype=torch.float64).to(kind)
        found = torch.where(found.isnan(), found.abs(), found)
    values = found.to(torch.float64)
    return found[~(values.isnan() & values.signbit())]  # which sign NaN has is open
