"""Element-wise tile operators written as nests."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import CompileError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.text import expr_text
from tilelang.target.cuda.reading.nest import Axis, Nest
from tilelang.target.cuda.reading.skips import without_continue
from tilelang.tileop.atomic import AtomicTile
from tilelang.tileop.copy import Copy, Fill, Im2Col, Transpose
from tilelang.tileop.thread import intrinsic_call
from tilelang.transform.substitute import substitute

_NAMES = "ijklmn"


def is_elementwise(op: Any) -> bool:
    """Whether an operator has a nest."""
    return type(op) in _BUILDERS


def nest_of(op: Any, span: Any) -> Nest:
    """The nest of an element-wise operator."""
    return _BUILDERS[type(op)](op, span)


def parallel_nest(loop: Any) -> Nest:
    """The nest of a ``T.Parallel`` loop."""
    count = int(loop.annotations["tl.parallel"])
    notes = loop.annotations
    axes, node = [], loop
    for _ in range(count):
        if as_int(node.min) != 0:
            raise CompileError("T.Parallel loops start at 0", location_of(loop.span))
        axes.append(_axis(node.loop_var, node.extent, None, loop.span))
        node = node.body
    node = without_continue(node)
    width = notes["tl.coalesced_width"] if "tl.coalesced_width" in notes else None
    layout = str(notes["tl.loop_layout"]) if "tl.loop_layout" in notes else None
    if layout is None:
        axes, node = _trimmed(axes, node)
    return Nest.build(tuple(axes), node, loop.span, "T.Parallel", vector=None if width is None else as_int(width), layout=layout)


def _trimmed(axes: list[Axis], body: Any) -> tuple[list[Axis], Any]:
    """A nest whose whole body is under ``i < 16`` has 16 iterations along ``i``, however long the loop is."""
    if not isinstance(body, ir.IfThenElse) or body.else_case is not None:
        return axes, body
    bounds: dict[Any, int] = {}
    rest = None
    for part in _conjuncts(body.condition):
        is_bound = isinstance(part, (ir.LT, ir.LE)) and isinstance(part.b, ir.IntImm)
        limit = as_int(part.b) + isinstance(part, ir.LE) if is_bound else 0
        if limit > 0 and any(part.a.same_as(axis.var) and axis.limit is None for axis in axes):
            bounds[part.a] = min(limit, bounds.get(part.a, limit))
        else:
            rest = part if rest is None else ir.And(rest, part)
    if not bounds:
        return axes, body
    axes = [Axis(axis.var, min(axis.extent, bounds.get(axis.var, axis.extent))) if axis.limit is None else axis for axis in axes]
    return axes, body.then_case if rest is None else ir.IfThenElse(rest, body.then_case, None, body.span)


def _conjuncts(condition: Any) -> list[Any]:
    if isinstance(condition, ir.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _axis(var: Any, extent: Any, bound: int | None, span: Any) -> Axis:
    extent = as_int(extent)
    if isinstance(extent, int):
        return Axis(var, extent)
    return Axis(var, bound or 0, extent)


def _axes(regions: Sequence[Region], span: Any) -> tuple[tuple[Axis, ...], list[Any]]:
    """One axis for each extent of the regions that is not 1, and the variables.

    An extent known only at run time is bounded by the size of a buffer on chip.
    """
    axes = []
    for place, extent in enumerate(regions[-1].shape):
        var = ir.Var(_NAMES[place] if place < len(_NAMES) else f"i{place}", "int32")
        bounds = [_bound(region, place) for region in regions]
        known = [bound for bound in bounds if bound is not None]
        axes.append(_axis(var, extent, min(known) if known else None, span))
    if not axes:
        axes = [Axis(ir.Var("i", "int32"), 1)]
        return tuple(axes), []
    return tuple(axes), [axis.var for axis in axes]


def _bound(region: Region, place: int) -> int | None:
    """The size of the buffer axis that an axis of the region's shape lies in, where it is on chip."""
    if region.scope == "global":
        return None
    moving = [size for size, extent in zip(region.buffer.shape, region.extents) if extent != 1]
    size = as_int(moving[place]) if place < len(moving) else None
    return size if isinstance(size, int) else None


def _cast(value: Any, dtype: str) -> Any:
    return value if str(value.ty) == dtype else ir.Cast(dtype, value)


def _indices(region: Region, offsets: Sequence[Any]) -> list[Any]:
    return [constant(index) if isinstance(index, int) else index for index in region.index(offsets)]


def _load(region: Region, offsets: Sequence[Any]) -> Any:
    return ir.BufferLoad(region.buffer, _indices(region, offsets))


def _store(region: Region, offsets: Sequence[Any], value: Any, span: Any) -> Any:
    return ir.BufferStore(region.buffer, _cast(value, region.dtype), _indices(region, offsets), span)


def _copy(op: Copy, span: Any) -> Nest:
    axes, offsets = _axes([op.src, op.dst], span)
    body = _store(op.dst, offsets, _load(op.src, offsets), span)
    layout = op.loop_layout if isinstance(op.loop_layout, str) else None
    return Nest.build(axes, body, span, "T.copy", vector=op.coalesced_width, layout=layout)


def _transpose(op: Transpose, span: Any) -> Nest:
    axes, offsets = _axes([op.dst], span)
    return Nest.build(axes, _store(op.dst, offsets, _load(op.src, op.source_offsets(offsets)), span), span, "T.transpose")


def _fill(op: Fill, span: Any) -> Nest:
    axes, offsets = _axes([op.dst], span)
    return Nest.build(axes, _store(op.dst, offsets, _typed(op.value, op.dst.dtype), span), span, "T.fill")


def _typed(value: Any, dtype: str) -> Any:
    if isinstance(value, (int, float)):
        return ir.FloatImm(dtype, float(value)) if canonical(dtype).is_float else ir.IntImm(dtype, int(value))
    return value


def _atomic(op: AtomicTile, span: Any) -> Nest:
    axes, offsets = _axes([op.src, op.dst], span)
    value = _cast(_load(op.src, offsets), op.dst.dtype)
    call = intrinsic_call(f"atomic_{op.op}", _load(op.dst, offsets), value, attrs={"memory_order": op.memory_order}, span=span)
    return Nest.build(axes, ir.Evaluate(call, span), span, f"T.atomic_{op.op}")


def _im2col(op: Im2Col, span: Any) -> Nest:
    axes, offsets = _axes([op.col], span)
    if len(offsets) != 2:
        raise CompileError("T.c2d_im2col writes a two-dimensional tile", location_of(span))
    _, height, width, channels = (as_int(size) for size in op.img.buffer.shape)
    reach = (op.kernel - 1) * op.dilation + 1
    out_height = (height + 2 * op.pad - reach) // op.stride + 1
    out_width = (width + 2 * op.pad - reach) // op.stride + 1
    rows, columns = op.col.shape
    place, part = op.nhw_step * rows + offsets[0], op.c_step * columns + offsets[1]
    column = part % channels
    y = place % (out_height * out_width) // out_width * op.stride + part // (op.kernel * channels) * op.dilation - op.pad
    x = place % out_width * op.stride + part // channels % op.kernel * op.dilation - op.pad
    load = ir.BufferLoad(op.img.buffer, [place // (out_height * out_width), y, x, column])
    return Nest.build(axes, _store(op.col, offsets, load, span), span, "T.c2d_im2col")


def expansion_nest(op: Any, dense: Any, span: Any) -> Nest:
    """A sparse operand written out: of each group of elements along K, the kept ones at their places, zero elsewhere.

    Four bits of metadata a group, groups from the low bits of a word up. A group of four keeps two, whose positions are two bits
    each, the lower one first; a group of two 32-bit elements keeps one, and the positions are those of its 16-bit halves.
    """
    row, column = ir.Var("i", "int32"), ir.Var("j", "int32")
    words, size = canonical(op.e.dtype).bits // 4, op.group
    group, place = column // size, column % size
    at = (group // words, row) if op.transpose_e else (row, group // words)
    word = ir.Cast("int32", _load_matrix(op.e, at))
    code = (word >> (group % words * 4)) & 15
    indices = [group * (size // 2) + number for number in range(size // 2)]
    kept = [_load_matrix(op.a, (index, row) if op.transpose_a else (row, index)) for index in indices]
    zero = _typed(0, op.a.dtype)
    if size == 2:
        value = ir.Select((code >> 3) == place, kept[0], zero)
    else:
        value = ir.Select((code & 3) == place, kept[0], ir.Select((code >> 2) == place, kept[1], zero))
    axes = (Axis(row, as_int(op.m)), Axis(column, as_int(op.k)))
    return Nest.build(axes, ir.BufferStore(dense, value, [row, column], span), span, "T.gemm_sp")


def _load_matrix(region: Region, index: tuple[Any, Any]) -> Any:
    mins = [constant(low) if isinstance(low, int) else low for low in region.mins]
    return ir.BufferLoad(region.buffer, [*mins[:-2], mins[-2] + index[0], mins[-1] + index[1]])


_BUILDERS: Mapping[type, Callable[[Any, Any], Nest]] = {
    Copy: _copy,
    Transpose: _transpose,
    Fill: _fill,
    AtomicTile: _atomic,
    Im2Col: _im2col,
}


_CHUNK = 128
"""Iterations of a run-time extent that a block takes at once."""


def chunked(nest: Nest) -> tuple[list[tuple[Any, Any]], Nest]:
    """Axes of unbounded run-time extent, cut into chunks.

    Returns:
        The loops over the chunks as (variable, extent), and the nest of one chunk.
    """
    if all(axis.extent for axis in nest.axes):
        return [], nest
    loops, axes, values = [], [], {}
    innermost = max(place for place, axis in enumerate(nest.axes) if not axis.extent)
    for place, axis in enumerate(nest.axes):
        if axis.extent:
            axes.append(axis)
            continue
        size = _CHUNK if place == innermost else 1
        chunk, inner = ir.Var(f"{axis.var.name}_chunk", "int32"), ir.Var(axis.var.name, "int32")
        limit = ir.Cast("int32", axis.limit) if str(axis.limit.ty) != "int32" else axis.limit
        loops.append((chunk, (limit + (size - 1)) // size))
        values[axis.var] = chunk * size + inner
        axes.append(Axis(inner, size, limit - chunk * size if size > 1 else None))
    body = substitute(nest.body, values)
    return loops, Nest.build(tuple(axes), body, nest.span, nest.origin, vector=nest.vector, layout=nest.layout)


def describe(nest: Nest) -> str:
    """A nest in a message: ``T.Parallel(64, 32)``."""
    sizes = ", ".join(str(axis.extent) if axis.limit is None else expr_text(axis.limit) for axis in nest.axes)
    return f"{nest.origin}({sizes})" if nest.origin == "T.Parallel" else nest.origin
