"""``T.reduce_*``.

A reduction along the innermost axis keeps several registers of partial results, so that neither the latency of one addition nor
the order that floating point demands stands in the way; ``lines.py`` has what LLVM gets where elements are combined as they are.
Along any other axis the partial results are a row, which the loop over the remaining axes updates in place. Narrow formats are
accumulated in float32.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.visit import variables
from tilelang.target.cpu.emit import alloc, cast, local, loop, nest, no_op, seq, span
from tilelang.target.cpu.functions import is_nan
from tilelang.target.cpu.lines import folds, reduce_line
from tilelang.target.cpu.lower import Scope, rule
from tilelang.tileop.reduce import FinalizeReducer, Reduce

Combine = Callable[[Any, Any], Any]
Make = Callable[[list[Any], Any, int], Any]

_REGISTERS = 4
"""Partial registers of a reduction along the innermost axis."""


def _sum(a: Any, x: Any) -> Any:
    return cast(a + x, str(a.ty))  # bools are added as numbers


def _larger(a: Any, x: Any) -> Any:
    return ir.Select(x > a, x, a)


def _smaller(a: Any, x: Any) -> Any:
    return ir.Select(x < a, x, a)


def _or_nan(better: Combine) -> Combine:
    def combine(a: Any, x: Any) -> Any:
        return ir.Select(is_nan(x), x, better(a, x))

    return combine


COMBINE: dict[str, Combine] = {
    # (accumulator, element) -> accumulator; a comparison with NaN is false, so max and min skip it
    "sum": _sum,
    "abssum": _sum,
    "max": _larger,
    "absmax": _larger,
    "min": _smaller,
    "bitand": lambda a, x: a & x,
    "bitor": lambda a, x: a | x,
    "bitxor": lambda a, x: a ^ x,
}


def identity(kind: str, dtype: str) -> Any:
    """The value that leaves any other unchanged."""
    kind = kind.removeprefix("abs") if kind == "abssum" else kind
    kinds = canonical(dtype)
    if kinds.is_float:
        return ir.FloatImm(dtype, {"max": -math.inf, "min": math.inf}.get(kind, 0.0))
    signed, bits = kinds.kind == "int", kinds.bits
    lowest, highest = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    if kinds.kind == "bool":
        lowest, highest = 0, 1
    ones = -1 if signed else highest
    value = {"max": lowest, "min": highest, "bitand": ones}.get(kind, 0)
    if dtype == "uint64" and value > (1 << 63) - 1:
        # TVM keeps constants as int64.
        return ir.Call(ir.Op.get("tirx.reinterpret"), [ir.IntImm("int64", -1)], ret_ty="uint64")
    return ir.IntImm(dtype, value)


def accumulator_type(dtype: str) -> str:
    """In what type values of a type are combined."""
    found = canonical(dtype)
    if found.is_float:
        return "float64" if found == "float64" else "float32"
    return str(found)


def _absolute(kind: str, value: Any) -> Any:
    if not kind.startswith("abs"):
        return value
    return ir.Call(ir.Op.get("tirx.fabs"), [value], ret_ty=value.ty)


@rule(Reduce)
def lower_reduce(record: Reduce, scope: Scope, make: Make | None = None) -> Any:
    """Each element of the destination from one line of the source; see the module's text.

    Args:
        record: the reduction.
        scope: what is known of the program here.
        make: ``(outer indices, first, count)`` -> the statement that makes so many elements of a line; only for lines that are
            reduced in registers.
    """
    src, dst, dim = record.src, record.dst, record.dim
    dtype = accumulator_type(dst.dtype)
    combine = COMBINE[record.kind]
    if record.nan_propagate and record.kind.endswith(("max", "min")) and dtype.startswith("float"):
        combine = _or_nan(combine)
    extents = [as_int(extent) for extent in src.extents]
    outer, inner, length = extents[:dim], extents[dim + 1 :], extents[dim]

    def element(before: list[Any], at: Any, after: list[Any]) -> Any:
        offsets = [*before, at, *after]
        indices = [low + offset for low, offset in zip(src.mins, offsets)]
        return _absolute(record.kind, cast(ir.BufferLoad(src.buffer, indices), dtype))

    def elements(before: list[Any], first: Any, lanes: int) -> Any:
        *outside, low = [low + offset for low, offset in zip(src.mins, [*before, first])]
        return _absolute(record.kind, ir.BufferLoad(src.buffer, [*outside, span(low, lanes)]))

    def result(before: list[Any], after: list[Any], value: Any) -> Any:
        offsets = [*before, 0, *after]
        indices = dst.index([offsets[axis] for axis in record.kept])
        if not record.clear:
            # What is there may be a NaN, which an extreme skips as an element.
            value = combine(value, cast(ir.BufferLoad(dst.buffer, indices), dtype))
        return ir.BufferStore(dst.buffer, cast(value, dst.dtype), indices)

    start = identity(record.kind, dtype)
    if in_registers(record, scope):
        lanes = scope.context.vectors.lanes(canonical(dtype).bits)

        def line(before: list[Any]) -> Any:
            scope.bind_ranges(before, outer)
            made = None if make is None else functools.partial(_made, make, scope, before, length=length)
            reduced, value = reduce_line(record.kind, start, combine, length, lanes, lambda at, n: elements(before, at, n), made)
            return seq(reduced, result(before, [], value))

        return nest(outer, line)
    # The axis is the last one: its elements are neighbours, and lanes take them in turns.
    if all(extent == 1 for extent in inner):
        return nest(outer, lambda before: _line(scope, dtype, start, combine, length,
                                                lambda at: element(before, at, [0] * len(inner)),
                                                lambda value: result(before, [0] * len(inner), value)))  # fmt: skip
    # Another axis: one partial result for each place behind it, so that memory is read row by row and the inner loops are
    # vectors.
    partial = local("partial", [_static(extent, src, dim + 1 + axis) for axis, extent in enumerate(inner)], dtype)

    def column(before: list[Any]) -> Any:
        def update(at: Any, after: list[Any]) -> Any:
            return ir.BufferStore(partial, combine(ir.BufferLoad(partial, after), element(before, at, after)), after)

        return seq(
            alloc(partial),
            nest(inner, lambda after: ir.BufferStore(partial, start, after), "xyzw"),
            loop("r", length, lambda at: nest(inner, lambda after: update(at, after), "xyzw")),
            nest(inner, lambda after: result(before, after, ir.BufferLoad(partial, after)), "xyzw"),
        )

    return nest(outer, column)


def _made(make: Make, scope: Scope, before: list[Any], first: Any, count: int, length: int) -> Any:
    """The statement that makes elements of a line, where ``first`` is known, or counts pieces of so many."""
    if isinstance(first, ir.PrimExpr):
        scope.bind_ranges(list(variables(first)), [length // count])
    return make([constant(index) for index in before], first, count)


def in_registers(record: Reduce, scope: Scope) -> bool:
    """Whether lines are contiguous, of known length, and hold what is combined; C compilers put loops in registers themselves."""
    dtype = accumulator_type(record.dst.dtype)
    src, skips_nan = record.src, not record.nan_propagate
    length = as_int(src.extents[-1])
    contiguous = record.dim == len(src.extents) - 1 == len(src.buffer.shape) - 1 and not len(src.buffer.strides)
    plain = src.dtype == dtype and folds(record.kind, dtype) and (skips_nan or not dtype.startswith("float"))
    return contiguous and plain and isinstance(length, int) and length > 0 and not scope.context.emits_c


def _static(extent: Any, region: Any, axis: int) -> Any:
    return extent if isinstance(extent, int) else region.buffer.shape[axis]


def _line(
    scope: Scope,
    dtype: str,
    start: Any,
    combine: Combine,
    length: Any,
    element: Callable[[Any], Any],
    finish: Callable[[Any], Any],
) -> Any:
    """Reduces one contiguous line: partial results in registers, then a tree."""
    lanes = scope.context.vectors.lanes(canonical(dtype).bits)
    # Several registers of partial results hide the latency of `combine`; a short line has fewer.
    width = lanes * _REGISTERS
    if isinstance(length, int):
        while width > 1 and width > length:
            width //= 2
    partial = local("partial", (width,), dtype)

    def at(index: Any) -> Any:
        return ir.BufferLoad(partial, [index])

    def update(first: Any, lane: Any) -> Any:
        return ir.BufferStore(partial, combine(at(lane), element(first + lane)), [lane])

    full = length // width if isinstance(length, int) else ir.FloorDiv(length, ir.IntImm(length.ty, width))
    rest = length - full * width
    parts = [
        alloc(partial),
        loop("l", width, lambda lane: ir.BufferStore(partial, start, [lane])),
        loop("r", full, lambda r: loop("l", width, lambda lane: update(r * width, lane))),
        loop("l", rest, lambda lane: update(full * width, lane)),
    ]
    # A tree: additions of one level are independent of each other, and there are only log2(width) levels.
    half = width // 2
    while half >= 1:
        parts.append(_fold(partial, combine, half))
        half //= 2
    return seq(parts, finish(at(0)))


def _fold(partial: Any, combine: Combine, half: int) -> Any:
    """Adds the upper half of the partial results to the lower."""

    def lane(index: Any) -> Any:
        pair = combine(ir.BufferLoad(partial, [index]), ir.BufferLoad(partial, [index + half]))
        return ir.BufferStore(partial, pair, [index])

    return loop("l", half, lane)


@rule(FinalizeReducer)
def lower_finalize_reducer(record: FinalizeReducer, scope: Scope) -> Any:
    """Nothing: a block is one thread, which has no partial values to combine."""
    return no_op()
