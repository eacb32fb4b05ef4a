"""Scans along one axis: ``T.cumsum``, ``T.cummax``."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tilelang.errors import ReduceShapeError
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.tileop.base import TileOp, reads, tile_operator, writes
from tilelang.tileop.reduce import fits


@tile_operator("tl.scan")
class Scan(TileOp):
    """Inclusive scan of ``src`` along ``dim`` into ``dst`` (which may be ``src``), from the end with ``reverse``.

    Attributes:
        kind: ``"sum"`` or ``"max"``.
    """

    src: Region = reads()
    dst: Region = writes()
    kind: str = "sum"
    dim: int = 0
    reverse: bool = False

    @property
    def called(self) -> str:
        return f"T.cum{self.kind}"

    @property
    def is_aligned(self) -> bool:
        """Whether the axes of ``dst`` are those of ``src``, also where their length is one."""
        return fits(self.src.extents, self.dst.extents)

    def with_axis_before(self, buffers: Collection[Any]) -> Any:
        return self.replace(dim=self.dim + 1) if self.src.buffer in buffers else self

    def check(self) -> None:
        """``dst`` must have the shape of ``src``."""
        if not fits(self.src.shape, self.dst.shape):
            source, target = shape_text(self.src.extents), shape_text(self.dst.extents)
            raise ReduceShapeError(f"cum{self.kind}", self.dim, source, target, source)
