"""Bulk copies of consecutive bytes (sm_90): ``T.tma_copy`` where a tensor has no descriptor, as one at an address that the kernel
reads, and of axes that are longer than a descriptor's box.

Nothing fills what lies outside of the tensor, so all of the region must certainly be inside. It starts at a multiple of 16
bytes: in an argument certainly, at an address by the program's promise, as the address itself does.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.layout import row_major
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.intrinsics.tensor_maps import ALIGNMENT
from tilelang.target.cuda.ir.instructions import BulkLoadBytes, BulkStoreBytes, CommitBulk
from tilelang.target.cuda.ir.values import Value


def linear_bytes(emitter: Emitter, outer: Region, inner: Region) -> int:
    """How many consecutive bytes a copy between a tensor and a shared tile moves; 0 where it is another one.

    Args:
        outer, inner: the sides in global and in shared memory.
    """
    sizes = [as_int(extent) for extent in inner.buffer.shape]
    if outer.dtype != inner.dtype or not all(isinstance(size, int) for size in sizes) or inner.buffer in emitter.slots:
        return 0
    if emitter.layouts.memory[inner.buffer] != row_major(sizes):
        return 0
    if not (_is_consecutive(outer) and _is_consecutive(inner) and _is_inside(emitter, outer)):
        return 0
    moved = prod(map(int, inner.extents)) * canonical(inner.dtype).stored_bits // 8
    tensor, params = emitter.root(outer.buffer), emitter.kernel.func.params
    aligned = [inner, outer] if any(tensor.same_as(param) for param in params) else [inner]
    return moved if moved % ALIGNMENT == 0 and all(_is_aligned(emitter, region) for region in aligned) else 0


def linear_load(emitter: Emitter, outer: Region, inner: Region, barrier: Value, count: int) -> list[Any]:
    """The instructions that load so many bytes; one thread runs them."""
    place, source = (emitter.places.address(region.buffer, list(region.mins)) for region in (inner, outer))
    return [BulkLoadBytes(place, source, count, barrier)]


def linear_store(emitter: Emitter, outer: Region, inner: Region, count: int) -> list[Any]:
    """The instructions that start a store of so many bytes and close its group; one thread runs them."""
    place, source = (emitter.places.address(region.buffer, list(region.mins)) for region in (outer, inner))
    return [BulkStoreBytes(place, source, count), CommitBulk()]


def _is_consecutive(region: Region) -> bool:
    """Whether a region of a compact buffer is: single indices, then a range of one axis, then whole axes."""
    axes = list(zip(region.mins, region.extents, region.buffer.shape))
    while len(axes) > 1 and as_int(axes[0][1]) == 1:
        axes = axes[1:]
    compact = not region.buffer.strides and all(isinstance(extent, int) for extent in region.extents)
    return compact and all(as_int(low) == 0 and as_int(extent) == as_int(size) for low, extent, size in axes[1:])


def _is_aligned(emitter: Emitter, region: Region) -> bool:
    bits, offset = canonical(region.dtype).stored_bits, 0
    for low, size in zip(region.mins, region.buffer.shape):
        offset = offset * size + low
    return emitter.facts.divisible(as_int(offset * bits), ALIGNMENT * 8)


def _is_inside(emitter: Emitter, region: Region) -> bool:
    last = [as_int(low + extent - 1) for low, extent in zip(region.mins, region.extents)]
    return all(emitter.places.bounds_guard(region.buffer, at) is None for at in (list(region.mins), last))
