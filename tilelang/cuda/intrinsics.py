"""Layouts of shared tiles for programs that feed tensor cores themselves."""

from __future__ import annotations

from typing import Any

from tilelang.layout import TileLayout, make_swizzled_layout


def make_mma_swizzle_layout(shared_buf: Any, is_smooth: bool = False) -> TileLayout:
    """The layout under which ``ldmatrix`` reads a shared tile without bank conflicts.

    Args:
        shared_buf: a shared buffer.
        is_smooth: accepted for compatibility.
    """
    return make_swizzled_layout(shared_buf)
