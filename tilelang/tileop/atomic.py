"""Atomic updates of tiles: ``T.atomic_add``, ``T.atomic_max`` and ``T.atomic_min`` whose operand is a tile."""

from __future__ import annotations

from tilelang.errors import CopyShapeError
from tilelang.ir.expr import same
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.tileop.base import TileOp, reads, tile_operator, updates


@tile_operator("tl.atomic_tile")
class AtomicTile(TileOp):
    """``dst[...] = op(dst[...], src[...])``, each element atomically.

    Attributes:
        op: ``"add"``, ``"max"`` or ``"min"``.
        memory_order: ``"relaxed"``, ``"acquire"``, ``"release"``, ``"acq_rel"`` or ``"seq_cst"``.
        use_tma: reduce by the tensor memory accelerator.
    """

    src: Region = reads()
    dst: Region = updates()
    op: str = "add"
    memory_order: str = "relaxed"
    use_tma: bool = False
    is_atomic = True

    @property
    def called(self) -> str:
        return f"T.atomic_{self.op}"

    def check(self) -> None:
        """Both regions must have the same extents, axes of length one aside."""
        source, target = self.src.shape, self.dst.shape
        if len(source) != len(target) or not all(map(same, source, target)):
            raise CopyShapeError(shape_text(self.src.extents), shape_text(self.dst.extents), self.called)
