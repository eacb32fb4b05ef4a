"""The element types of random programs: how values of a tensor are made and read."""

from __future__ import annotations

import re

import torch

FLOATS = ("float32", "float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float4_e2m1fn", "float64")
INTS = ("int32", "int8", "uint8", "int16", "int64", "uint32", "int4", "uint4", "uint16", "bool")
WIDE = ("float32", "int32", "float64", "int64")
"""Types of sums."""
PACKED = ("int4", "uint4", "float4_e2m1fn")
"""Two elements a byte."""
COMPUTED = ("float32", "float16", "bfloat16", "float64", "int32", "int8", "int16", "int64")
"""Types in which small numbers may be calculated with, without a cast, on every target with the same result."""
COMMON = ("float32",) * 6 + ("float16",) * 4 + ("int32",) * 3 + FLOATS + INTS

_NAN = -1.2345e-300
"""Stands for NaN, which is unequal to itself."""
_FLOAT4 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


def is_float(dtype: str) -> bool:
    """Whether a type is a floating-point type."""
    return dtype in FLOATS


def is_unsigned(dtype: str) -> bool:
    """Whether a type is unsigned."""
    return dtype.startswith("uint") or dtype == "bool"


def tensor_of(values: torch.Tensor, dtype: str) -> torch.Tensor:
    """A tensor of ``dtype`` of small integers ``values``; of a packed type two a byte."""
    if is_unsigned(dtype):
        values = values.abs()
    if dtype == "bool":
        return values % 2 == 1
    if dtype == "float4_e2m1fn":
        codes = torch.tensor([_FLOAT4.index(v) for v in range(5)])[values.abs()] + 8 * (values < 0)
        return pack(codes)
    if dtype in PACKED:
        return pack(values & 15)
    return values.to(getattr(torch, dtype))


def pack(codes: torch.Tensor) -> torch.Tensor:
    """Codes of four bits, two a byte; a row of an odd length ends with half a byte of zeros."""
    codes = torch.nn.functional.pad(codes, (0, codes.shape[-1] % 2))
    return (codes[..., ::2] | codes[..., 1::2] << 4).to(torch.uint8)


def numbers(tensor: torch.Tensor, dtype: str, columns: int) -> torch.Tensor:
    """The values of a tensor of as many ``columns``, equal where they are: integers as int64, floats as float64 without NaN."""
    if dtype not in PACKED:
        if not tensor.dtype.is_floating_point:
            return tensor.to(torch.int64)
        return tensor.to(torch.float64).nan_to_num(_NAN, float("inf"), float("-inf"))
    low = tensor.view(torch.uint8).to(torch.int64)
    codes = torch.stack([low & 15, low >> 4], -1).flatten(-2)[..., :columns]
    if dtype == "uint4":
        return codes
    if dtype == "int4":
        return (codes ^ 8) - 8
    return torch.tensor([*_FLOAT4, *(-v for v in _FLOAT4)], dtype=torch.float64)[codes]


def signs(numbers: torch.Tensor) -> torch.Tensor:
    """Numbers as their bits: zeros of different signs are different."""
    return numbers.view(torch.int64)


def bits(dtype: str) -> int:
    """Bits of one element."""
    return 4 if dtype in PACKED else 8 if dtype == "bool" else int(re.search(r"\d+", dtype).group())
