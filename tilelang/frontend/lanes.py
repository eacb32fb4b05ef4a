"""Scalarisation of vector values: each vector is split into its lanes before a statement is emitted.

``C[T.Ramp(i, 1, 4)] = A[T.Ramp(j, 1, 4)] * 2`` becomes a vectorised loop over four scalar assignments, so no later stage has
rules for vectors. A vector that is assigned to a name is read there: its lanes become variables, and the name holds a
``Shuffle`` of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import DtypeError, OperandError, ShapeError, UnsupportedError
from tilelang.frontend.reads import read_in_order
from tilelang.ir import nodes as ir
from tilelang.ir.interval import interval_of
from tilelang.ir.visit import operands, walk_expr
from tilelang.tileop.thread import intrinsic_name

if TYPE_CHECKING:
    from tilelang.frontend.builder import Builder


def lanes_of(expr: Any) -> int:
    """How many lanes a value has; 1 for a scalar."""
    return canonical(str(expr.ty)).lanes


def vector_of_region(region: Any) -> Any:
    """The consecutive elements of a region along its last axis as a vector.

    Raises:
        ShapeError: the region has extents along other axes, or its length is known at run time only.
    """
    *outer, size = region.extents
    if any(extent != 1 for extent in outer) or not isinstance(size, int):
        raise ShapeError(f"a region of {region.buffer.name} with extents {region.extents} is no vector")
    *before, start = map(_expr, region.mins)
    return ir.BufferLoad(region.buffer, [*before, ir.Ramp(start, ir.IntImm("int32", 1), size) if size > 1 else start])


def bind_lanes(builder: Builder, name: str, value: Any) -> Any:
    """A vector whose lanes are computed here and do not change afterwards.

    Args:
        builder: of the program.
        name: of the variables that hold the lanes.
        value: a vector expression.
    """
    parts = [builder.bind(name, lane(builder, value, position)) for position in range(lanes_of(value))]
    return ir.Shuffle(parts, [ir.IntImm("int32", position) for position in range(len(parts))])


def store(builder: Builder, buffer: Any, place: Callable[[Any], list[Any]], value: Any) -> None:
    """Assigns the lanes of a vector to elements of a buffer, by a vectorised loop.

    Args:
        builder: of the program.
        buffer: the destination.
        place: gives the indices of a lane's element, from the variable of the loop over the lanes.
        value: a vector, or a scalar for every element.
    """
    count, span = lanes_of(value), builder.span()
    value = read_in_order(builder, value)
    # All lanes are read before one is written, as in `A[1:5] = A[0:4]`.
    if any(isinstance(node, ir.TensorLoad) and node.source.same_as(buffer) for node in walk_expr(value)):
        value = bind_lanes(builder, "lane", value)
    # A Shuffle selects by compile-time positions, which the variable of a loop over the lanes is not.
    if any(isinstance(node, ir.Shuffle) for node in walk_expr(value)):
        for position in range(count):
            builder.emit(ir.BufferStore(buffer, lane(builder, value, position), place(ir.IntImm("int32", position)), span))
        return
    index, zero, extent = ir.Var(builder.unique("lane"), "int32"), ir.IntImm("int32", 0), ir.IntImm("int32", count)
    builder.ranges[index] = (0, count - 1)
    with builder.scope("loop", lambda body: ir.For(index, zero, extent, ir.ForKind.VECTORIZED, body, span=span)):
        builder.emit(ir.BufferStore(buffer, lane(builder, value, index), place(index), span))


def lane(builder: Builder, expr: Any, position: Any) -> Any:
    """One lane of a value, as a scalar expression.

    Args:
        builder: of the program.
        expr: a vector expression; a scalar is its own lane.
        position: a number, or the variable of a loop over the lanes.

    Raises:
        UnsupportedError: an operation that has no meaning lane by lane.
    """
    if lanes_of(expr) == 1:
        return expr
    rule = _RULES.get(type(expr))
    if rule is not None:
        return rule(builder, expr, position)
    parts = [lane(builder, part, position) for part in operands(expr)]
    if len(parts) == 2 and hasattr(expr, "b"):
        return type(expr)(*parts)
    raise UnsupportedError(f"{type(expr).__name__} of vectors ({expr.ty}) is not supported", hint="loop over the elements")


def element_index(builder: Builder, buffer: Any, axis: int, index: Any, position: Any) -> Any:
    """An index of one lane; a lane that may be negative counts from the end of its axis.

    Args:
        builder: of the program, which knows the ranges of its variables.
        buffer: what is indexed.
        axis: number of the axis.
        index: the index, a scalar or a vector.
        position: the lane, as for :func:`lane`.
    """
    if lanes_of(index) == 1:
        return index
    scalar, size = widened(lane(builder, index, position)), buffer.shape[axis]
    # Only a lane whose sign is not known needs the selection at run time.
    low, high = interval_of(scalar, builder.ranges)
    if low is not None and low >= 0:
        return scalar
    if high is not None and high < 0:
        return scalar + size
    return ir.Select(scalar < 0, scalar + size, scalar)


def widened(index: Any) -> Any:
    """An index of 32 bits or more: a size, and the sum of both, may be no number of a narrower type."""
    return ir.Cast("int32", index) if canonical(str(index.ty)).bits < 32 else index


def _load(builder: Builder, expr: Any, position: Any) -> Any:
    held = read_in_order(builder, expr)
    if held is not expr:
        return lane(builder, held, position)
    if canonical(str(expr.source.dtype)).lanes > 1:
        raise DtypeError(f"{expr.source.name} has vectors as its elements", hint="declare it with the scalar type")
    indices = [element_index(builder, expr.source, axis, index, position) for axis, index in enumerate(expr.indices)]
    return ir.BufferLoad(expr.source, indices, expr.span)


def _ramp(builder: Builder, expr: Any, position: Any) -> Any:
    return expr.base + expr.stride * position


def _broadcast(builder: Builder, expr: Any, position: Any) -> Any:
    return expr.value


def pick(builder: Builder, vectors: Sequence[Any], index: int) -> Any:
    """The element at ``index`` of the concatenation of vectors and scalars.

    Args:
        builder: of the program.
        vectors: the parts, in order.
        index: from 0 on.

    Raises:
        ShapeError: fewer elements than that.
    """
    for part in vectors:
        if index < lanes_of(part):
            return lane(builder, part, index)
        index -= lanes_of(part)
    raise ShapeError("an index is beyond the vectors' elements")


def _shuffle(builder: Builder, expr: Any, position: Any) -> Any:
    return pick(builder, expr.vectors, int(expr.indices[int(position)].value))


def _cast(builder: Builder, expr: Any, position: Any) -> Any:
    return ir.Cast(canonical(str(expr.ty)).base, lane(builder, expr.value, position))


def _unary(builder: Builder, expr: Any, position: Any) -> Any:
    return type(expr)(lane(builder, expr.a, position))


def _select(builder: Builder, expr: Any, position: Any) -> Any:
    return ir.Select(*(lane(builder, part, position) for part in (expr.condition, expr.true_value, expr.false_value)))


def _call(builder: Builder, expr: Any, position: Any) -> Any:
    name = expr.op.name if isinstance(expr.op, ir.Op) else ""
    if name.endswith(".reinterpret"):
        return _reinterpreted(builder, expr, position)
    if not name.startswith(("tirx.", "prim.")) and intrinsic_name(expr) is None:
        raise OperandError(f"{name or expr.op} gives a vector, which has no lanes of its own")
    arguments = [lane(builder, arg, position) for arg in expr.args]
    return ir.Call(expr.op, arguments, attrs=expr.attrs, ret_ty=canonical(str(expr.ty)).base)


def _reinterpreted(builder: Builder, expr: Any, position: Any) -> Any:
    """A lane of bits that are read as another type: part of a lane of the source, or several of them."""
    (source,) = expr.args
    # Lane 0 is in the low bits, as all targets are little-endian.
    from_, to = canonical(str(source.ty)), canonical(str(expr.ty))
    if from_.bits == to.bits:
        return _bits(lane(builder, source, position), to.base)
    if from_.bits > to.bits:
        # Several lanes of the result are parts of one lane of the source: int8x4 of an int32x1.
        share = from_.bits // to.bits
        whole = _bits(lane(builder, source, position // share), f"uint{from_.bits}")
        shift = ir.Cast(f"uint{from_.bits}", _expr(position % share * to.bits))
        return _bits(ir.Cast(f"uint{to.bits}", whole >> shift), to.base)
    # One lane of the result is made of several lanes of the source.
    share, wide = to.bits // from_.bits, f"uint{to.bits}"
    parts = (_bits(lane(builder, source, position * share + part), f"uint{from_.bits}") for part in range(share))
    return _bits(_joined([ir.Cast(wide, part) for part in parts], from_.bits, wide), to.base)


def joined_bits(builder: Builder, source: Any, dtype: str) -> Any:
    """A vector's bits as one scalar, lane 0 in the low bits.

    Args:
        builder: of the program.
        source: the vector.
        dtype: a scalar type of the vector's size.
    """
    bits, wide = canonical(str(source.ty)).bits, f"uint{canonical(dtype).bits}"
    parts = (_bits(lane(builder, source, part), f"uint{bits}") for part in range(lanes_of(source)))
    return _bits(_joined([ir.Cast(wide, part) for part in parts], bits, wide), dtype)


def _joined(parts: list[Any], bits: int, wide: str) -> Any:
    """Unsigned integers of ``bits`` bits as one of type ``wide``, the first in the low bits."""
    result = parts[0]
    for position, part in enumerate(parts[1:], 1):
        result = result | (part << ir.IntImm(wide, position * bits))
    return result


def _bits(scalar: Any, dtype: str) -> Any:
    """The bits of a scalar read as another type of its size."""
    return scalar if str(scalar.ty) == dtype else ir.tirx.reinterpret(dtype, scalar)


def _expr(value: Any) -> Any:
    return ir.IntImm("int32", value) if isinstance(value, int) else value


_RULES: Mapping[type, Callable[[Builder, Any, Any], Any]] = {
    ir.TensorLoad: _load,
    ir.Ramp: _ramp,
    ir.Broadcast: _broadcast,
    ir.Shuffle: _shuffle,
    ir.Cast: _cast,
    ir.Not: _unary,
    ir.BitwiseNot: _unary,
    ir.Select: _select,
    ir.Call: _call,
}
