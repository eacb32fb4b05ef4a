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
from tilelang.records import Record
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.intrinsics.tensor_maps import ALIGNMENT
from tilelang.target.cuda.ir.instructions import BulkLoadBytes, BulkStoreBytes, CommitBulk
from tilelang.target.cuda.ir.values import Value


class LinearPlan(Record):
    """How one copy is done.

    Attributes:
        outer, inner: its sides in global and in shared memory.
        bytes: that it moves.
    """

    outer: Region
    inner: Region
    bytes: int

    def loads(self, emitter: Emitter, op: Any, barrier: Value) -> list[Any]:
        """The instructions that load the bytes; one thread runs them."""
        return [BulkLoadBytes(_start(emitter, self.inner), _start(emitter, self.outer), self.bytes, barrier)]

    def stores(self, emitter: Emitter) -> list[Any]:
        """The instructions that start a store of the bytes and close its group; one thread runs them."""
        return [BulkStoreBytes(_start(emitter, self.outer), _start(emitter, self.inner), self.bytes), CommitBulk()]


def _start(emitter: Emitter, region: Region) -> Value:
    return emitter.places.address(region.buffer, list(region.mins))


def plan_linear(emitter: Emitter, outer: Region, inner: Region) -> LinearPlan | None:
    """The plan of a copy between a tensor (``outer``) and a shared tile; None where its bytes are not certainly consecutive."""
    sizes = [as_int(extent) for extent in inner.buffer.shape]
    if outer.dtype != inner.dtype or not all(isinstance(size, int) for size in sizes) or inner.buffer in emitter.slots:
        return None
    if emitter.layouts.memory[inner.buffer] != row_major(sizes):
        return None
    if not (_is_consecutive(outer) and _is_consecutive(inner) and _is_inside(emitter, outer)):
        return None
    moved = prod(map(int, inner.extents)) * canonical(inner.dtype).stored_bits // 8
    tensor, params = emitter.root(outer.buffer), emitter.kernel.func.params
    aligned = [inner, outer] if any(tensor.same_as(param) for param in params) else [inner]
    fits = moved > 0 and moved % ALIGNMENT == 0 and all(_is_aligned(emitter, region) for region in aligned)
    return LinearPlan(outer, inner, moved) if fits else None


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
