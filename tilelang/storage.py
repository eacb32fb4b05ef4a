"""How a parameter lies in memory: the torch tensor that holds it, and its DLPack type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tilelang.artifact import Dim, KernelParam

PACKED_DTYPES: Mapping[str, tuple[str, ...]] = {
    "int4": ("int8", "uint8"),
    "uint4": ("uint8", "int8"),
    "float4_e2m1fn": ("float4_e2m1fn_x2", "uint8", "int8"),
}
"""Types of half a byte, and the torch dtypes that hold two of them an element (along the last axis)."""

_BYTES: Mapping[str, tuple[str, ...]] = {"uint1": ("bool", "uint8")}
"""Other types that torch lacks, and the torch dtypes of the same size that hold them."""

DLPACK_TYPES: Mapping[str, tuple[int, int, int]] = {
    # torch dtype name -> (DLDataTypeCode, bits, lanes) of DLPack 1.1
    **{f"int{bits}": (0, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": (1, bits, 1) for bits in (8, 16, 32, 64)},
    **{f"float{bits}": (2, bits, 1) for bits in (16, 32, 64)},
    "bfloat16": (4, 16, 1),
    "bool": (6, 8, 1),
    "float8_e4m3fn": (10, 8, 1),
    "float8_e4m3fnuz": (11, 8, 1),
    "float8_e5m2": (12, 8, 1),
    "float8_e5m2fnuz": (13, 8, 1),
    "float8_e8m0fnu": (14, 8, 1),
    "float4_e2m1fn_x2": (17, 4, 2),
}


def storage_dtypes(param: KernelParam) -> tuple[str, ...]:
    """Names of the torch dtypes that a tensor parameter accepts, the one for outputs first."""
    return PACKED_DTYPES.get(param.dtype) or _BYTES.get(param.dtype) or (str(param.dtype),)


def storage_shape(param: KernelParam) -> tuple[Dim, ...]:
    """The shape of the torch tensor that holds ``param``: half-byte types are stored two in one element."""
    if param.dtype in PACKED_DTYPES and param.shape:
        return (*param.shape[:-1], _halved(param.shape[-1]))
    return param.shape


def storage_strides(param: KernelParam) -> tuple[Dim, ...] | None:
    """The declared strides of the torch tensor that holds ``param``, of which all but the last count bytes of 4-bit types."""
    if param.dtype in PACKED_DTYPES and param.strides:
        return (*map(_halved, param.strides[:-1]), param.strides[-1])
    return param.strides


def _halved(size: Dim) -> Dim:
    """How many bytes hold ``size`` elements of half a byte."""
    if isinstance(size, int):
        return (size + 1) // 2
    if isinstance(size, tuple) and size[0] == "mul" and isinstance(size[2], int) and size[2] % 2 == 0:
        return size[1] if size[2] == 2 else ("mul", size[1], size[2] // 2)
    return ("ceildiv", size, 2)


def logical_strides(dtype: str, strides: Sequence[int]) -> tuple[int, ...]:
    """The strides of a parameter whose torch tensor has ``strides``; see :func:`storage_strides`."""
    if dtype not in PACKED_DTYPES or not strides:
        return tuple(strides)
    return (*(stride * 2 for stride in strides[:-1]), strides[-1])


def logical_shape(dtype: str, shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a parameter whose torch tensor has ``shape``; see :func:`storage_shape`."""
    return (*shape[:-1], shape[-1] * 2) if dtype in PACKED_DTYPES and shape else tuple(shape)
