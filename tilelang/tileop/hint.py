"""Hints and scoped declarations of a kernel: they never change what a program computes."""

from __future__ import annotations

from typing import Any

from tilelang.ir.region import Region
from tilelang.tileop.base import TileOp, operand, reads, tile_operator


@tile_operator("tl.annotate_layout")
class AnnotateLayout(TileOp):
    """The user's layout of one buffer.

    Attributes:
        buffer: the whole buffer.
        layout: canonical text of a :class:`tilelang.layout.Layout` or :class:`tilelang.layout.Fragment`.
    """

    buffer: Region = reads()
    layout: str = ""


@tile_operator("tl.use_swizzle")
class UseSwizzle(TileOp):
    """Rasterise blocks in panels of ``panel_size`` rows or columns, for reuse in the L2 cache.

    Attributes:
        order: ``"row"`` or ``"column"``.
    """

    panel_size: int = 10
    order: str = "row"


@tile_operator("tl.safe_value")
class SafeValue(TileOp):
    """What an out-of-bounds read of ``buffer`` gives instead of zero."""

    buffer: Region = reads()
    value: Any = operand()


@tile_operator("tl.l2_hit_ratio")
class L2HitRatio(TileOp):
    """The share of ``buffer`` to keep in the L2 cache, 0 to 1."""

    buffer: Region = reads()
    ratio: float = 1.0


@tile_operator("tl.restrict_buffers")
class RestrictBuffers(TileOp):
    """Which parameters may overlap others: ``names`` lists those that lose ``__restrict__``."""

    names: tuple[str, ...] = ()


@tile_operator("tl.max_nreg")
class MaxRegisters(TileOp):
    """Registers of a warp group.

    Attributes:
        count: registers a thread.
        change: ``"inc"``, ``"dec"``, ``"producer"`` or ``"consumer"`` (what the automatic warp specialisation gives each), or
            ``"off"`` (no reallocation at all).
    """

    count: int = 0
    change: str = "inc"


@tile_operator("tl.min_blocks_per_sm")
class MinBlocksPerSM(TileOp):
    """Blocks that must fit on one multiprocessor (launch bounds)."""

    count: int = 1
