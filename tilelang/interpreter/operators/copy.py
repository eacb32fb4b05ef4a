"""``T.copy`` and its forms, ``T.fill``, ``T.transpose``, ``T.c2d_im2col``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tilelang.interpreter.boxes import Box, box_of, check_overlap, read, write
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.numbers import convert, element
from tilelang.interpreter.operators.table import rule
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose

Effect = Callable[[Lanes], Any]


def reshaped(value: np.ndarray, source: Box, target: Box) -> np.ndarray:
    """The values of a box under the extents of another; an axis of threads stays in front.

    Args:
        value: the values.
        source: the box that they come from.
        target: the box whose extents they get.
    """
    threads = value.shape[: value.ndim - len(source.extents)]
    return value.reshape((*threads, *target.extents))


def moved(x: Lanes, source: Box, target: Box) -> np.ndarray:
    """The values of a box, converted to the element type of another and under its extents.

    Args:
        x: the state.
        source: the box that is read.
        target: the other one.
    """
    value = read(x, source)
    return reshaped(convert(value, source.view.kind, target.view.kind), source, target)


def _as_codes(source: Box, target: Box) -> tuple[Box, Box]:
    """Boxes of one narrow type as boxes of unsigned integers, so that a copy keeps the bits."""
    kind = source.view.kind
    if kind is not target.view.kind or kind.kind != "float" or kind.bits > 16:
        return source, target
    return replace(source, view=source.view.codes()), replace(target, view=target.view.codes())


@rule(Copy)
def _copy(c: Compiler, record: Copy) -> Effect:
    source, target = box_of(c, record.src), box_of(c, record.dst)

    def effect(x: Lanes) -> None:
        src, dst = _as_codes(source(x), target(x))
        if 0 not in dst.extents:
            check_overlap(x, src, dst, "copy")
            write(x, dst, moved(x, src, dst))

    if record.kind == "copy":
        return effect
    from tilelang.interpreter.asynchronous import started

    return started(c, record, source, target)


@rule(Transpose)
def _transpose(c: Compiler, record: Transpose) -> Effect:
    source, target = box_of(c, record.src), box_of(c, record.dst)
    rank = len(record.src.extents)
    kept = [axis for axis, extent in enumerate(record.src.extents) if extent != 1]
    order = [axis - rank for axis in range(rank) if axis not in kept] + [axis - rank for axis in record.source_offsets(kept)]

    def effect(x: Lanes) -> None:
        src, dst = source(x), target(x)
        check_overlap(x, src, dst, "transpose", order)
        value = convert(read(x, src), src.view.kind, dst.view.kind)
        threads = range(value.ndim - rank)
        write(x, dst, reshaped(value.transpose(*threads, *(value.ndim + axis for axis in order)), src, dst))

    return effect


@rule(Fill)
def _fill(c: Compiler, record: Fill) -> Effect:
    target, given = box_of(c, record.dst), constant(record.value, str(record.dst.dtype))
    value = compiled(c, given)
    source = element(str(given.ty)) if isinstance(given, ir.PrimExpr) else element("float32")

    def effect(x: Lanes) -> None:
        dst = target(x)
        filled = convert(value(x), source, dst.view.kind)
        if np.ndim(filled):
            filled = filled.reshape((-1,) + (1,) * len(dst.extents))
            write(x, dst, np.broadcast_to(filled, (filled.shape[0], *dst.extents)))
        else:
            write(x, dst, np.broadcast_to(filled, dst.extents))

    return effect


@rule(Im2Col)
def _im2col(c: Compiler, record: Im2Col) -> Effect:
    """``col[m, k]`` from the pixel that tap ``k`` of output position ``m`` falls on; zero in the padding."""
    image, column = box_of(c, record.img), box_of(c, record.col)
    first_row, first_column = compiled(c, constant(record.nhw_step)), compiled(c, constant(record.c_step))

    def effect(x: Lanes) -> None:
        img, col = image(x), column(x)
        count, height, width, channels = img.view.shape[-4:]
        span = record.dilation * (record.kernel - 1) + 1
        out_height = (height + 2 * record.pad - span) // record.stride + 1
        out_width = (width + 2 * record.pad - span) // record.stride + 1
        rows, columns = (col.extents[axis] for axis in record.col.matrix_axes)
        m = (int(first_row(x)) * rows + np.arange(rows))[:, None]
        k = (int(first_column(x)) * columns + np.arange(columns))[None, :]
        # Columns run over the taps, and within a tap over the channels: the order of weights of shape (height, width, channels,
        # ...).
        tap, channel = k // channels, k % channels
        across = m % out_width * record.stride + tap % record.kernel * record.dilation - record.pad
        down = m // out_width % out_height * record.stride + tap // record.kernel * record.dilation - record.pad
        picture = m // (out_width * out_height)
        inside = (picture < count) & (tap < record.kernel**2) & (down >= 0) & (down < height) & (across >= 0) & (across < width)
        places = np.broadcast_arrays(picture, down, across, channel)
        # Indices in the padding lie outside of the image: element 0 is read there, and its value is dropped.
        at = sum(np.where(inside, place, 0) * stride for place, stride in zip(places, img.view.strides[-4:]))
        value = np.where(inside, img.view.read(0, at + img.view.base), 0)
        write(x, col, convert(value, img.view.kind, col.view.kind).reshape(col.extents))

    return effect
