"""Moving data: ``T.copy`` and its forms, ``T.transpose``, ``T.c2d_im2col``, ``T.fill``, ``T.clear``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from itertools import dropwhile
from typing import Any

from tilelang.errors import CopyShapeError, OperandError, ShapeError
from tilelang.frontend.access import anchored_region, as_region, assign_subscript, is_anchor
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.conversion import convert
from tilelang.frontend.tiles import Part, Slice, StridedSlice, as_tile, assign, own_axes
from tilelang.frontend.values import as_expr
from tilelang.ignored import ignored
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, same
from tilelang.ir.memory import is_global, is_local
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.language.math import And, if_then_else
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose
from tilelang.tileop.reduce import fits


def _pair(src: Any, dst: Any, what: str) -> tuple[Region, Region]:
    """Both regions of a copy; an element on one side takes the other side's extents, a tensor's end those of a longer tile."""
    if is_anchor(src) and not is_anchor(dst):
        target = as_region(dst, what)
        return anchored_region(src, target.extents, what), target
    if is_anchor(dst) and not is_anchor(src):
        source = as_region(src, what)
        return source, anchored_region(dst, source.extents, what)
    source, target = as_region(src, what), as_region(dst, what)
    source = _padded(source, target)
    return source, _padded(target, source)


def _padded(part: Region, tile: Region) -> Region:
    """A tensor, or a slice of one, with the lengths of a tile that is longer where the slice ends with the tensor.

    The programs that pad a tile mean this: ``T.copy(A[i : i + 64, :], tile)``, of 40 columns to 48.
    """
    if not is_global(part) or is_global(tile) or len(part.shape) != len(tile.shape):
        return part
    lengths = iter(tile.shape)
    others = [extent if extent == 1 else next(lengths) for extent in part.extents]
    wanted = [_common(*axis) for axis in zip(part.mins, part.extents, others, map(as_int, part.buffer.shape))]
    return part if any(length is None for length in wanted) else Region(part.buffer, part.mins, tuple(wanted))


def _common(low: Any, extent: Any, length: Any, size: Any) -> Any:
    """The length of a range that is copied to or from one of another length: that one, if it is longer and the range ends with
    its axis; the range's own where they are equal, or one is known at run time only; None where they must not differ.

    Args:
        low: the first index.
        extent: the range's length.
        length: the other one.
        size: of the axis.
    """
    if same(extent, length) or isinstance(extent, int) != isinstance(length, int):
        return extent
    is_known = all(isinstance(value, int) for value in (low, extent, length, size))
    return length if is_known and low + extent == size < low + length else None


def _is_clipped(source: Region, target: Region) -> bool:
    """Whether one side has run-time extents where the other's are fixed."""
    pairs = list(zip(source.shape, target.shape))
    return len(source.shape) == len(target.shape) and any(isinstance(a, int) != isinstance(b, int) for a, b in pairs)


def _clipped(source: Region, target: Region) -> None:
    """The copy as a nest over the fixed extents: what is beyond the source's reads as zero, beyond the target's stays."""
    from tilelang.language.loops import Parallel

    builder = require_kernel("T.copy")
    pairs = list(zip(source.shape, target.shape))
    if any(isinstance(a, int) == isinstance(b, int) and not same(a, b) for a, b in pairs):
        raise CopyShapeError(shape_text(source.extents), shape_text(target.extents))
    fixed = [a if isinstance(a, int) else b for a, b in pairs]
    frame, indices = replace(Parallel(*fixed), many=True).open(builder, ("row", "column") if len(fixed) == 2 else ())
    span = builder.span()
    readable = [index < a for index, (a, b) in zip(indices, pairs) if isinstance(b, int) and not isinstance(a, int)]
    writable = [index < b for index, (a, b) in zip(indices, pairs) if isinstance(a, int) and not isinstance(b, int)]
    value = convert(ir.BufferLoad(source.buffer, list(map(as_expr, source.index(indices)))), target.dtype)
    if readable:
        value = if_then_else(reduce(And, readable), value, as_expr(0, target.dtype))
    store = ir.BufferStore(target.buffer, value, list(map(as_expr, target.index(indices))), span)
    builder.emit(ir.IfThenElse(reduce(And, writable), store, None, span) if writable else store)
    builder.close(frame)


def _copy_elements(src: Any, dst: Any) -> None:
    """The copy between slices of which one has steps."""
    target = as_tile(dst)
    if not isinstance(target, Part) or as_tile(src) is None:
        raise OperandError("T.copy: beside a slice with steps the other side is a buffer or a slice", hint="write both ranges")
    assign(target, src)


def copy(
    src: Any,
    dst: Any,
    *,
    coalesced_width: int | None = None,
    disable_tma: bool = False,
    eviction_policy: str | None = None,
    prefer_instruction: str | None = None,
    load_cache_policy: str | None = None,
    store_cache_policy: str | None = None,
    annotations: Mapping[str, Any] | None = None,
    loop_layout: Any = None,
) -> None:
    """Copies a tile between any two memories, converting its element type.

    ``src`` and ``dst`` are buffers, slices (``A[i:i + 64, :]``), or an element where a region starts, its extents taken from
    the other side (``T.copy(A[by * 64, k * 32], A_shared)``). What lies outside of the source reads as zero, what lies
    outside of the destination is not written. A slice whose length is only known at run time may be copied to or from a tile
    of fixed size, and one that ends with its tensor, or a whole tensor, to or from a longer tile: the rest of the tile is
    zero, or is not written. Between two elements in a ``T.Parallel`` it is an assignment.

    Args:
        src, dst: the regions, as above.
        coalesced_width: elements of one vector access.
        disable_tma: do not use the tensor memory accelerator.
        eviction_policy: how long L2 keeps what TMA moved: ``"evict_normal"``, ``"evict_first"`` or ``"evict_last"``.
        prefer_instruction: any name but ``"tma"`` is the same as ``disable_tma``.
        load_cache_policy, store_cache_policy, annotations: have no effect; a value warns.
        loop_layout: a ``T.Fragment`` that distributes the elements over the threads.

    Raises:
        CopyShapeError: the extents differ (axes of length one aside).
    """
    ignored("T.copy", load_cache_policy=load_cache_policy, store_cache_policy=store_cache_policy, annotations=annotations)
    if isinstance(src, StridedSlice) or isinstance(dst, StridedSlice):
        _copy_elements(src, dst)
        return
    if require_kernel("T.copy").parallel and is_anchor(src) and is_anchor(dst):
        # A place: what it holds now, wherever the program has written it.
        assign_subscript(dst.source, tuple(dst.indices), ir.BufferLoad(src.source, list(src.indices), src.span))
        return
    source, target = _pair(src, dst, "T.copy")
    if _is_clipped(source, target):
        _clipped(source, target)
        return
    layout = None if loop_layout is None else loop_layout.to_text()
    disable_tma = disable_tma or (prefer_instruction is not None and prefer_instruction != "tma")
    require_kernel("T.copy").perform(
        Copy(source, target, coalesced_width=coalesced_width, disable_tma=disable_tma, eviction_policy=eviction_policy,
             loop_layout=layout)
    )  # fmt: skip


def async_copy(
    src: Any, dst: Any, *, coalesced_width: int | None = None, annotations: Any = None, loop_layout: Any = None
) -> None:
    """A copy from global to shared memory, a group of its own, that is complete after ``T.ptx_wait_group``; on the CPU, at once.

    Args:
        src: a region of global memory, as for :func:`copy`.
        dst: a region of shared memory.
        coalesced_width, loop_layout: as for :func:`copy`.
        annotations: has no effect; a value warns.

    Raises:
        CopyShapeError: the extents differ (axes of length one aside).
    """
    ignored("T.async_copy", annotations=annotations)
    source, target = _pair(src, dst, "T.async_copy")
    layout = None if loop_layout is None else loop_layout.to_text()
    require_kernel("T.async_copy").perform(
        Copy(source, target, kind="async", coalesced_width=coalesced_width, loop_layout=layout)
    )


def tma_copy(
    src: Any,
    dst: Any,
    *,
    barrier: Any = None,
    cluster_mask: int | None = None,
    leader_scope_threads: int | None = None,
    eviction_policy: str | None = None,
    annotations: Any = None,
) -> None:
    """A copy by the tensor memory accelerator.

    Args:
        src, dst: regions as for :func:`copy`, one in global and one in shared memory.
        barrier: the mbarrier (an element of ``T.alloc_barrier``) that a load to shared memory completes on; a store from
            shared memory is complete after ``T.tma_store_wait``.
        cluster_mask: blocks of the cluster that receive the tile, at the same place of their shared memory. All of them run the
            copy, the lowest one loads, and each expects the bytes at its own ``barrier``.
        leader_scope_threads: has no effect; a value warns.
        eviction_policy: as for :func:`copy`.
        annotations: has no effect; a value warns.

    Raises:
        CopyShapeError: the extents differ (axes of length one aside).
    """
    ignored("T.tma_copy", leader_scope_threads=leader_scope_threads, annotations=annotations)
    source, target = _pair(src, dst, "T.tma_copy")
    signal = None if barrier is None else as_region(barrier, "T.tma_copy")
    require_kernel("T.tma_copy").perform(
        Copy(source, target, signal, kind="tma", cluster_mask=cluster_mask, eviction_policy=eviction_policy)
    )


def transpose(src: Any, dst: Any, annotations: Any = None) -> None:
    """``dst[..., j, i] = src[..., i, j]``: the last two axes of a tile exchanged.

    Args:
        src: a tile of shape (…, M, N), in any memory.
        dst: a tile of shape (…, N, M).
        annotations: has no effect; a value warns.

    Raises:
        CopyShapeError: the shapes do not fit.
    """
    ignored("T.transpose", annotations=annotations)
    source, target = as_region(src, "T.transpose"), as_region(dst, "T.transpose")
    lengths, wanted = _matrices(source), _matrices(target)
    if len(lengths) < 2 or not fits(lengths, [*wanted[:-2], *reversed(wanted[-2:])]):
        raise CopyShapeError(shape_text(source.extents), shape_text(target.extents), "T.transpose")
    require_kernel("T.transpose").perform(Transpose(source, target, 1 not in lengths[-2:]))


def _matrices(region: Region) -> list[Any]:
    """The lengths of a region as a value, of two axes at least; more in front only where they are not one."""
    axes = own_axes(region)
    lengths = [region.extents[axis] for axis in (axes if len(axes) > 1 else range(len(region.extents)))]
    return [*dropwhile(lambda length: length == 1, lengths[:-2]), *lengths[-2:]]


def c2d_im2col(
    img: Any,
    col: Any,
    nhw_step: Any,
    c_step: Any,
    kernel: int,
    stride: int,
    dilation: int,
    pad: int,
    eviction_policy: str | None = None,
    annotations: Any = None,
) -> None:
    """Loads a tile of the im2col matrix of an NHWC image.

    Row ``r`` of the matrix is an output position (counted over N, OH, OW), column ``c`` a filter position and channel
    (counted over KH, KW, C); the tile ``col`` of shape (rows, columns) starts at row ``nhw_step * rows`` and column
    ``c_step * columns``. Pixels in the padding are zero.

    Args:
        img: the image, a tensor of shape (N, H, W, C) in global memory.
        col: the tile, (rows, columns) in shared memory or a fragment.
        nhw_step, c_step: the tile's place in the matrix, counted in tiles.
        kernel, stride, dilation, pad: of the square convolution, in pixels.
        eviction_policy, annotations: have no effect; a value warns.

    Raises:
        CompileError: ``img`` has not four axes, or ``col`` not two; ``img`` is a tile, or part of a tensor.
    """
    ignored("T.c2d_im2col", eviction_policy=eviction_policy, annotations=annotations)
    image, tile = as_region(img, "T.c2d_im2col"), as_region(col, "T.c2d_im2col")
    if len(image.extents) != 4 or len(tile.extents) < 2 or sum(as_int(extent) != 1 for extent in tile.extents) > 2:
        raise ShapeError("T.c2d_im2col takes a 4-D image (N, H, W, C) and a 2-D tile")
    if not is_global(image) or not image.is_whole:
        given = f"part of {image.buffer.name}" if is_global(image) else f"the tile {image.buffer.name}"
        raise OperandError(f"T.c2d_im2col reads a whole tensor, got {given}", hint="nhw_step counts over its images")
    require_kernel("T.c2d_im2col").perform(
        Im2Col(image, tile, as_expr(nhw_step), as_expr(c_step), kernel=int(kernel), stride=int(stride),
               dilation=int(dilation), pad=int(pad))
    )  # fmt: skip


im2col = c2d_im2col


def _fill(what: str, buffer: Any, value: Any) -> None:
    target = as_region(buffer, what)
    value = convert(as_expr(value, target.dtype), target.dtype)
    builder = require_kernel(what)
    if builder.parallel and is_local(target):
        # The array of a thread is the iteration's own, which sets all elements.
        assign(Slice(target.buffer, target.mins, target.extents, tuple(range(len(target.extents)))), value)
    else:
        builder.perform(Fill(target, value))


def fill(buffer: Any, value: Any, annotations: Any = None) -> None:
    """Sets every element of a buffer or slice to ``value``.

    Args:
        buffer: a region of any memory.
        value: a scalar; converted to the type of the elements.
        annotations: has no effect; a value warns.
    """
    ignored("T.fill", annotations=annotations)
    _fill("T.fill", buffer, value)


def clear(buffer: Any, annotations: Any = None) -> None:
    """Sets every element of a buffer or slice to zero."""
    ignored("T.clear", annotations=annotations)
    _fill("T.clear", buffer, 0)
