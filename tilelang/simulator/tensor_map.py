"""Tensor maps: the 128-byte descriptors of bulk tensor copies, encoded without a driver."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tilelang.errors import SimulatorArgumentError
from tilelang.simulator import native
from tilelang.tensor_maps import DATA_TYPES, SWIZZLES, TRANSPORTS

if TYPE_CHECKING:
    import torch

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
        dtype: name in :data:`~tilelang.tensor_maps.DATA_TYPES`; default the tensor's.

    Returns:
        The map, which keeps the tensor alive.

    Raises:
        SimulatorArgumentError: the driver would refuse the map.
    """
    name = dtype or str(tensor.dtype).removeprefix("torch.")
    name = name if name in DATA_TYPES else TRANSPORTS.get(name, name)
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
