"""Metadata of operands of which two elements in four (of 32 bits: one in two) are zero: how many elements a metadata element
describes."""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import DType, all_names, canonical

_BITS_OF_GROUP = 4

_OF_FOUR = ("float16", "bfloat16", "int8", "uint8", "float8_e4m3fn", "float8_e5m2")

GROUP_CONFIG: dict[DType, tuple[int, int]] = {
    all_names["float32"]: (1, 2),
    **{all_names[name]: (2, 4) for name in _OF_FOUR},
}
"""Element type -> (elements that are kept, elements) of a group; 4 bits of metadata describe one."""


def get_e_factor(a_dtype: Any, meta_dtype: Any) -> int:
    """How many elements of ``a_dtype`` one element of ``meta_dtype`` describes."""
    return canonical(meta_dtype).bits // _BITS_OF_GROUP * GROUP_CONFIG[canonical(a_dtype)][1]


def get_e_replicate_factor(a_dtype: Any) -> int:
    """How many neighbouring threads hold the same metadata."""
    return 1 if canonical(a_dtype).bits <= 8 else 2
