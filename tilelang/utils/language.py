"""Questions that helpers of kernels ask about buffers, elements and slices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilelang.dtypes import DType, canonical
from tilelang.frontend.access import as_region
from tilelang.frontend.positions import index_to_coordinates as index_to_coordinates
from tilelang.frontend.positions import linear_index as linear_index
from tilelang.ir import memory
from tilelang.ir.expr import same
from tilelang.ir.region import Region


def is_global(buffer: Any) -> bool:
    """Whether it lies in global memory."""
    return memory.is_global(as_region(buffer))


def is_shared(buffer: Any, allow_dynamic: bool = True) -> bool:
    """Whether it lies in shared memory, all of which is dynamic here."""
    return allow_dynamic and is_shared_dynamic(buffer)


def is_shared_dynamic(buffer: Any) -> bool:
    """Whether it lies in shared memory."""
    return memory.is_shared(as_region(buffer))


def is_tensor_memory(buffer: Any) -> bool:
    """Whether it lies in tensor memory."""
    return as_region(buffer).scope == memory.TENSOR_MEMORY


def is_local(buffer: Any) -> bool:
    """Whether it is an array of each thread."""
    return memory.is_array(as_region(buffer))


def is_local_var(buffer: Any) -> bool:
    """Whether it is a ``T.alloc_var``."""
    return memory.is_variable(as_region(buffer))


def is_fragment(buffer: Any) -> bool:
    """Whether it is a tile in the block's registers."""
    return memory.is_fragment(as_region(buffer))


def get_buffer_elems(buffer: Any) -> Any:
    """How many elements a buffer has."""
    return prod(buffer.shape)


def array_reduce(array: Sequence[Any]) -> Any:
    """The product of numbers."""
    return prod(array)


def retrieve_shape(obj: Any) -> list[Any]:
    """The extents of a buffer or slice; of an element, ones."""
    return list(as_region(obj).extents)


def retrieve_stride(obj: Any) -> list[Any]:
    """The distances between elements along each axis of the buffer, in elements."""
    buffer = as_region(obj).buffer
    return list(buffer.strides) or [prod(list(buffer.shape)[axis + 1 :]) for axis in range(len(buffer.shape))]


def retrieve_offset(obj: Any) -> list[Any]:
    """The first index of each axis."""
    return list(as_region(obj).mins)


def retrieve_dtype(obj: Any) -> DType:
    """The element type."""
    return canonical(as_region(obj).dtype)


def prim_expr_equal(left: Any, right: Any) -> bool:
    """Whether two sizes are provably equal."""
    return same(left, right)


def to_buffer_region(obj: Any, access_type: str = "rw", extents: Sequence[Any] | None = None) -> Any:
    """A buffer, slice or element as a region of its buffer.

    Args:
        obj: what to take.
        access_type: accepted for compatibility; operators say themselves what they do.
        extents: of the region, in place of those of ``obj``; missing first axes have one element.

    Returns:
        The region, which operators take.
    """
    region = as_region(obj)
    if extents is None:
        return region.to_expr()
    ones = (1,) * (len(region.extents) - len(extents))
    return Region(region.buffer, region.mins, (*ones, *extents)).to_expr()


def get_buffer_region_from_load(buffer_load: Any, extents: Sequence[Any] | None = None) -> Any:
    """The region of a slice or element; see :func:`to_buffer_region`."""
    return to_buffer_region(buffer_load, extents=extents)


def get_extent(data: Any) -> list[Any]:
    """The lengths of a buffer, slice or element, as :func:`retrieve_shape` gives them."""
    return retrieve_shape(data)


def is_full_region(buffer_region: Any) -> bool:
    """Whether a slice is all of its buffer."""
    return as_region(buffer_region).is_whole


def get_prim_func_name(func: Any, default: str | None = None) -> str | None:
    """The name of a traced program; ``default`` where there is none."""
    attributes = getattr(func, "attrs", None) or {}
    return str(attributes["global_symbol"]) if "global_symbol" in attributes else default
