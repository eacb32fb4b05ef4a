"""Tensor maps: the 128-byte descriptors of bulk tensor copies, encoded without a driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.errors import SimulatorArgumentError
from tilelang.simulator import native

if TYPE_CHECKING:
    import torch

#: CUtensorMapDataType by dtype name (CUDA driver API).
DATA_TYPES = {
    "uint8": 0, "uint16": 1, "uint32": 2, "int32": 3, "uint64": 4, "int64": 5, "float16": 6, "float32": 7, "float64": 8,
    "bfloat16": 9, "float32_ftz": 10, "tfloat32": 11, "tfloat32_ftz": 12,
}  # fmt: skip
#: Types that a map transports as bytes of the same width.
_CARRIED = {"int8": "uint8", "bool": "uint8", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8", "int16": "uint16"}
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
L2_PROMOTIONS = {0: 0, 64: 1, 128: 2, 256: 3}
FILLS = {"zero": 0, "nan": 1}


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A kernel argument: 128 opaque bytes and the tensor they point into."""

    encoded: bytes
    tensor: torch.Tensor


def encode_tensor_map(
    tensor: torch.Tensor,
    box: Sequence[int],
    *,
    shape: Sequence[int] | None = None,
    strides: Sequence[int] | None = None,
    element_strides: Sequence[int] | None = None,
    swizzle: int = 0,
    l2_promotion: int = 0,
    fill: str = "zero",
    dtype: str | None = None,
) -> TensorMap:
    """Encodes a tiled tensor map as cuTensorMapEncodeTiled does.

    Args:
        tensor: CPU tensor of 1 to 5 axes; the innermost axis must be contiguous.
        box: extents of the copied box, outermost axis first like ``tensor.shape``.
        shape: extents seen by the map, outermost first; default ``tensor.shape``.
        strides: in elements, outermost first; default ``tensor.stride()``.
        element_strides: traversal strides, outermost first; default all 1.
        swizzle: bytes of the swizzle pattern: 0, 32, 64 or 128.
        l2_promotion: bytes: 0, 64, 128 or 256.
        fill: value of elements out of bounds, ``"zero"`` or ``"nan"``.
        dtype: name in :data:`DATA_TYPES`; default the tensor's.

    Raises:
        SimulatorArgumentError: the driver would refuse the map.
    """
    name = dtype or str(tensor.dtype).removeprefix("torch.")
    name = _CARRIED.get(name, name)
    for what, value, known in (("dtype", name, DATA_TYPES), ("swizzle", swizzle, SWIZZLES),
                               ("l2_promotion", l2_promotion, L2_PROMOTIONS), ("fill", fill, FILLS)):  # fmt: skip
        if value not in known:
            raise SimulatorArgumentError(f"tensor map: unknown {what} {value!r}", f"known: {', '.join(map(str, known))}")
    extents = list(shape if shape is not None else tensor.shape)
    steps = list(strides if strides is not None else tensor.stride())
    if not len(extents) == len(steps) == len(box):
        raise SimulatorArgumentError("tensor map: shape, strides and box must have one entry per axis")
    if steps[-1] != 1:
        raise SimulatorArgumentError("tensor map: the innermost axis must be contiguous")
    traversal = list(element_strides if element_strides is not None else [1] * len(extents))
    step_bytes = [step * tensor.element_size() for step in steps[:-1]]
    try:
        encoded = native.function("encode_tensor_map_tiled")(
            DATA_TYPES[name], tensor.data_ptr(), extents[::-1], step_bytes[::-1], list(box)[::-1], traversal[::-1],
            0, SWIZZLES[swizzle], L2_PROMOTIONS[l2_promotion], FILLS[fill],
        )  # fmt: skip
    except ValueError as error:
        raise SimulatorArgumentError(str(error)) from None
    return TensorMap(bytes(encoded), tensor)
