"""Reductions over one axis: ``T.reduce_*``, ``T.finalize_reducer``."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, ReduceShapeError
from tilelang.ir.expr import same
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.tileop.base import TileOp, reads, tile_operator, updates

REDUCE_KINDS = ("sum", "max", "min", "abssum", "absmax", "bitand", "bitor", "bitxor")


def fits(shape: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two shapes are the same."""
    return len(shape) == len(other) and all(map(same, shape, other))


@tile_operator("tl.reduce")
class Reduce(TileOp):
    """``dst[...] = kind over axis dim of src[...]``; without ``clear`` the old value of ``dst`` takes part.

    ``dst`` has the extents of ``src`` without axis ``dim``; axes of length one count on neither side.

    Attributes:
        kind: one of :data:`REDUCE_KINDS`. NaN is ignored by max and min unless ``nan_propagate``.
        dim: the axis, non-negative.
    """

    src: Region = reads()
    dst: Region = updates()
    kind: str = "sum"
    dim: int = 0
    clear: bool = True
    nan_propagate: bool = False

    @property
    def called(self) -> str:
        return f"T.reduce_{self.kind}"

    def with_axis_before(self, buffers: Collection[Any]) -> Any:
        return self.replace(dim=self.dim + 1) if self.src.buffer in buffers else self

    def check(self) -> None:
        """The extents of ``dst`` must be those of ``src`` less the reduced axis; bits are those of integers."""
        for region in (self.src, self.dst):
            if self.kind.startswith("bit") and canonical(region.dtype).is_float:
                raise DtypeError(f"T.reduce_{self.kind} takes integers, {region.buffer.name} is {region.dtype}")
        kept = tuple(self.src.extents[axis] for axis in self.kept)
        if not fits(kept, self.dst.shape):
            source, target = shape_text(self.src.extents), shape_text(self.dst.extents)
            raise ReduceShapeError(self.kind, self.dim, source, target, shape_text(kept or (1,)))

    @property
    def kept(self) -> list[int]:
        """The axes of ``src`` that ``dst`` has."""
        return [axis for axis, extent in enumerate(self.src.extents) if axis != self.dim and extent != 1]


@tile_operator("tl.finalize_reducer")
class FinalizeReducer(TileOp):
    """Combines the partial values that threads hold of a reducer made by ``T.alloc_reducer``.

    Attributes:
        op: ``"sum"``, ``"max"``, ``"min"``, ``"bitand"``, ``"bitor"`` or ``"bitxor"``.
    """

    buffer: Region = updates()
    op: str = "sum"
