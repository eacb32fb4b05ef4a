"""Tensor cores written by hand: layouts of shared tiles and registers, and emitters of products."""

from __future__ import annotations

from tilelang.attributes import attributes
from tilelang.cuda.intrinsics.maps import (
    get_ldmatrix_offset,
    get_mma_micro_size,
    get_swizzle_layout,
    make_mma_swizzle_layout,
    mma_store_index_map,
)

__all__ = [
    "TensorCoreIntrinEmitter", "TensorCoreIntrinEmitterWithLadderTransform", "TransformKind", "get_ldmatrix_offset",
    "get_mma_micro_size", "get_swizzle_layout", "make_mma_swizzle_layout", "mma_store_index_map",
]  # fmt: skip

_EMITTERS = "TensorCoreIntrinEmitter TensorCoreIntrinEmitterWithLadderTransform TransformKind"

__getattr__ = attributes(__name__, {"tilelang.cuda.intrinsics.emitter": _EMITTERS})
