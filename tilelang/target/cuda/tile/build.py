"""Nests: those of ``T.Parallel`` and of copies, and the parts from which operators make theirs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.text import expr_text
from tilelang.ir.visit import conjunction, conjuncts, flattened, walk
from tilelang.target.cuda.tile.gather import in_place
from tilelang.target.cuda.tile.nest import Axis, Nest
from tilelang.tileop.thread import intrinsic_name
from tilelang.transform.accumulations import WITHIN_THREAD
from tilelang.transform.substitute import substitute

_NAMES = "ijklmn"


def parallel_nest(loop: Any) -> Nest:
    """The nest of a ``T.Parallel`` loop."""
    count = int(loop.annotations["tl.parallel"])
    notes = loop.annotations
    axes, node = [], loop
    for _ in range(count):
        if as_int(node.min) != 0:
            raise UnsupportedError("T.Parallel loops start at 0", location_of(loop.span))
        axes.append(replace(_axis(node.loop_var, node.extent, None), within_thread=WITHIN_THREAD in node.annotations))
        node = node.body
    _refuse_returns(node)
    node = in_place(block(_rest([node])) if _continues(node) else node)
    width = notes["tl.coalesced_width"] if "tl.coalesced_width" in notes else None
    layout = str(notes["tl.loop_layout"]) if "tl.loop_layout" in notes else None
    if layout is None:
        axes, node = _trimmed(axes, node)
    return Nest.build(tuple(axes), node, loop.span, "T.Parallel", vector=None if width is None else as_int(width), layout=layout)


def _refuse_returns(body: Any) -> None:
    """An iteration has no thread of its own that could return."""
    for stmt in walk(body):
        if isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return":
            remedy = "put what it skips under an if"
            raise UnsupportedError("return inside of T.Parallel is not supported on CUDA", location_of(stmt.span), remedy)


def _trimmed(axes: list[Axis], body: Any) -> tuple[list[Axis], Any]:
    """A nest whose whole body is under ``i < 16`` has 16 iterations along ``i``, however long the loop is."""
    # for i in T.Parallel(128): if i < 16: ... would otherwise be shared out over threads of which most have nothing to do.
    if not isinstance(body, ir.IfThenElse) or body.else_case is not None:
        return axes, body
    bounds: dict[Any, int] = {}
    rest: list[Any] = []
    for part in conjuncts(body.condition):
        is_bound = isinstance(part, (ir.LT, ir.LE)) and isinstance(part.b, ir.IntImm)
        limit = as_int(part.b) + isinstance(part, ir.LE) if is_bound else 0
        if limit > 0 and any(part.a.same_as(axis.var) and axis.limit is None for axis in axes):
            bounds[part.a] = min(limit, bounds.get(part.a, limit))
        else:
            rest.append(part)
    if not bounds:
        return axes, body
    axes = [replace(axis, extent=min(axis.extent, bounds.get(axis.var, axis.extent))) for axis in axes]
    return axes, ir.IfThenElse(conjunction(rest), body.then_case, None, body.span) if rest else body.then_case


def _axis(var: Any, extent: Any, bound: int | None) -> Axis:
    extent = as_int(extent)
    if isinstance(extent, int):
        return Axis(var, extent)
    return Axis(var, bound or 0, extent)


def axes_of(regions: Sequence[Region]) -> tuple[tuple[Axis, ...], list[Any]]:
    """One axis for each extent of the regions that is not 1, and the variables.

    An extent known only at run time is bounded by the size of a buffer on chip.
    """
    axes = []
    for place, extent in enumerate(regions[-1].shape):
        var = ir.Var(_NAMES[place] if place < len(_NAMES) else f"i{place}", "int32")
        bounds = [_bound(region, place) for region in regions]
        known = [bound for bound in bounds if bound is not None]
        axes.append(_axis(var, extent, min(known) if known else None))
    return (tuple(axes), [axis.var for axis in axes]) if axes else ((Axis(ir.Var("i", "int32"), 1),), [])


def index_at(position: Any, extents: Sequence[int]) -> list[Any]:
    """The index along each axis of a position in row-major order."""
    index: list[Any] = []
    for extent in reversed(extents):
        index.append(ir.FloorMod(position, constant(extent)) if extent > 1 else constant(0))
        position = ir.FloorDiv(position, constant(extent)) if extent > 1 else position
    return index[::-1]


def _bound(region: Region, place: int) -> int | None:
    """The size of the buffer axis that an axis of the region's shape lies in, where it is on chip."""
    if is_global(region):
        return None
    moving = [size for size, extent in zip(region.buffer.shape, region.extents) if extent != 1]
    size = as_int(moving[place]) if place < len(moving) else None
    return size if isinstance(size, int) else None


def cast_to(value: Any, dtype: str) -> Any:
    """A value as one of an element type."""
    return value if str(value.ty) == dtype else ir.Cast(dtype, value)


def _indices(region: Region, offsets: Sequence[Any]) -> list[Any]:
    return [constant(index) if isinstance(index, int) else index for index in region.index(offsets)]


def load_at(region: Region, offsets: Sequence[Any]) -> Any:
    """The element of a region at some offsets."""
    return ir.BufferLoad(region.buffer, _indices(region, offsets))


def store_at(region: Region, offsets: Sequence[Any], value: Any, span: Any) -> Any:
    """The store of a value, converted to the region's type, to an element of a region."""
    return ir.BufferStore(region.buffer, cast_to(value, region.dtype), _indices(region, offsets), span)


def copy_nest(op: Any, span: Any) -> Nest:
    """The nest of a copy."""
    axes, offsets = axes_of([op.src, op.dst])
    body = store_at(op.dst, offsets, load_at(op.src, offsets), span)
    layout = op.loop_layout if isinstance(op.loop_layout, str) else None
    return Nest.build(axes, body, span, "T.copy", vector=op.coalesced_width, layout=layout)


def typed(value: Any, dtype: str) -> Any:
    """A constant of an element type; expressions stay as they are."""
    if isinstance(value, (int, float)):
        return ir.FloatImm(dtype, float(value)) if canonical(dtype).is_float else ir.IntImm(dtype, int(value))
    return value


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
        # The innermost axis alone is taken in chunks; of the others one index at a time.
        size = _CHUNK if place == innermost else 1
        chunk, inner = ir.Var(f"{axis.var.name}_chunk", "int32"), ir.Var(axis.var.name, "int32")
        limit = cast_to(axis.limit, "int32")
        loops.append((chunk, (limit + (size - 1)) // size))
        values[axis.var] = cast_to(chunk * size + inner, str(axis.var.ty))
        axes.append(Axis(inner, size, limit - chunk * size if size > 1 else None, axis.within_thread))
    return loops, nest.over(substitute(nest.body, values), tuple(axes))


def describe(nest: Nest) -> str:
    """A nest in a message: ``T.Parallel(64, 32)``."""
    sizes = ", ".join(str(axis.extent) if axis.limit is None else expr_text(axis.limit) for axis in nest.axes)
    return f"{nest.origin}({sizes})" if nest.origin == "T.Parallel" else nest.origin


# If-conversion: ``continue`` in the body of a ``T.Parallel``, as a thread may run an iteration without any loop ------------


def _rest(stmts: list[Any]) -> list[Any]:
    """Statements in order, up to a ``continue``; what follows a branch that may reach one moves into its other ways on."""
    kept: list[Any] = []
    for place, stmt in enumerate(stmts):
        if not _continues(stmt):
            kept.append(stmt)
            continue
        # The rest is duplicated into both ways of the branch: each iteration runs one of them, and the one that continues drops
        # it.
        following = stmts[place + 1 :]
        if isinstance(stmt, ir.SeqStmt):
            return [*kept, *_rest([*stmt.seq, *following])]
        if isinstance(stmt, ir.IfThenElse):
            otherwise = [] if stmt.else_case is None else [stmt.else_case]
            then, otherwise = _rest([stmt.then_case, *following]), _rest([*otherwise, *following])
            if then:
                kept.append(ir.IfThenElse(stmt.condition, block(then), block(otherwise) if otherwise else None, stmt.span))
            elif otherwise:
                kept.append(ir.IfThenElse(ir.Not(stmt.condition), block(otherwise), None, stmt.span))
        elif isinstance(stmt, ir.AttrStmt):
            kept.append(ir.AttrStmt(stmt.node, stmt.attr_key, stmt.value, block(_rest([stmt.body, *following])), stmt.span))
        return kept
    return kept


def _continues(stmt: Any) -> bool:
    """Whether a statement may end the iteration that it stands in."""
    if isinstance(stmt, ir.SeqStmt):
        return any(map(_continues, stmt.seq))
    if isinstance(stmt, ir.IfThenElse):
        return _continues(stmt.then_case) or (stmt.else_case is not None and _continues(stmt.else_case))
    return isinstance(stmt, ir.Continue) or (isinstance(stmt, ir.AttrStmt) and _continues(stmt.body))


def block(stmts: list[Any]) -> Any:
    """One statement of several."""
    flat = [inner for stmt in stmts for inner in flattened(stmt)]
    if not flat:
        return ir.Evaluate(ir.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else ir.SeqStmt(flat)
