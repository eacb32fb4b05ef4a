"""``convert_layout``: the operator that brings a fragment's elements to the threads and registers of another layout."""

from __future__ import annotations

from dataclasses import dataclass

from tilelang.ir.region import Region
from tilelang.tileop.base import TileOp, reads, writes


@dataclass(frozen=True, eq=False)
class ConvertLayout(TileOp):
    """``dst = src``, elements in order; only the compiler makes one.

    In the tree it stands between whole fragments of one shape and type; read by its rule it becomes a copy, between any regions.
    """

    src: Region = reads()
    dst: Region = writes()
