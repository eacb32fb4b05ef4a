"""Movement: ``T.copy`` (all its forms), ``T.transpose``, ``T.c2d_im2col``, ``T.fill``.

A copy that is in bounds for every block is a plain loop nest. One that may leave a global buffer tests once whether this
block's tile is an interior one, and takes the plain nest there; only edge tiles pay for a guard on each element.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import conjunction
from tilelang.target.cpu.emit import cast, nest, no_op, when, zero
from tilelang.target.cpu.guards import if_then_else
from tilelang.target.cpu.lower import Scope, rule
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose


def box_condition(region: Region, scope: Scope) -> Any:
    """The condition that all of ``region`` lies in its buffer, or None where that is proved or the buffer is not global."""
    if not is_global(region):
        return None
    parts = []
    for low, extent, size in zip(region.mins, region.extents, region.buffer.shape):
        first, end = constant(low) >= 0, constant(low) + constant(extent) <= size
        parts += [None if scope.facts.holds(condition) else condition for condition in (first, end)]
    return conjunction(parts)


def element_condition(region: Region, indices: Sequence[Any], scope: Scope) -> Any:
    """The condition that one element of ``region`` lies in its buffer; axes that the whole region cannot leave are left out.

    Args:
        region: the region that is accessed.
        indices: the element, as indices into the region's buffer.
        scope: what is known of the program here.
    """
    if not is_global(region):
        return None
    parts = []
    for low, extent, size, index in zip(region.mins, region.extents, region.buffer.shape, indices):
        first, end = constant(low) >= 0, constant(low) + constant(extent) <= size
        parts += [
            None if scope.facts.holds(first) else constant(index) >= 0,
            None if scope.facts.holds(end) else constant(index) < size,
        ]
    return conjunction(parts)


def element_loop(src: Region, dst: Region, scope: Scope, permute: Any = None) -> Any:
    """``dst[...] = src[...]`` over all elements, ``permute`` giving the source's offsets from the destination's.

    Args:
        src: the source.
        dst: the destination; the loops run over its axes.
        scope: what is known of the program here.
        permute: gives the source's offsets for those in the destination; None where they are the same.
    """

    def plain(offsets: list[Any]) -> Any:
        return copied(src, dst, offsets, permute)

    def guarded(offsets: list[Any]) -> Any:
        source, target = src.index(permute(offsets) if permute else offsets), dst.index(offsets)
        value: Any = ir.BufferLoad(src.buffer, source)
        readable = element_condition(src, source, scope)
        if readable is not None:
            value = if_then_else(readable, value, scope.safe_value(src.buffer))
        return when(element_condition(dst, target, scope), ir.BufferStore(dst.buffer, cast(value, dst.dtype), target))

    extents = dst.shape
    interior = conjunction((box_condition(src, scope), box_condition(dst, scope)))
    if interior is None:
        return nest(extents, plain)
    return ir.IfThenElse(interior, nest(extents, plain), nest(extents, guarded))


def copied(src: Region, dst: Region, offsets: Sequence[Any], permute: Any = None) -> Any:
    """The copy of one element, at ``offsets`` in the destination.

    Args:
        src, dst: the regions.
        offsets: of the element, counted from the first of the destination.
        permute: as for :func:`element_loop`.
    """
    source = src.index(permute(offsets) if permute else offsets)
    return ir.BufferStore(dst.buffer, cast(ir.BufferLoad(src.buffer, source), dst.dtype), dst.index(offsets))


@rule(Copy)
def lower_copy(record: Copy, scope: Scope) -> Any:
    """Element by element; asynchronous and TMA copies are complete when the statement is."""
    stored = scope.stored.get(hash(record.src.buffer), False)
    if stored is True:
        return no_op()
    return when(None if stored is False else ir.Not(stored), element_loop(record.src, record.dst, scope))


@rule(Transpose)
def lower_transpose(record: Transpose, scope: Scope) -> Any:
    """As a copy whose source is read with its last axes exchanged."""
    return element_loop(record.src, record.dst, scope, permute=record.source_offsets)


@rule(Fill)
def lower_fill(record: Fill, scope: Scope) -> Any:
    """Stores the value, computed once, to every element inside the buffer."""
    dst = record.dst
    value = record.value
    value = typed(value, dst.dtype)

    def store(offsets: list[Any], guard: bool) -> Any:
        target = dst.index(offsets)
        condition = element_condition(dst, target, scope) if guard else None
        return when(condition, ir.BufferStore(dst.buffer, value, target))

    interior = box_condition(dst, scope)
    fast = nest(dst.shape, lambda offsets: store(offsets, False))
    if interior is None:
        return fast
    return ir.IfThenElse(interior, fast, nest(dst.shape, lambda offsets: store(offsets, True)))


def typed(value: Any, dtype: str) -> Any:
    """A number or an expression as an expression of ``dtype``."""
    if isinstance(value, (bool, int, float)):
        is_float = dtype.startswith(("float", "bfloat"))
        return ir.FloatImm(dtype, float(value)) if is_float else ir.IntImm(dtype, int(value))
    if isinstance(value, ir.IntImm) and dtype.startswith(("float", "bfloat")):
        return ir.FloatImm(dtype, float(value.value))
    return cast(value, dtype)


@rule(Im2Col)
def lower_im2col(record: Im2Col, scope: Scope) -> Any:
    """``col[m, k]`` from the pixel that filter position ``k`` of output position ``m`` falls on.

    Where the columns of the tile are channels of one filter position, or of several, it is asked once a row and position which
    pixel that is, if any.
    """
    img, col = record.img, record.col
    channels = as_int(img.buffer.shape[-1])
    rows, columns = col.matrix_extents
    first = constant(record.c_step) * columns
    known = isinstance(channels, int) and isinstance(columns, int)
    # With one a multiple of the other, a run of columns never leaves a pixel, so that it is asked once for `run` elements.
    run = min(channels, columns) if known and 0 in (channels % columns, columns % channels) else 0

    def store(offsets: list[Any], value: Any) -> Any:
        return ir.BufferStore(col.buffer, cast(value, col.dtype), col.matrix_index(*offsets))

    def pixel(row: Any, k: Any) -> tuple[Any, list[Any]]:
        inside, place = _pixel(record, constant(record.nhw_step) * rows + row, k // channels)
        return inside, [*place, k % channels]

    def element(offsets: list[Any]) -> Any:
        inside, place = pixel(offsets[0], first + offsets[1])
        return store(offsets, if_then_else(inside, ir.BufferLoad(img.buffer, place), zero(img.dtype)))

    def channels_of_one(at: list[Any]) -> Any:
        row, start = at[0], at[1] * run
        inside, (*place, channel) = pixel(row, first + start)
        copied = nest([run], lambda j: store([row, start + j[0]], ir.BufferLoad(img.buffer, [*place, channel + j[0]])), "j")
        return ir.IfThenElse(inside, copied, nest([run], lambda j: store([row, start + j[0]], zero(img.dtype)), "j"))

    return nest([rows, columns // run], channels_of_one) if run else nest([rows, columns], element)


def _pixel(record: Im2Col, m: Any, tap: Any) -> tuple[Any, list[Any]]:
    """Whether filter position ``tap`` of output position ``m`` falls on a pixel; its image, row and column.

    The filter may be padded to whole tiles: taps past the last row, and positions past the last image, fall on none.
    """
    images, height, width, _ = record.img.buffer.shape[-4:]
    # Pixels that the filter reaches over: dilation 2 and 3 taps reach over 5.
    span = record.dilation * (record.kernel - 1) + 1
    out_height = (height + 2 * record.pad - span) // record.stride + 1
    out_width = (width + 2 * record.pad - span) // record.stride + 1
    x = m % out_width * record.stride + tap % record.kernel * record.dilation - record.pad
    y = m // out_width % out_height * record.stride + tap // record.kernel * record.dilation - record.pad
    image = m // (out_width * out_height)
    inside = conjunction((image < images, tap < record.kernel * record.kernel, y >= 0, y < height, x >= 0, x < width))
    return inside, [image, y, x]
