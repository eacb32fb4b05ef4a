"""Positions of elements in row-major arrays."""

from __future__ import annotations

from typing import Any

from tilelang.errors import ShapeError


def linear_index(*args: Any) -> Any:
    """The position of an element in a row-major array: ``linear_index(i, j, k, size_j, size_k)``.

    Args:
        args: the index along each axis, then the size of each axis but the first.

    Raises:
        ShapeError: an even number of arguments.
    """
    if len(args) % 2 == 0:
        raise ShapeError(f"T.linear_index takes n indices and n - 1 sizes, got {len(args)} arguments")
    count = len(args) // 2 + 1
    position = args[0]
    for index, size in zip(args[1:count], args[count:]):
        position = position * size + index
    return position


def index_to_coordinates(index: Any, shape: Any) -> list[Any]:
    """The index along each axis of the element at position ``index`` of a row-major array of ``shape``."""
    coordinates = []
    for size in reversed(shape if isinstance(shape, (tuple, list)) else (shape,)):
        coordinates.append(index % size)
        index = index // size
    return coordinates[::-1]
