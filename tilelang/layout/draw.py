"""Layouts as text: which thread and register, or which offset, holds each element."""

from __future__ import annotations

from typing import Any

from tilelang.errors import LayoutError
from tilelang.layout.fragment import FragmentLayout


def draw(layout: Any) -> str:
    """A table of a two-dimensional layout: ``T3:1`` is thread 3, register 1; a number is an offset in memory.

    Raises:
        LayoutError: the layout is not two-dimensional.
    """
    if len(layout.shape) != 2:
        raise LayoutError(f"only two-dimensional layouts can be drawn, this one has {len(layout.shape)} axes")
    rows, columns = layout.shape
    cells = [[_cell(layout, row, column) for column in range(columns)] for row in range(rows)]
    width = max(len(cell) for row in cells for cell in row)
    return "\n".join(" ".join(cell.rjust(width) for cell in row) for row in cells)


def _cell(layout: Any, row: int, column: int) -> str:
    if isinstance(layout, FragmentLayout):
        thread, register = layout.locate((row, column))
        return f"T{thread}:{register}"
    return str(layout.offset((row, column)))
