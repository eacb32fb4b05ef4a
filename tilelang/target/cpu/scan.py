"""``T.cumsum`` and ``T.cummax``.

Lines beside each other advance together. A sum along contiguous lines advances by a register: the sums inside of it are made in
log2(lanes) steps (Hillis and Steele, "Data parallel algorithms", 1986), each of which adds the register shifted by a power of two
lanes. Only adding the total so far, which is kept in every lane, waits for the register before.
"""

from __future__ import annotations

import math
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cpu import helpers
from tilelang.target.cpu.emit import alloc, cast, extern_call, local, loop, nest, register_alloc, seq, span, splat
from tilelang.target.cpu.functions import is_nan
from tilelang.target.cpu.lower import Scope, rule
from tilelang.target.cpu.reduce import COMBINE, Combine, accumulator_type, identity
from tilelang.tileop.scan import Scan

_ELEMENTS = {"float32": "float", "float64": "double", "int32": "i32", "uint32": "i32", "int64": "i64", "uint64": "i64"}
"""Types whose registers are summed -> LLVM's name."""


@rule(Scan)
def lower_scan(record: Scan, scope: Scope) -> Any:
    """A running value for each line along the axis; see the module's text."""
    return _in_registers(record, scope) if _is_in_registers(record, scope) else _by_elements(record)


def _by_elements(record: Scan) -> Any:
    src, dst, dim = record.src, record.dst, record.dim
    dtype = accumulator_type(dst.dtype)
    start, combine = _running(record.kind, dtype)
    extents = [as_int(extent) for extent in src.extents]
    outer, inner, length = extents[:dim], extents[dim + 1 :], extents[dim]
    shape = [extent if isinstance(extent, int) else src.buffer.shape[dim + 1 + axis] for axis, extent in enumerate(inner)] or [1]
    running = local("running", shape, dtype)

    def step(before: list[Any], position: Any, after: list[Any]) -> Any:
        at = length - 1 - position if record.reverse else position
        offsets = [*before, at, *after]
        place = after or [0]
        value = cast(ir.BufferLoad(src.buffer, [low + offset for low, offset in zip(src.mins, offsets)]), dtype)
        advance = ir.BufferStore(running, combine(ir.BufferLoad(running, place), value), place)
        indices = dst.index([offset for offset, extent in zip(offsets, extents) if extent != 1])
        return seq(advance, ir.BufferStore(dst.buffer, cast(ir.BufferLoad(running, place), dst.dtype), indices))

    def lines(before: list[Any]) -> Any:
        return seq(
            nest(inner or [1], lambda after: ir.BufferStore(running, start, after), "xyzw"),
            loop("r", length, lambda position: nest(inner, lambda after: step(before, position, after), "xyzw")),
        )

    # The axis is outside of the lines beside each other: the innermost loop then touches consecutive elements and is vectorised.
    return seq(alloc(running), nest(outer, lines))


def _running(kind: str, dtype: str) -> tuple[Any, Combine]:
    """What a scan begins with, and how it goes on: a maximum of floats is NaN up to the first number."""
    if kind != "max" or not dtype.startswith("float"):
        return identity(kind, dtype), COMBINE[kind]
    # `x > a` is false where x is NaN, so that a number, once there, stays.
    return ir.FloatImm(dtype, math.nan), lambda a, x: ir.Select(ir.Or(is_nan(a), x > a), x, a)


# Registers


def _is_in_registers(record: Scan, scope: Scope) -> bool:
    """Whether lines are contiguous, of known length, and hold what is summed; helpers of registers have no C text."""
    src, dst, length = record.src, record.dst, as_int(record.src.extents[record.dim])
    plain = record.kind == "sum" and src.dtype == dst.dtype == accumulator_type(dst.dtype) and src.dtype in _ELEMENTS
    rows = all(not len(region.buffer.strides) and as_int(region.extents[-1]) == length for region in (src, dst))
    # Parts of one buffer may overlap, and then the order of loads and stores matters.
    disjoint = src.buffer != dst.buffer or src.is_whole
    known = isinstance(length, int) and length > 1 and record.dim == len(src.extents) - 1
    return plain and rows and disjoint and known and not scope.context.emits_c


def _in_registers(record: Scan, scope: Scope) -> Any:
    *outer, length = [as_int(extent) for extent in record.src.extents]
    widest = scope.context.vectors.lanes(canonical(record.src.dtype).bits)

    def line(before: list[Any]) -> Any:
        steps, done, total = [], 0, identity("sum", record.src.dtype)
        for count, lanes in _pieces(length, widest):
            piece, total = _piece(record, before, (done, count, lanes), total)
            steps.append(piece)
            done += count * lanes
        return seq(steps)

    return nest(outer, line)


def _piece(record: Scan, before: list[Any], part: tuple[int, int, int], start: Any) -> tuple[Any, Any]:
    """The sums of one piece of a line, and that of all elements up to its end.

    Args:
        record: the scan.
        before: the place of the line on the other axes.
        part: the elements of the line before the piece, the number of its registers and of their lanes.
        start: the sum of the elements before.
    """
    src, dst, (done, count, lanes) = record.src, record.dst, part
    extents = [as_int(extent) for extent in src.extents]
    # The same value in all lanes: the sum of all elements before.
    total, at = local("total", (lanes,), src.dtype), [span(0, lanes)]

    def step(turn: Any) -> Any:
        first = turn * lanes + done
        offsets = [*before, extents[-1] - lanes - first if record.reverse else first]
        value = ir.BufferLoad(src.buffer, _spanning([low + offset for low, offset in zip(src.mins, offsets)], lanes))
        sums, so_far = ir.Var("sums", value.ty), ir.BufferLoad(total, at)
        indices = dst.index([offset for offset, extent in zip(offsets, extents) if extent != 1])
        return seq(
            ir.Bind(sums, _call("scan", value, lanes, record.reverse)),
            ir.BufferStore(dst.buffer, so_far + sums, _spanning(indices, lanes)),
            ir.BufferStore(total, so_far + _call("last", sums, lanes, record.reverse), at),
        )

    fill = ir.BufferStore(total, splat(start, lanes), at)
    return seq(register_alloc(total, lanes), fill, loop("r", count, step)), ir.BufferLoad(total, [0])


def _spanning(indices: list[Any], lanes: int) -> list[Any]:
    """The places of consecutive elements of the last axis, of which the first is given."""
    return [*indices[:-1], span(indices[-1], lanes)]


def _pieces(length: int, lanes: int) -> list[tuple[int, int]]:
    """The number and the width of registers that a line consists of: whole ones, then narrower ones for what is left."""
    pieces = []
    while length:
        count, length = divmod(length, lanes)
        pieces += [(count, lanes)] if count else []
        lanes //= 2
    return pieces


def _call(name: str, register: Any, lanes: int, reverse: bool) -> Any:
    """A helper function of a register; a single element is its own sum."""
    if lanes == 1:
        return register
    return extern_call(_helper(name, canonical(str(register.ty)).base, lanes, reverse), [register], str(register.ty))


def _helper(name: str, dtype: str, lanes: int, reverse: bool) -> str:
    """The name of the helper function that scans a register, or that puts the last of its sums into all lanes."""
    full = f"tl_{name}_{dtype}_{lanes}{'_reverse' if reverse else ''}"
    if full not in helpers.HELPERS:
        element = _ELEMENTS[dtype]
        vector = f"<{lanes} x {element}>"
        body = _HELPER_TEXTS[name](vector, lanes, canonical(dtype).is_float, reverse)
        helpers.register(full, f"define {vector} @{full}({vector} %x0) alwaysinline {{\n{body}}}")
    return full


def _scan_text(vector: str, lanes: int, is_float: bool, reverse: bool) -> str:
    """``x`` plus itself shifted by one lane, that plus itself shifted by two, by four, ...; zeros are shifted in."""
    lines, add = [], "fadd" if is_float else "add"
    steps = lanes.bit_length() - 1
    for step in range(steps):
        shift = 1 << step
        # Lanes of the second operand, which is zero, are numbered from `lanes` on.
        sources = [lane + shift if reverse else lane - shift for lane in range(lanes)]
        places = ", ".join(f"i32 {source if 0 <= source < lanes else lanes}" for source in sources)
        lines.append(f"  %s{step} = shufflevector {vector} %x{step}, {vector} zeroinitializer, <{lanes} x i32> <{places}>")
        lines.append(f"  %x{step + 1} = {add} {vector} %x{step}, %s{step}")
    return "\n".join([*lines, f"  ret {vector} %x{steps}\n"])


def _last_text(vector: str, lanes: int, _is_float: bool, reverse: bool) -> str:
    places = ", ".join([f"i32 {0 if reverse else lanes - 1}"] * lanes)
    return f"  %y = shufflevector {vector} %x0, {vector} %x0, <{lanes} x i32> <{places}>\n  ret {vector} %y\n"


_HELPER_TEXTS = {"scan": _scan_text, "last": _last_text}
