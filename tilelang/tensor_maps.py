"""Tensor maps, the descriptors of bulk tensor copies: their settings by name, as the CUDA driver numbers them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

BYTES = 128
"""Size of a tensor map."""

ALIGNMENT = 64
"""Of the address at which the driver writes one."""

DATA_TYPES: Mapping[str, int] = {
    # CUtensorMapDataType
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9, "float32_ftz": 10, "tfloat32": 11, "tfloat32_ftz": 12,
}  # fmt: skip

TRANSPORTS: Mapping[str, str] = {
    "uint8": "uint8", "int8": "uint8", "bool": "uint8", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8",
    "float8_e4m3fnuz": "uint8", "float8_e5m2fnuz": "uint8", "float8_e8m0fnu": "uint8", "uint16": "uint16", "int16": "uint16",
    "uint32": "uint32", "int32": "int32", "uint64": "uint64", "int64": "int64", "float16": "float16", "bfloat16": "bfloat16",
    "float32": "float32", "tfloat32": "float32", "float64": "float64",
}  # fmt: skip
"""Element type -> the data type that copies it bit by bit."""

INTERLEAVES: Mapping[str, int] = {"none": 0, "16B": 1, "32B": 2}
SWIZZLES: Mapping[int, int] = {0: 0, 32: 1, 64: 2, 128: 3}
"""By the bytes of the pattern."""
L2_PROMOTIONS: Mapping[str, int] = {"none": 0, "64B": 1, "128B": 2, "256B": 3}
FILLS: Mapping[str, int] = {"zeros": 0, "nan": 1}
"""What elements outside of the tensor are."""

EMPTY_BASE, EMPTY_STRIDE = 256, 16

OUTSIDE = 1 << 30
"""The outermost coordinate of a copy from or to a tensor without elements: outside of its stand-in, wherever the box ends."""


def encodable(base: int, shape: Sequence[int], strides: Sequence[int]) -> tuple[int, list[int], list[int]]:
    """Base address, sizes and byte strides that the driver takes for a tensor.

    It refuses a tensor without elements. In its place comes a tensor of one element at an address that no memory has, which
    copies never reach: kernels move them to :data:`OUTSIDE`.

    Args:
        base: address of the tensor.
        shape: its sizes, innermost axis first.
        strides: its strides in bytes, without the innermost one.

    Returns:
        The same three, or those of the stand-in.
    """
    if 0 not in shape:
        return base, list(shape), list(strides)
    return EMPTY_BASE, [1] * len(shape), [EMPTY_STRIDE] * len(strides)
