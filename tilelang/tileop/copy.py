"""Movement between buffers: ``T.copy`` and its asynchronous and TMA forms, ``T.transpose``, ``T.c2d_im2col``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.errors import CopyShapeError, OperandError
from tilelang.ir.expr import same
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.tileop.base import TileOp, operand, reads, tile_operator, writes


@tile_operator("tl.copy")
class Copy(TileOp):
    """``dst[...] = src[...]``, converting the element type where they differ.

    Source elements outside their buffer read as zero (or the buffer's safe value); destination elements outside theirs are
    not written. The two regions have equal extents once axes of length one are dropped.

    Attributes:
        kind: ``"copy"`` (complete when the statement is), ``"async"`` (``T.async_copy``: complete at the user's
            ``T.ptx_wait_group``), ``"tma"`` (``T.tma_copy``: complete at the user's barrier).
        barrier: the mbarrier element (region of one element) that a ``"tma"`` load signals.
        coalesced_width: elements of one vector access, where the user fixes it.
        disable_tma: never use the tensor memory accelerator.
        eviction_policy: ``"evict_normal"``, ``"evict_first"`` or ``"evict_last"``.
        cluster_mask: multicast mask of blocks in the cluster.
        loop_layout: index map that distributes the elements over the threads.
    """

    src: Region = reads()
    dst: Region = writes()
    barrier: Any = operand(default=None)
    kind: str = "copy"
    coalesced_width: int | None = None
    disable_tma: bool = False
    eviction_policy: str | None = None
    cluster_mask: int | None = None
    loop_layout: Any = None

    def check(self) -> None:
        """Both regions must have the same extents, axes of length one aside."""
        source, target = self.src.shape, self.dst.shape
        if len(source) != len(target) or not all(map(same, source, target)):
            remedy = _with_slice(self.src, self.dst) or _with_slice(self.dst, self.src)
            raise CopyShapeError(shape_text(self.src.extents), shape_text(self.dst.extents), remedy=remedy)


def _with_slice(region: Region, other: Region) -> str | None:
    """What to write where a slice in place of one index would make a region as large as another."""
    if not all(isinstance(size, int) for size in (*region.extents, *other.extents)):
        return None
    for axis, (extent, wanted) in enumerate(zip(reversed(region.extents), reversed(other.extents)), 1):
        longer = [*region.extents[:-axis], wanted, *region.extents[len(region.extents) - axis + 1 :]]
        if extent == 1 and wanted != 1 and [size for size in longer if size != 1] == list(other.shape):
            place = len(region.extents) - axis
            return f"an index beside a slice is one element; axis {place} of {region.buffer.name} needs x : x + {wanted}"
    return None


@tile_operator("tl.transpose")
class Transpose(TileOp):
    """``dst[..., j, i] = src[..., i, j]``: the last two axes exchanged, axes of length one left out.

    Attributes:
        exchanged: whether both axes are left; without one of them the elements keep their order.
    """

    src: Region = reads()
    dst: Region = writes()
    exchanged: bool = True

    def check(self) -> None:
        """The extents must agree with the last two exchanged, axes of length one aside."""
        source, target = self.src.shape, self.source_offsets(self.dst.shape)
        if len(source) != len(target) or not all(map(same, source, target)):
            raise CopyShapeError(shape_text(self.src.extents), shape_text(self.dst.extents), "T.transpose")
        if self.exchanged and self.src.buffer == self.dst.buffer and all(map(same, self.src.mins, self.dst.mins)):
            raise OperandError(
                "T.transpose: the destination is the source itself, whose elements are read after others are written"
            )

    def source_offsets(self, offsets: Sequence[Any]) -> list[Any]:
        """The offsets in the source for those in the destination, axes of length one left out of both."""
        return [*offsets[:-2], *reversed(offsets[-2:])] if self.exchanged else list(offsets)


@tile_operator("tl.c2d_im2col")
class Im2Col(TileOp):
    """A tile of the im2col matrix of an NHWC image.

    ``col[m, k]`` takes the input pixel of output position ``nhw_step * rows + m`` (counted over N, OH, OW) under filter
    position and channel ``c_step * columns + k`` (counted over KH, KW, C); pixels in the padding are zero.

    Attributes:
        kernel: filter height and width; stride, dilation, pad: as in a square convolution.
    """

    img: Region = reads()
    col: Region = writes()
    nhw_step: Any = operand()
    c_step: Any = operand()
    kernel: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0


@tile_operator("tl.fill")
class Fill(TileOp):
    """``dst[...] = value`` converted to the element type; ``T.clear`` fills with zero."""

    dst: Region = writes()
    value: Any = operand()
