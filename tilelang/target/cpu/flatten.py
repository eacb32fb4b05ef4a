"""Step ``flatten``: a kernel that treats all elements of its tensors alike takes them in the order of memory, not by tiles.

Before: tile IR. After: the same, in which a kernel whose only statement is such a ``T.Parallel`` has one axis of blocks, and each
block is a run of elements that follow each other in memory, across rows. Tiles share elements out to a GPU's threads. On a CPU
each row of a tile is a loop with a beginning and an end of its own, rows of 1000 elements begin in the middle of a cache line,
and tiles at an edge are partly empty.

Elements are independent: an iteration loads the elements at the place that it stores to, and names no other place.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, is_pure, same
from tilelang.ir.memory import is_global
from tilelang.ir.visit import flattened, is_parallel, own_expressions, parallel_loops, variables
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.packed import PACKED
from tilelang.target.cpu.rewriter import StmtRewriter

_RUN, _STEP = 4096, 64
"""Elements of a block at most, and what their number is a multiple of: a line of the cache for bytes."""


def flatten(func: Any, context: Any) -> Any:
    """The program whose elementwise kernels take runs of elements."""
    # Without guards a last block that is longer than what is left would leave the tensors.
    return func.with_body(_Flattening().stmt(func.body)) if context.guards_accesses else func


class _Flattening(StmtRewriter):
    """Rewrites kernels."""

    def visit_AttrStmt(self, node: Any) -> Any:
        axes, body = [], node
        while isinstance(body, ir.AttrStmt) and body.attr_key == "thread_extent":
            axes.append(body)
            body = body.body
        flat = _in_runs(axes, parallel_loops(body)) if axes and is_parallel(body) else None
        return super().visit_AttrStmt(node) if flat is None else flat


def _in_runs(axes: Sequence[Any], loops: Sequence[Any]) -> Any | None:
    """The kernel over runs of elements; None where it is anything but independent elements of whole tensors.

    Args:
        axes: its grid and threads, the outermost first.
        loops: of its only statement, the outermost first.
    """
    statements = flattened(loops[-1].body)
    stores = [stmt for stmt in statements if isinstance(stmt, ir.BufferStore)]
    if not stores or not all(isinstance(stmt, (ir.BufferStore, ir.Bind)) for stmt in statements):
        return None
    place, shape = stores[0].indices, [as_int(size) for size in stores[0].buffer.shape]
    blocks = {axis.node.var: as_int(axis.value) for axis in axes if axis.node.thread_tag.startswith("blockIdx")}
    tile = {loop.loop_var: as_int(loop.extent) for loop in loops if as_int(loop.min) == 0 and loop.step is None}
    if len(shape) < 2 or len(tile) < len(loops) or not _are_all(place, shape, blocks, tile):
        return None
    run, block, i = _run(prod(shape)), ir.Var("block", "int32"), ir.Var("i", "int32")
    elements = _Elements(place, shape, block * run + i)
    moved = [elements.moved(stmt) for stmt in statements]
    places = {*blocks, *tile, *(axis.node.var for axis in axes)}
    if not _is_independent(moved, places) or not all(store.buffer in elements.views for store in stores):
        return None
    views = [ir.DeclBuffer(view, data=ir.buffer_data(tensor)) for tensor, view in elements.views.items()]
    notes, span = {"tl.parallel": constant(1)}, loops[0].span
    body = ir.For(i, constant(0), constant(run), ir.ForKind.PARALLEL, seq(moved), annotations=notes, span=span)
    count = constant(-(-prod(shape) // run))
    axis = ir.IterVar(ir.Range.from_min_extent(constant(0), count), block, ir.IterVar.ThreadIndex, "blockIdx.x")
    return ir.AttrStmt(axis, "thread_extent", count, seq(views, body), axes[0].span)


def _are_all(place: Sequence[Any], shape: Sequence[Any], blocks: Mapping[Any, Any], tile: Mapping[Any, Any]) -> bool:
    """Whether blocks and loops visit each element of a shape once, and nothing else inside of it.

    Args:
        place: the indices of an iteration's element.
        shape: the extents of its tensor.
        blocks, tile: variable -> extent.
    """
    extents = {**blocks, **tile}
    if not all(isinstance(extent, int) for extent in (*extents.values(), *shape)) or prod(shape) >= 2**31 - _RUN:
        return False
    left = set(extents)
    for index, size in zip(place, shape):
        used = set(variables(constant(index)))
        high, low = ([var for var in axes if var in used] for axes in (blocks, tile))
        length = prod(tile[var] for var in low)
        # Tiles side by side along an axis of the tensor, and no other axis.
        sides = len(high) <= 1 and len(low) <= 1 and used <= left and same(index, sum(high) * length + sum(low))
        if not sides or length * prod(blocks[var] for var in high) < size:
            return False
        left -= used
    return all(extents[var] == 1 for var in left)


def _run(count: int) -> int:
    """Elements of a block, if possible so many that all blocks are alike."""
    alike = (run for run in range(_RUN, _RUN // 4, -_STEP) if count % run == 0)
    return next(alike, min(_RUN, count))


def _is_independent(statements: Iterable[Any], places: set[Any]) -> bool:
    """Whether statements name none of the variables that say where they are, and change nothing but what they store to."""
    parts = [part for stmt in statements for part in own_expressions(stmt)]
    return all(is_pure(part) if isinstance(part, ir.Call) else part not in places for part in parts)


class _Elements:
    """The elements of an iteration.

    Attributes:
        views: tensor -> the same as a single row.
    """

    def __init__(self, place: Sequence[Any], shape: Sequence[int], at: Any):
        self.place, self.shape, self.at = place, shape, at
        self.views: dict[Any, Any] = {}

    def moved(self, stmt: Any) -> Any:
        """A statement with the element of the row in place of each tensor's element."""
        return tvm_ffi.structural_map(stmt, [(ir.TensorLoad, self._load), (ir.BufferStore, self._store)])

    def _load(self, load: Any) -> Any:
        view = self._view(load.source, load.indices)
        return load if view is None else ir.BufferLoad(view, [self.at], load.span)

    def _store(self, store: Any) -> Any:
        view = self._view(store.buffer, store.indices)
        return store if view is None else ir.BufferStore(view, store.value, [self.at], store.span)

    def _view(self, tensor: Any, indices: Sequence[Any]) -> Any | None:
        compact = is_global(tensor) and not len(tensor.strides) and str(tensor.dtype) not in PACKED
        alike = len(indices) == len(self.place) and all(map(same, (*tensor.shape, *indices), (*self.shape, *self.place)))
        if not compact or not alike:
            return None
        if tensor not in self.views:
            length, align = constant(prod(self.shape)), tensor.data_alignment
            view = ir.decl_buffer([length], str(tensor.dtype), f"{tensor.name}_row", data_alignment=align, layout=None)
            self.views[tensor] = view
        return self.views[tensor]
