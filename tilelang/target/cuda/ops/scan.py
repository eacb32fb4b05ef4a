"""Scans as code: a warp takes a line of the tile, 32 elements at a time, and carries the last value on."""

from __future__ import annotations

from math import prod
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.target.cuda.codegen.code import Code, leaf_of
from tilelang.target.cuda.codegen.element_types import c_type, converted
from tilelang.target.cuda.operators import OperatorRule, implements
from tilelang.target.cuda.ops.reduce import Reduction
from tilelang.tileop.reduce import Scan

_WARP = 32


@implements(Scan)
class ScanRule(OperatorRule):
    """``T.cumsum`` and the like, between shared tiles, which may be the same."""

    in_warps = True

    def lower(self, node: Any, generator: Any) -> list[Code]:
        e, op = generator.emitter, node.op
        extents = [as_int(extent) for extent in op.src.extents]
        length = extents[op.dim]
        lines = prod(extent for axis, extent in enumerate(extents) if axis != op.dim)
        with e.names.scope():
            write = _warp_lines if e.scope.count >= _WARP else _thread_lines
            text = write(e, op, extents, lines, length)
        return [leaf_of(text, [e.root(op.src.buffer)], [e.root(op.dst.buffer)])]


def _warp_lines(e: Any, op: Any, extents: list[int], lines: int, length: int) -> list[str]:
    reduction = Reduction(op.kind, op.dst.dtype)
    wide, functor = c_type(reduction.wide), reduction.functor
    line, at, step, carry, value = (e.names.take(name) for name in ("line", "at", "step", "carry", "value"))
    source, target = _places(e, op, extents, line, lines, at, length)
    warps, chunks = e.scope.count // _WARP, -(-length // _WARP)
    chunk = f"({chunks - 1} - {step})" if op.reverse else step
    last = "0" if op.reverse else "31"
    loaded = converted(source, op.src.dtype, reduction.wide)
    stored = converted(value, reduction.wide, op.dst.dtype)
    return [
        f"for (int {line} = {e.thread} / {_WARP}; {line} < {lines}; {line} += {warps}) {{",
        f"  {wide} {carry} = {wide}(0);",
        "  #pragma unroll 1",
        f"  for (int {step} = 0; {step} < {chunks}; ++{step}) {{",
        f"    const int {at} = {chunk} * {_WARP} + tl::lane_rank();",
        f"    {wide} {value} = {at} < {length} ? {loaded} : {wide}(0);",
        f"    {value} = tl::warp_scan_part<{functor}, {str(bool(op.reverse)).lower()}>({value}, {length} - {chunk} * {_WARP});",
        f"    if ({step} > 0) {value} = {functor}::apply<{wide}>({carry}, {value});",
        f"    {carry} = tl::shfl_idx({value}, {last});",
        f"    if ({at} < {length}) {target} = {stored};",
        "  }",
        "}",
    ]


def _thread_lines(e: Any, op: Any, extents: list[int], lines: int, length: int) -> list[str]:
    """Blocks smaller than a warp: a thread takes a line."""
    reduction = Reduction(op.kind, op.dst.dtype)
    wide, functor = c_type(reduction.wide), reduction.functor
    line, at, step, carry = (e.names.take(name) for name in ("line", "at", "step", "carry"))
    source, target = _places(e, op, extents, line, lines, at, length)
    place = f"{length - 1} - {step}" if op.reverse else step
    loaded = converted(source, op.src.dtype, reduction.wide)
    return [
        f"for (int {line} = {e.thread}; {line} < {lines}; {line} += {e.scope.count}) {{",
        f"  {wide} {carry} = {wide}(0);",
        f"  for (int {step} = 0; {step} < {length}; ++{step}) {{",
        f"    const int {at} = {place};",
        f"    {carry} = {step} > 0 ? {functor}::apply<{wide}>({carry}, {loaded}) : {loaded};",
        f"    {target} = {converted(carry, reduction.wide, op.dst.dtype)};",
        "  }",
        "}",
    ]


def _places(e: Any, op: Any, extents: list[int], line: str, lines: int, at: str, length: int) -> tuple[str, str]:
    """C++ text of the element ``at`` of line ``line`` in the source and in the destination."""
    line_var, at_var = ir.Var(line, "int32"), ir.Var(at, "int32")
    e.var_text[line_var], e.var_text[at_var] = line, at
    e.facts.bind_range(line_var, lines)
    e.facts.bind_range(at_var, length)
    index: list[Any] = [None] * len(extents)
    rest: Any = line_var
    for axis in range(len(extents) - 1, -1, -1):
        if axis == op.dim:
            index[axis] = at_var
        elif extents[axis] == 1:
            index[axis] = ir.IntImm("int32", 0)
        else:
            index[axis] = ir.FloorMod(rest, ir.IntImm("int32", extents[axis]))
            rest = ir.FloorDiv(rest, ir.IntImm("int32", extents[axis]))
    return _place(e, op.src, index), _place(e, op.dst, index)


def _place(e: Any, region: Region, index: list[Any]) -> str:
    return e.places.place(region.buffer, [low + offset for low, offset in zip(region.mins, index)])
