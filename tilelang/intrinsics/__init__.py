"""Tensor cores written by hand, at the path of earlier releases, whose swizzled tiles have two indices."""

from __future__ import annotations

from typing import Any

from tilelang.cuda import intrinsics
from tilelang.cuda.intrinsics import maps
from tilelang.dtypes import canonical
from tilelang.frontend.positions import index_to_coordinates as index_to_coordinates


def get_swizzle_layout(
    row_idx: Any, col_idx: Any, row_size: int, dtype: Any, swizzle_bytes: int | None = None
) -> tuple[Any, Any]:
    """Where the element (``row_idx``, ``col_idx``) of a shared tile lies: its row and column.

    Args:
        row_idx, col_idx: indices of the element, integers or expressions.
        row_size: elements of a row.
        dtype: element type.
        swizzle_bytes: 32, 64 or 128: chunks of 16 bytes are exchanged in it; by default the widest that divides a row.

    Returns:
        Two indices, of the types of the given ones.

    Raises:
        ShapeError: a row that no width divides.
    """
    bits = canonical(dtype).bits
    width = maps.panel_bytes(row_size * bits // 8, swizzle_bytes)
    panel, row, column = maps.get_swizzle_layout(row_idx, col_idx, row_size, dtype, width)
    return row, panel * (width * 8 // bits) + column


def __getattr__(name: str) -> Any:
    return getattr(maps if hasattr(maps, name) else intrinsics, name)
