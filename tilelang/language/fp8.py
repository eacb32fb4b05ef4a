"""Which float8 formats the device has."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import DType, canonical


def determine_fp8_type(fp8_format: str = "e4m3") -> DType:
    """The element type of a float8 format, ``"e4m3"`` or ``"e5m2"``."""
    return canonical(f"float8_{fp8_format}")


def determine_torch_fp8_type(fp8_format: str = "e4m3") -> Any:
    """The same as a ``torch.dtype``."""
    return determine_fp8_type(fp8_format).as_torch()
