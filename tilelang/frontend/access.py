"""Subscripts of buffers: element loads and stores, and regions."""

from __future__ import annotations

from typing import Any

from tilelang.errors import BufferIndexError, IndexRangeError, OperandError, RunTimeValueError, ShapeError
from tilelang.frontend import lanes
from tilelang.frontend.builder import current, noted, read_now
from tilelang.frontend.conversion import convert
from tilelang.frontend.tiles import Computed, Slice, StridedSlice, as_tile, assign, check_overlap, is_repeated, is_vector, whole
from tilelang.frontend.values import BufferLike, ExprLike, LocalVar, as_expr
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.interval import interval_of
from tilelang.ir.memory import is_local
from tilelang.ir.region import Region
from tilelang.tileop.copy import Copy, Fill


def is_buffer(value: Any) -> bool:
    """Whether ``value`` is a buffer of the program."""
    return isinstance(value, ir.Var) and ir.is_buffer_var(value)


def names_memory(value: Any) -> bool:
    """Whether ``value`` is a buffer, a slice, or a sequence that has some."""
    return is_buffer(value) or isinstance(value, Slice) or (type(value) in (list, tuple) and any(map(names_memory, value)))


def _key_for_each_axis(view: Slice, key: Any) -> list[Any]:
    """One index or slice for each axis of a view; ``...`` and missing axes become whole slices."""
    items = list(key) if isinstance(key, tuple) else [key]
    # `Ellipsis in items` would compare it with expressions, which makes expressions.
    rank = len(view.axes)
    if any(item is Ellipsis for item in items):
        position = next(i for i, item in enumerate(items) if item is Ellipsis)
        items[position : position + 1] = [slice(None)] * (rank - len(items) + 1)
    if len(items) > rank:
        raise BufferIndexError(view.buffer.name, len(items), rank)
    return items + [slice(None)] * (rank - len(items))


def index_expr(value: Any) -> Any:
    """``value`` as an integer index expression.

    Raises:
        OperandError: not an integer.
    """
    if isinstance(value, (str, bytes)) or value is None:
        raise OperandError(f"an index must be an integer, got {value!r}")
    expr = read_now(as_expr(value))
    kind = str(expr.ty)
    if not kind.startswith(("int", "uint", "bool")):
        raise OperandError(f"an index must be an integer, got {kind}")
    return ir.Cast("int32", expr) if kind == "bool" else expr


def _element_index(view: Slice, axis: int, index: Any) -> Any:
    """The index along an axis of a view; one that is provably negative counts from the end, as in Python.

    An index that may be negative or not is taken as it is: a selection would cost every access of the kernel.
    """
    expr = index_expr(index)
    known, size = as_int(expr), as_int(view.lengths[axis])
    if isinstance(known, int):
        if isinstance(size, int) and not -size <= known < size:
            # Below a run-time condition the access may never run: `if n > 8: tile[8] = 0` in a macro for tiles of any size.
            if not current().in_branch():
                raise IndexRangeError(view.buffer.name, view.axes[axis], known, size)
            return expr
        return expr if known >= 0 else as_expr(known + size)
    return expr + view.lengths[axis] if _is_negative(expr) else expr


def _is_negative(index: Any) -> bool:
    """Whether an index is certainly negative, as a loop's variable less its length is."""
    high = interval_of(index, current().ranges)[1]
    return high is not None and high < 0


def _slice_range(view: Slice, axis: int, item: slice) -> tuple[Any, Any, int]:
    """(first, length, step) of a slice along an axis of a view."""
    size = as_int(view.lengths[axis])
    step = 1 if item.step is None else as_int(as_expr(item.step))
    if not isinstance(step, int) or step < 1:
        raise RunTimeValueError(f"a slice of {view.buffer.name} needs a positive compile-time step, got {item.step}")
    low = 0 if item.start is None else _slice_end(view, axis, item.start)
    high = size if item.stop is None else _slice_end(view, axis, item.stop)
    length = as_expr(high) - as_expr(low)
    length = as_int(length if step == 1 else (length + (step - 1)) // step)
    return low, max(length, 0) if isinstance(length, int) else length, step


def _slice_end(view: Slice, axis: int, bound: Any) -> Any:
    """The start or the end of a slice; one that is certainly negative counts from the end of the axis."""
    known, size = as_int(index_expr(bound)), as_int(view.lengths[axis])
    if not isinstance(known, int):
        return known + size if _is_negative(known) else known
    if known >= 0:
        return known
    if isinstance(size, int) and known < -size:
        raise IndexRangeError(view.buffer.name, view.axes[axis], known, size)
    return known + size


def subscript(target: Any, key: Any) -> Any:
    """``target[key]`` of a buffer or of a slice of one.

    One index an axis is an element load; slices and missing axes give a :class:`~tilelang.frontend.tiles.Slice` (a region), with
    steps a ``StridedSlice``.

    Raises:
        BufferIndexError: too many indices, or one that is provably out of range.
    """
    view = target if isinstance(target, Slice) else whole(target)
    items = _key_for_each_axis(view, key)
    mins, extents, kept, steps = list(view.mins), [1] * len(view.mins), [], []
    for axis, (place, item) in enumerate(zip(view.axes, items)):
        if isinstance(item, slice):
            low, extents[place], step = _slice_range(view, axis, item)
            kept.append(place)
            steps.append(step)
        else:
            low = _element_index(view, axis, item)
        mins[place] = low if isinstance(mins[place], int) and mins[place] == 0 else mins[place] + low
    if not kept:
        return noted(ir.BufferLoad(view.buffer, [as_expr(low) for low in mins], current().span()))
    mins = [as_int(low) for low in mins]
    if any(step != 1 for step in steps):
        lengths = tuple(extents[axis] for axis in kept)
        return StridedSlice(view.buffer, tuple(mins), lengths, tuple(kept), tuple(steps))
    return Slice(view.buffer, tuple(mins), tuple(extents), tuple(kept))


def assign_subscript(target: Any, key: Any, value: Any) -> None:
    """``target[key] = value``.

    Args:
        target: a buffer or a slice of one.
        key: an index or slice for each axis; missing axes are whole.
        value: for one element, a scalar; for a slice, a scalar, a slice, or arithmetic on slices.

    Raises:
        BufferIndexError: too many indices, or one that is provably out of range.
        CompileError: the shapes do not broadcast, or the value's type does not fit.
    """
    builder = current()
    place = subscript(target, key)
    value = value.expr() if isinstance(value, LocalVar) else value
    if isinstance(place, (Slice, StridedSlice)):
        _assign_part(place, value)
        return
    buffer, indices = place.source, place.indices
    count = max(map(lanes.lanes_of, indices), default=1)
    expr = convert(as_expr(value, str(buffer.dtype)), str(buffer.dtype), count)
    if count == 1:
        builder.emit(ir.BufferStore(buffer, expr, list(indices), builder.span()))
        return

    def of_lane(position: Any) -> list[Any]:
        return [lanes.element_index(builder, buffer, axis, index, position) for axis, index in enumerate(indices)]

    lanes.store(builder, buffer, of_lane, expr)


def _assign_part(target: Slice | StridedSlice, value: Any) -> None:
    """``target[...] = value`` of a slice."""
    is_tile = as_tile(value) is not None
    # In a T.Parallel, an array of threads is the iteration's own: it assigns all elements.
    is_own = current().parallel > 0 and is_local(target.buffer)
    if current().parallel and not is_tile and not is_vector(value) and not is_own:
        name, rank = target.buffer.name, len(target.mins)
        raise ShapeError(
            f"{rank - len(target.axes)} of the {rank} axes of {name} are indexed, and T.Parallel assigns single elements",
            hint=f"{name}[{', '.join('ijkl'[:rank])}] = ... with a loop for each axis, or move it out of the loop",
        )
    by_element = isinstance(value, (StridedSlice, Computed)) or is_repeated(value, target) or (current().parallel and is_tile)
    if isinstance(target, StridedSlice) or by_element or (is_own and not is_vector(value)):
        assign(target, value)
    elif is_vector(value):
        _assign_lanes(target, convert(value, target.dtype, lanes.lanes_of(value)))
    else:
        source = as_tile(value)
        if isinstance(source, Slice) and source.buffer.same_as(target.buffer) and source.overlaps(target):
            check_overlap(current(), target, source)
        current().perform(fill_or_copy(target, value))


def _assign_lanes(target: Region, value: Any) -> None:
    """``A[i : i + 4] = vector``."""
    count = lanes.lanes_of(value)
    if target.shape != (count,):
        raise ShapeError(f"a vector of {count} elements does not fit {target.buffer.name}'s region {target.shape}")
    lanes.store(current(), target.buffer, lambda position: list(map(as_expr, target.index([position]))), value)


def fill_or_copy(target: Region, value: Any) -> Any:
    """The operator that assigns ``value`` to a region."""
    if is_buffer(value) or isinstance(value, (BufferLike, Region, ir.TensorRegion)):
        return Copy(as_region(value), target)
    return Fill(target, convert(as_expr(value, target.dtype), target.dtype))


def as_region(value: Any, what: str = "a tile operator") -> Region:
    """The region that a buffer, a slice or an element names.

    An element load names the region of that one element; see :func:`anchored_region` where extents are deduced.

    Raises:
        OperandError: the value is none of these.
    """
    if isinstance(value, Region):
        return value
    if isinstance(value, LocalVar):
        value = value.expr()
    if isinstance(value, BufferLike):
        value = value.buffer
    if is_buffer(value):
        return Region.whole(value)
    if isinstance(value, ir.TensorRegion):
        return Region.of(value)
    if isinstance(value, ir.TensorLoad):
        return Region(value.source, tuple(as_int(i) for i in value.indices), (1,) * len(value.indices))
    if isinstance(value, Computed):
        raise OperandError(f"{what} takes memory, got arithmetic on slices", hint="assign it to a slice of a tile first")
    if isinstance(value, StridedSlice):
        raise OperandError(f"{what} takes no slice with steps", hint="T.copy it to a tile first")
    raise OperandError(f"{what} takes a buffer, a slice or an element of one, got {type(value).__name__}")


def is_anchor(value: Any) -> bool:
    """Whether ``value`` is an element load: where an operand's region starts, its extents to be deduced."""
    return isinstance(value, ir.TensorLoad)


def anchored_region(value: Any, extents: tuple[Any, ...], what: str) -> Region:
    """The region that starts at element ``value`` and has ``extents`` on its last axes, 1 on the axes before them.

    Args:
        value: an element load.
        extents: of the other operand.
        what: the operation, for the message of an error.

    Raises:
        ShapeError: more extents than the buffer has axes (axes of length one aside).
    """
    start = as_region(value, what)
    rank = len(start.mins)
    wanted = list(extents)
    while len(wanted) > rank and wanted[0] == 1:
        wanted.pop(0)
    if len(wanted) > rank:
        wanted = [extent for extent in wanted if extent != 1]
    if len(wanted) > rank:
        raise ShapeError(f"{what}: {start.buffer.name} has {rank} axes, the other side has {len(wanted)}")
    return Region(start.buffer, start.mins, (1,) * (rank - len(wanted)) + tuple(wanted))


def compile_time_index(value: Any) -> Any:
    """``value`` where Python itself indexes with it: a symbolic index into a Python sequence is a user's mistake."""
    if isinstance(value, ExprLike) or isinstance(value, ir.PrimExpr):
        known = as_int(as_expr(value))
        if not isinstance(known, int):
            raise RunTimeValueError(
                "a Python sequence is indexed with a run-time value",
                hint="loop over the sequence itself (for item in items) to unroll at compile time",
            )
        return known
    return value
