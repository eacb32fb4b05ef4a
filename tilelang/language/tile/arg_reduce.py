"""Where the largest or smallest element along an axis of a tile is: a reduction of the values, then one of their indices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, OperandError, ReduceShapeError
from tilelang.frontend.access import as_region, assign_subscript, subscript
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.loops import each_element
from tilelang.ir.memory import is_fragment, is_shared
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.language.casts import cast
from tilelang.language.math import Select, isnan
from tilelang.language.memory import alloc_fragment
from tilelang.language.tile.reduce import axis_number, reduced_axis
from tilelang.tileop.reduce import Reduce, fits

_INDEX = "int32"
"""Of the indices while they are compared: no tile has an axis that is longer."""


def _reduce_arg(kind: str, buffer: Any, out: Any, dim: Any) -> None:
    what = f"T.reduce_arg{kind}"
    source, target = as_region(buffer, what), as_region(out, what)
    axis = reduced_axis(what, axis_number(what, dim), source, target)
    rest = [extent for number, extent in enumerate(source.extents) if number != axis]
    _check(what, source, target, axis, rest)
    builder = require_kernel(what)
    best = alloc_fragment(rest or [1], source.dtype)
    first = alloc_fragment(rest or [1], _INDEX)
    indices = alloc_fragment(source.extents, _INDEX)
    extent = source.extents[axis]
    builder.perform(Reduce(source, Region.whole(best), kind, axis))
    with each_element(builder, source.extents) as at:
        value, index = _element(source, at), cast(at[axis], _INDEX)
        is_best = value == subscript(best, (*at[:axis], *at[axis + 1 :]) or (0,))
        found = Select(is_best, index, extent)
        if canonical(source.dtype).is_float:
            # A NaN comes before all numbers, and so does its index; among several the first one counts.
            found = Select(isnan(value), index - extent, found)
        assign_subscript(indices, at, found)
    builder.perform(Reduce(Region.whole(indices), Region.whole(first), "min", axis))
    with each_element(builder, [length for length in rest if length != 1] or [1]) as at:
        index = subscript(first, _spread(at, rest) or (0,))
        place = tuple(start + offset for start, offset in zip(target.mins, _spread(at, target.extents)))
        assign_subscript(target.buffer, place, Select(index < 0, index + extent, index))


def _check(what: str, source: Region, target: Region, axis: int, rest: Sequence[Any]) -> None:
    """Refuses operands that do not fit.

    Args:
        what: the operator's name.
        source, target: the tile, and where the indices go.
        axis: the reduced one.
        rest: the extents of ``source`` along the others.
    """
    for region in (source, target):
        if not (is_fragment(region.buffer) or is_shared(region.buffer)):
            raise OperandError(f"{what} takes fragments and shared tiles; {region.buffer.name} is neither")
    if target.dtype not in ("int32", "int64"):
        raise DtypeError(f"{what} gives indices, {target.buffer.name} is {target.dtype}", hint="make it int32 or int64")
    kept = tuple(extent for extent in rest if extent != 1)
    if not fits(kept, tuple(extent for extent in target.extents if extent != 1)):
        texts = (shape_text(source.extents), shape_text(target.extents), shape_text(kept or (1,)))
        raise ReduceShapeError(what.removeprefix("T.reduce_"), axis, *texts)


def _element(region: Region, at: Sequence[Any]) -> Any:
    return subscript(region.buffer, tuple(start + offset for start, offset in zip(region.mins, at)))


def _spread(at: Sequence[Any], extents: Sequence[Any]) -> tuple[Any, ...]:
    """Indices along all axes of a shape, from those along its axes that are longer than one."""
    rest = iter(at)
    return tuple(0 if extent == 1 else next(rest) for extent in extents)


def reduce_argmax(buffer: Any, out: Any, dim: int = -1) -> None:
    """The index of the largest element along an axis of a tile: of the first one, or of the first NaN where there is any.

    Args:
        buffer: the tile, a fragment or shared memory, or a slice of it.
        out: a tile of int32 or int64 with the axes of ``buffer`` less ``dim`` (or 1 in its place).
        dim: the axis; negative counts from the end. Of a slice, axes that an index names count where ``out`` has them too.

    Raises:
        ReduceShapeError: the shapes do not fit.
        DtypeError: ``out`` has another type.
        OperandError: an operand lies in other memory.
    """
    _reduce_arg("max", buffer, out, dim)


def reduce_argmin(buffer: Any, out: Any, dim: int = -1) -> None:
    """The index of the smallest element along an axis of a tile; as :func:`reduce_argmax`.

    Args:
        buffer, out, dim: as for :func:`reduce_argmax`.

    Raises:
        ReduceShapeError: the shapes do not fit.
        DtypeError: ``out`` has another type.
        OperandError: an operand lies in other memory.
    """
    _reduce_arg("min", buffer, out, dim)
