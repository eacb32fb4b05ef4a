"""Questions that helpers of kernels ask about buffers, elements and slices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tilelang.dtypes import DType, canonical
from tilelang.frontend.access import as_region
from tilelang.ir.expr import same


def _scope(value: Any) -> str:
    return as_region(value).scope


def is_global(value: Any) -> bool:
    """Whether it lies in global memory."""
    return _scope(value) in ("", "global")


def is_shared(value: Any, allow_dynamic: bool = True) -> bool:
    """Whether it lies in shared memory, all of which is dynamic here."""
    return allow_dynamic and is_shared_dynamic(value)


def is_shared_dynamic(value: Any) -> bool:
    """Whether it lies in shared memory."""
    return _scope(value) in ("shared", "shared.dyn")


def is_tensor_memory(value: Any) -> bool:
    """Whether it lies in tensor memory."""
    return _scope(value) == "shared.tmem"


def is_local(value: Any) -> bool:
    """Whether it is an array of each thread."""
    return _scope(value) == "local"


def is_local_var(value: Any) -> bool:
    """Whether it is a ``T.alloc_var``."""
    return _scope(value) == "local.var"


def is_fragment(value: Any) -> bool:
    """Whether it is a tile in the block's registers."""
    return _scope(value) == "local.fragment"


def get_buffer_elems(buffer: Any) -> Any:
    """How many elements a buffer has."""
    return prod(buffer.shape)


def array_reduce(array: Sequence[Any]) -> Any:
    """The product of numbers."""
    return prod(array)


def retrieve_shape(value: Any) -> list[Any]:
    """The extents of a buffer or slice; of an element, ones."""
    return list(as_region(value).extents)


def retrieve_stride(value: Any) -> list[Any]:
    """The distances between elements along each axis of the buffer, in elements."""
    buffer = as_region(value).buffer
    return list(buffer.strides) or [prod(list(buffer.shape)[axis + 1 :]) for axis in range(len(buffer.shape))]


def retrieve_offset(value: Any) -> list[Any]:
    """The first index of each axis."""
    return list(as_region(value).mins)


def retrieve_dtype(value: Any) -> DType:
    """The element type."""
    return canonical(as_region(value).dtype)


def prim_expr_equal(left: Any, right: Any) -> bool:
    """Whether two sizes are provably equal."""
    return same(left, right)
