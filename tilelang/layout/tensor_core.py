"""The 8x8 fragment that tensor-core registers are made of, and the plain order of a tile."""

from __future__ import annotations

from typing import Any

from tilelang.layout.fragment import Fragment, FragmentLayout
from tilelang.layout.memory import TileLayout, row_major


def _place_8x8(i: int, j: int) -> tuple[int, int]:
    """The thread and the register of an element."""
    return i * 4 + j // 2, j % 2


def make_gemm_fragment_8x8() -> FragmentLayout:
    """An 8x8 matrix as ``ldmatrix`` and ``mma`` hold it: lane ``4 i + j / 2`` has (i, j), two columns a lane."""
    return Fragment((8, 8), _place_8x8)


def make_gemm_fragment_8x8_transposed() -> FragmentLayout:
    """:func:`make_gemm_fragment_8x8` of the transposed matrix."""
    return Fragment((8, 8), lambda *index: _place_8x8(index[1], index[0]))


def make_linear_layout(buffer_or_load_or_region: Any) -> TileLayout:
    """The row-major layout of a buffer, or of anything with ``shape``."""
    return row_major([int(extent) for extent in buffer_or_load_or_region.shape])
