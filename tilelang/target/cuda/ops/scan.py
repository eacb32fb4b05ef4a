"""Scans as code: a warp takes a line of the tile, 32 elements at a time, and carries the last value on."""

from __future__ import annotations

from math import prod
from typing import Any

from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_shared
from tilelang.target.cuda.arch import WARP
from tilelang.target.cuda.ir.code import Block, Code, LoopCode, counted, leaf, under
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.instructions import Assign, Define
from tilelang.target.cuda.ir.values import Call, Convert, Name, Number, Select, Type, Value
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.ops.reduce import Reduction
from tilelang.target.cuda.tile.build import index_at
from tilelang.tileop.scan import Scan

_UNPACKED = {"int4": "int8", "uint4": "uint8", "float4_e2m1fn": "float32"}
"""Types in which elements of half a byte are scanned."""


@implements(Scan)
class ScanRule(OperatorRule):
    """``T.cumsum`` and the like, between shared tiles, which may be the same."""

    in_warps = True

    def read(self, op: Any, span: Any, reader: Any) -> list[Any]:
        """The scan as a node of the tree. It works in shared memory: other operands are copied to a shared tile and back, and so
        are elements that share a byte, which different threads store.
        """
        own_tile = is_shared(op.dst) and op.is_aligned and str(op.dst.dtype) not in _UNPACKED
        if is_shared(op.src) and own_tile:
            return [reader.operator(op, span)]
        if own_tile:
            return [reader.copy(op.src, op.dst, span), reader.operator(op.replace(src=op.dst), span)]
        shape = [as_int(extent) for extent in op.src.extents]
        dtype = _UNPACKED.get(str(op.dst.dtype), op.dst.dtype)
        tile = reader.shared(shape, dtype, f"{op.dst.buffer.name}_scan")
        work = reader.operator(op.replace(src=tile, dst=tile), span)
        return [reader.copy(op.src, tile, span), work, reader.copy(tile, op.dst, span)]

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        extents = [as_int(extent) for extent in op.src.extents]
        length = extents[op.dim]
        lines = prod(extent for axis, extent in enumerate(extents) if axis != op.dim)
        with e.names.block():
            work = _by_warps if len(e.threads) >= WARP else _by_threads
            return [leaf(work(e, op, extents, lines, length))]


def _by_warps(e: Any, op: Any, extents: list[int], lines: int, length: int) -> list[Any]:
    """A warp takes a line, 32 elements at a time, and carries the last value on."""
    reduction = Reduction(op.kind, op.dst.dtype)
    kind, functor, wide = reduction.wide, reduction.functor, Type(reduction.wide)
    line, at, step, carry, value = (e.names.take(name) for name in ("line", "at", "step", "carry", "value"))
    source, target = _places(e, op, extents, line, lines, at, length)
    warps, chunks = len(e.threads) // WARP, -(-length // WARP)
    chunk = Number(chunks - 1) - step if op.reverse else step
    here, zero = at.is_("<", length), Convert(kind, Number(0))
    rest = Number(length) - chunk * WARP
    # Only one chunk of a line is partial. Forwards it is the last, whose carry is not used; backwards it is the first, and the
    # carry comes from its lane 0, which is inside of the line.
    scanned = Call("tl::warp_scan_part", (value, rest), (functor, bool(op.reverse)))
    chunk_body = [
        Define(at, "int32", chunk * WARP + Call("tl::lane_rank")),
        Define(value, kind, Select(here, converted(source, op.src.dtype, kind), zero), constant=False),
        Assign(value, scanned),
        *under(step.is_(">", 0), [Assign(value, Call(f"{functor}::apply", (carry, value), (wide,)))]),
        Assign(carry, Call("tl::shfl_idx", (value, Number(0 if op.reverse else WARP - 1)))),
        *under(here, [Assign(target, converted(value, kind, op.dst.dtype))]),
    ]
    body = [Define(carry, kind, zero, constant=False), counted(step, chunks, chunk_body, unroll=1)]
    lanes = warps * WARP
    whole = None if lanes == len(e.threads) else e.thread.is_("<", lanes)  # no lanes of a part of a warp
    return under(whole, [_lines(line, e.thread // WARP, lines, warps, body)])


def _by_threads(e: Any, op: Any, extents: list[int], lines: int, length: int) -> list[Any]:
    """Blocks smaller than a warp: a thread takes a line."""
    reduction = Reduction(op.kind, op.dst.dtype)
    kind, functor, wide = reduction.wide, reduction.functor, Type(reduction.wide)
    line, at, step, carry = (e.names.take(name) for name in ("line", "at", "step", "carry"))
    source, target = _places(e, op, extents, line, lines, at, length)
    loaded = converted(source, op.src.dtype, kind)
    combined = Call(f"{functor}::apply", (carry, loaded), (wide,))
    line_body = [
        Define(at, "int32", Number(length - 1) - step if op.reverse else step),
        Assign(carry, Select(step.is_(">", 0), combined, loaded)),
        Assign(target, converted(carry, kind, op.dst.dtype)),
    ]
    body = [Define(carry, kind, Convert(kind, Number(0)), constant=False), counted(step, length, line_body, unroll=None)]
    return [_lines(line, e.thread, lines, len(e.threads), body)]


def _lines(line: Name, first: Value, lines: int, step: int, body: list[Any]) -> LoopCode:
    """A loop over every ``step``-th line from a first one on."""
    return LoopCode(line.is_("<", lines), Block(body), ((line, first),), ((line, line + step),))


def _places(e: Any, op: Any, extents: list[int], line: Name, lines: int, at: Name, length: int) -> tuple[Value, Value]:
    """The element ``at`` of line ``line`` in the source and in the destination."""
    index = index_at(e.variable("line", lines, line), [1 if axis == op.dim else extent for axis, extent in enumerate(extents)])
    index[op.dim] = e.variable("at", length, at)
    source, target = (
        e.places.place(region.buffer, [low + offset for low, offset in zip(region.mins, index)]) for region in (op.src, op.dst)
    )
    return source, target
