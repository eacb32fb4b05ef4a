"""Arrays whose elements are vectors, ``T.alloc_local((n,), "float16x2")``: scalar buffers with one axis more.

No later stage knows vectors (see :mod:`tilelang.frontend.lanes`): an element is read and written as all lanes of the last axis,
and whatever takes a buffer takes the scalar one.
"""

from __future__ import annotations

from typing import Any

from tilelang.dtypes import DType, canonical, vector
from tilelang.frontend.access import assign_subscript, subscript
from tilelang.frontend.values import BufferLike
from tilelang.ir import nodes as ir


class VectorArray(BufferLike):
    """An array of vectors.

    Attributes:
        buffer: the scalar buffer; its last axis runs over the lanes.
    """

    __slots__ = ("buffer",)

    def __init__(self, buffer: Any):
        self.buffer = buffer

    @property
    def dtype(self) -> DType:
        """The vector type."""
        return vector(canonical(str(self.buffer.dtype)).base, self._lanes)

    @property
    def shape(self) -> tuple[Any, ...]:
        """How many vectors there are along each axis."""
        return tuple(self.buffer.shape)[:-1]

    @property
    def name(self) -> str:
        """The array's name in messages."""
        return self.buffer.name

    @property
    def _lanes(self) -> int:
        return int(self.buffer.shape[-1])

    def __getitem__(self, key: Any) -> Any:
        return subscript(self.buffer, self._place(key))

    def __setitem__(self, key: Any, value: Any) -> None:
        assign_subscript(self.buffer, self._place(key), value)

    def _place(self, key: Any) -> tuple[Any, ...]:
        """The subscript of the scalar buffer; a slice of the array keeps whole vectors."""
        items = key if isinstance(key, tuple) else (key,)
        if len(items) != len(self.buffer.shape) - 1 or any(isinstance(item, slice) or item is ... for item in items):
            return items
        return *items, ir.Ramp(ir.IntImm("int32", 0), ir.IntImm("int32", 1), self._lanes)


def declared_sizes(sizes: list[Any], dtype: DType) -> list[Any]:
    """The sizes of the buffer that holds elements of ``dtype``."""
    return sizes if dtype.lanes == 1 else [*sizes, dtype.lanes]


def typed(buffer: Any, dtype: DType) -> Any:
    """The object by which a program accesses a buffer of elements of ``dtype``."""
    return buffer if dtype.lanes == 1 else VectorArray(buffer)
