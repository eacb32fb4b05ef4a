"""Regions: which part of a buffer a tile operator touches.

A :class:`Region` is a buffer with one ``(min, extent)`` pair an axis. In the IR it is a ``TensorRegion`` expression, which
only calls to tile operators may take as an argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, combinations
from math import prod
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.arrays import items
from tilelang.ir.expr import as_int, constant, simplify


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A box inside a buffer.

    Attributes:
        buffer: the buffer (a TVM variable of buffer type).
        mins: the first index of each axis.
        extents: the length of each axis, an ``int`` wherever it is known at compile time.
    """

    buffer: Any
    mins: tuple[Any, ...]
    extents: tuple[Any, ...]

    @staticmethod
    def whole(buffer: Any) -> Region:
        """All of ``buffer``."""
        extents = tuple(as_int(extent) for extent in buffer.shape)
        return Region(buffer, (0,) * len(extents), extents)

    @staticmethod
    def of(expr: Any) -> Region:
        """Decodes a ``TensorRegion`` argument of a tile operator call."""
        ranges = items(expr.region)
        return Region(
            expr.source,
            tuple(as_int(r.min) for r in ranges),
            tuple(as_int(r.extent) for r in ranges),
        )

    def to_expr(self) -> Any:
        """The ``TensorRegion`` expression of this region."""
        ranges = [ir.Range.from_min_extent(constant(low), constant(extent)) for low, extent in zip(self.mins, self.extents)]
        return ir.BufferRegion(self.buffer, ranges)

    @property
    def dtype(self) -> str:
        """Element type name."""
        return str(self.buffer.dtype)

    @property
    def scope(self) -> str:
        """Storage scope of the buffer: ``global``, ``shared.dyn``, ``shared``, ``local.fragment``, ``local``, ``local.var`` …"""
        return self.buffer.scope()

    @property
    def shape(self) -> tuple[Any, ...]:
        """The extents without the axes of length one: the logical shape of the tile."""
        return tuple(extent for extent in self.extents if extent != 1)

    @property
    def matrix_axes(self) -> tuple[int, int]:
        """The axes of the rows and of the columns of a matrix: those of other lengths than one. Where there are fewer than two,
        the last axes of length one complete them."""
        axes = range(len(self.extents))
        # False sorts before True: long axes first, among those of length one the last.
        first, second = sorted(axes, key=lambda axis: (bool(self.extents[axis] == 1), -axis))[:2]
        return min(first, second), max(first, second)

    @property
    def has_rows(self) -> bool:
        """Whether the rows of a matrix lie along the buffer's last axis."""
        return self.matrix_axes[1] == len(self.extents) - 1

    @property
    def has_neighbouring_rows(self) -> bool:
        """Whether nothing lies between the rows of a matrix but the rest of a row."""
        return self.matrix_axes == (len(self.extents) - 2, len(self.extents) - 1)

    @property
    def matrix_extents(self) -> tuple[Any, Any]:
        """The lengths of the :attr:`matrix_axes`."""
        rows, columns = self.matrix_axes
        return self.extents[rows], self.extents[columns]

    @property
    def is_whole(self) -> bool:
        """Whether the region provably covers its buffer."""
        return all(
            low == 0 and (extent == size if isinstance(extent, int) and isinstance(size, int) else _is_same(extent, size))
            for low, extent, size in zip(map(as_int, self.mins), self.extents, map(as_int, self.buffer.shape))
        )

    def part(self, axis: int, first: Any, count: Any) -> Region:
        """The part of the region that has only some elements of one axis.

        Args:
            axis: number of the axis.
            first: the first of the elements, counted from the region's own.
            count: how many they are.
        """
        mins, extents = list(self.mins), list(self.extents)
        mins[axis], extents[axis] = self.mins[axis] + first, count
        return Region(self.buffer, tuple(mins), tuple(extents))

    def index(self, offsets: Sequence[Any]) -> list[Any]:
        """Buffer indices of the element at ``offsets`` inside the region; one offset for each axis of :attr:`shape`."""
        remaining = iter(offsets)
        return [low if extent == 1 else low + next(remaining) for low, extent in zip(self.mins, self.extents)]

    def matrix_index(self, row: Any, column: Any) -> list[Any]:
        """Buffer indices of an element of a matrix.

        Args:
            row, column: of the element, along the :attr:`matrix_axes`.
        """
        indices, (rows, columns) = list(self.mins), self.matrix_axes
        indices[rows], indices[columns] = indices[rows] + row, indices[columns] + column
        return indices


def _is_same(a: Any, b: Any) -> bool:
    return as_int(simplify(constant(a) - b)) == 0


def are_parts(regions: Sequence[Region]) -> bool:
    """Whether regions of one buffer lie beside each other and make up all of it; of several, where all places are known."""
    if len(regions) == 1:
        return regions[0].is_whole
    boxes = [list(zip(region.mins, region.extents)) for region in regions]
    sizes = [as_int(size) for size in regions[0].buffer.shape]
    if not all(isinstance(number, int) for number in (*sizes, *chain.from_iterable(chain.from_iterable(boxes)))):
        return False
    inside = all(0 <= low and low + extent <= size for box in boxes for (low, extent), size in zip(box, sizes))
    overlap = any(all(a < b + m and b < a + n for (a, n), (b, m) in zip(*pair)) for pair in combinations(boxes, 2))
    return inside and not overlap and sum(prod(extent for _, extent in box) for box in boxes) == prod(sizes)
