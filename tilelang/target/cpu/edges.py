"""Step ``cut_edges``: where tiles do not divide a tensor, the last one is a smaller tile instead of one that overhangs.

Before: tile IR. After: the same, in which a kernel with products has its own statements for the last block along an axis of the
grid, and for the last turn of a loop:

    for k in range(4): copy(A[i, k * 32 : k * 32 + 32], a); …; gemm(a, b, c)        # A has 104 columns

becomes a loop over ``range(3)`` and ``copy(A[i, 96 : 104], a_last); …; gemm(a_last, b_last, c)``. No tile overhangs any more, so
that products read the tensors themselves (``forward_copies.py``), and there are as many multiply-adds as elements.

Where a call gives the size of a tensor, blocks whose tiles overhang it have statements of their own, too: their copies, loops and
products are over the part of a tile that lies inside, however long it is.

The result is the same where each row of what is cut off depends on that row alone: an axis of a tile that overhangs is followed
through copies, fills, products, reductions and ``T.Parallel`` loops to the axes of other tiles (``edge_axes.py``), all of which
are walked from end to end, and none of which leads to a tensor but past its end, where nothing is stored. Where a product sums
over the axis, its operands are copies from past the end of a tensor, which are zeros. An axis for which this does not hold stays
as it is.

Each variant of a product is compiled by itself, which takes time: a kernel has several for :data:`LEAST` multiply-adds or more,
and two where a call gives sizes. Where the only tile is larger than its tensor there is no other variant, and it is always cut.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import reduce
from typing import Any, TypeGuard

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, same, simplify
from tilelang.ir.memory import is_global, scope_of
from tilelang.ir.region import Region
from tilelang.ir.visit import children, flattened, is_parallel, variables, walk, walk_expr
from tilelang.target.cpu.edge_axes import STAYS, SUM, Edge, buffers_of, cut_axes
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.exits import may_exit
from tilelang.target.cpu.forward_copies import is_call, uses_of
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import record_of
from tilelang.tileop.copy import Copy, Fill
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.hint import AnnotateLayout, SafeValue
from tilelang.tileop.reduce import Reduce
from tilelang.transform.substitute import copied, substitute

LEAST = 2**28
"""Multiply-adds of a kernel whose edges are cut: about three milliseconds of one core."""


def cut_edges(func: Any, context: Any) -> Any:
    """The program with smaller last tiles."""
    work = _multiply_adds(func.body, {})
    if work == 0 or any(isinstance(record_of(stmt), SafeValue) for stmt in walk(func.body)):
        return func
    return func.with_body(_Cut(several=work >= LEAST).stmt(func.body))


def _multiply_adds(stmt: Any, block: Mapping[Any, Any]) -> int:
    """How many multiply-adds of products a statement has, as far as sizes are known.

    Args:
        stmt: the statement.
        block: the numbers of the block in the middle of the grid, whose turns are those of a mean block: loops may be causal.
    """
    if is_call(stmt, Gemm):
        product: Any = record_of(stmt)
        sizes = (product.m, product.n, product.k)
        return math.prod(sizes) if all(isinstance(size, int) for size in sizes) else 0
    turns = 1
    if isinstance(stmt, ir.For):
        turns = as_int(substitute(stmt.extent, block))
    elif isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent" and stmt.node.thread_tag.startswith("blockIdx"):
        turns, variable = as_int(stmt.value), stmt.node.var
        if isinstance(turns, int):
            block = {**block, variable: ir.IntImm(variable.ty, turns // 2)}
    inside = sum(_multiply_adds(child, block) for child in children(stmt))
    return inside * (turns if isinstance(turns, int) else 1)


class _Cut(StmtRewriter):
    """Rewrites kernels and the loops in them.

    Attributes:
        several: whether a kernel may have several variants of its statements.
        uses: how often the kernel around a statement names each variable, apart from allocations and hints.
    """

    def __init__(self, several: bool) -> None:
        self.several = several
        self.uses: Counter[int] | None = None

    def visit_AttrStmt(self, node: Any) -> Any:
        if node.attr_key != "thread_extent" or self.uses is not None:
            return super().visit_AttrStmt(node)
        axes, body = [], node
        while isinstance(body, ir.AttrStmt) and body.attr_key == "thread_extent":
            axes.append(body)
            body = body.body
        blocks = [axis for axis in axes if axis.node.thread_tag.startswith("blockIdx")]
        others = _partly_filled(body, [axis.node.var for axis in blocks])
        body = self._blocks(blocks, body)
        for condition, part in others:
            body = ir.IfThenElse(condition, self._blocks(blocks, part), body)
        for axis in reversed(axes):
            body = ir.AttrStmt(axis.node, axis.attr_key, axis.value, body, axis.span)
        return body

    def _blocks(self, axes: Sequence[Any], body: Any) -> Any:
        """The body of a kernel, with the last blocks along each of some axes apart."""
        if not axes:
            # Tiles that are larger than their tensors overhang in every block.
            for edge in sorted(set(_edges(body, None, 1)), key=astuple):
                body = _shortened(body, edge, set()) or body
            self.uses = _uses(body)
            done, self.uses = self.stmt(body), None
            return done
        (axis, *others), extent = axes, as_int(axes[0].value)
        variable = axis.node.var
        last = _last(body, variable, extent, set()) if self._may_cut(extent) else None
        if last is None:
            return self._blocks(others, body)
        end = self._blocks(others, last)
        if extent == 1:
            return end
        # What the condition says stands in the variable's place, too, so that no later step need look for it.
        bound = ir.Min(variable, ir.IntImm(variable.ty, extent - 2))
        start = self._blocks(others, substitute(body, {variable: bound}))
        return ir.IfThenElse(ir.LT(variable, ir.IntImm(variable.ty, extent - 1)), start, end)

    def _may_cut(self, extent: Any) -> TypeGuard[int]:
        """Whether the last of so many blocks or turns may be another variant."""
        return extent == 1 or self.several and isinstance(extent, int)

    def visit_For(self, node: Any) -> Any:
        if is_parallel(node):
            return node
        extent = as_int(node.extent)
        last = None
        # A turn that leaves its loop has to stay in it.
        counted = node.step is None and as_int(node.min) == 0 and self._may_cut(extent) and not may_exit(node.body)
        if self.uses is not None and counted:
            inside = _uses(node)
            last = _last(node.body, node.loop_var, extent, {key for key in inside if inside[key] != self.uses[key]})
        if last is None:
            return super().visit_For(node)
        end, count = self.stmt(last), constant(extent - 1, str(node.loop_var.ty))
        if extent == 1:
            return end
        body, notes = self.stmt(node.body), node.annotations
        return seq(ir.For(node.loop_var, node.min, count, node.kind, body, annotations=notes, span=node.span), end)


def _last(body: Any, variable: Any, extent: int, outside: set[int]) -> Any | None:
    """The last turn with smaller tiles; None where no tile overhangs, or one is needed as it is.

    Args:
        body: of a kernel or a loop.
        variable: the number of the block or turn.
        extent: how many there are.
        outside: the buffers (by hash) that other statements of the kernel use, too.
    """
    edges = set(_edges(body, variable, extent))
    if len(edges) != 1:
        return None
    return _shortened(copied(body, {variable: ir.IntImm(variable.ty, extent - 1)}), edges.pop(), outside)


def _partly_filled(body: Any, variables: Sequence[Any]) -> list[tuple[Any, Any]]:
    """The statements of blocks whose tiles overhang tensors of sizes that a call gives.

    Args:
        body: of a kernel.
        variables: the numbers of a block along the axes of the grid.

    Returns:
        Conditions and statements; a later condition comes before the others.
    """
    part, cut = copied(body, {}), list[Edge]()
    for variable in variables:
        edges = _distinct(_unknown_edges(body, variable))
        shortened = _shortened(part, edges[0], set()) if len(edges) == 1 else None
        if shortened is not None:
            part = shortened
            cut.append(edges[0])
    if not cut:
        return []
    found = [(reduce(ir.Or, (edge.inside < edge.extent for edge in cut)), part)]
    # A product of one row takes other instructions than those of several.
    if len(cut) == 1 and any(is_call(stmt, Gemm) and not isinstance(record_of(stmt).m, int) for stmt in walk(part)):
        (edge,) = cut
        found.append((edge.inside.equal(1), _shortened(copied(body, {}), replace(edge, kept=1), set())))
    return found


def _shortened(last: Any, edge: Edge, outside: set[int]) -> Any | None:
    """Statements with smaller tiles where they overhang; None where one is needed as it is.

    Args:
        last: the statements.
        edge: where tensors end.
        outside: the buffers (by hash) that other statements of the kernel use, too.
    """
    tiles = _tiles(last)
    cut = cut_axes(last, edge, tiles)
    held = {key for key in tiles if any((key, axis) in cut for axis in range(len(tiles[key].shape)))}
    if STAYS in cut or SUM in cut and not _are_zeros(last, held):
        return None
    # Views of tensors among them.
    own = {hash(stmt.buffer): stmt.buffer for stmt in walk(last) if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer))}
    # Where a tile is that of all turns, the last one may use no more of it than what it stores itself.
    if held & outside or not all(_begins_with_store(last, key) for key in held - own.keys()):
        return None
    changed = {**own, **{key: tiles[key] for key in tiles if key in held}}
    smaller = {key: _shorter(buffer, key, cut, edge) for key, buffer in changed.items()}
    # In the order of the program, which is the same in every process.
    allocations = [ir.AllocBuffer(smaller[key]) for key in tiles if key in held - own.keys()]
    renamed = substitute(_Shorter(cut, edge).stmt(last), {changed[key]: buffer for key, buffer in smaller.items()})
    return seq(allocations, renamed)


def _edges(body: Any, variable: Any, extent: int) -> Iterator[Edge]:
    """The ends of tensors that tiles overhang in the last turn, and not in the one before it.

    Args:
        body: of a kernel or a loop.
        variable: the number of the block or turn; None for the ends that tiles overhang always.
        extent: how many there are.
    """

    def at(low: Any, turn: int) -> Any:
        return low if isinstance(low, int) else as_int(substitute(low, {variable: ir.IntImm(variable.ty, turn)}))

    for region in _copied_regions(body):
        for low, length, size in zip(region.mins, region.extents, map(as_int, region.buffer.shape)):
            known = isinstance(length, int) and isinstance(size, int)
            if not known or size % length == 0 or not _depends(low, variable):
                continue
            last, before = at(low, extent - 1), at(low, max(0, extent - 2))
            if isinstance(last, int) and last < size < last + length and (extent == 1 or before + length <= size):
                yield Edge.known(length, size - last)


def _unknown_edges(body: Any, variable: Any) -> Iterator[Edge]:
    """The ends of tensors that tiles may overhang, by how far they are from the block ``variable`` of a grid.

    Args:
        body: of the kernel.
        variable: the number of the block.
    """
    defined = {hash(stmt.var) for stmt in walk(body) if isinstance(stmt, ir.Bind)}
    defined |= {hash(stmt.loop_var) for stmt in walk(body) if isinstance(stmt, ir.For)}
    for region in _copied_regions(body):
        for low, length, size in zip(region.mins, region.extents, map(as_int, region.buffer.shape)):
            if isinstance(length, int) and length > 1 and not isinstance(size, int) and _depends(low, variable):
                inside = simplify(size - low)
                # The condition is asked before the statements.
                if not any(isinstance(part, (ir.TensorLoad, ir.Call)) or hash(part) in defined for part in walk_expr(inside)):
                    yield Edge.unknown(length, inside)


def _distinct(edges: Iterable[Edge]) -> list[Edge]:
    found: list[Edge] = []
    for edge in edges:
        if not any(edge.extent == other.extent and same(edge.inside, other.inside) for other in found):
            found.append(edge)
    return found


def _copied_regions(body: Any) -> Iterator[Region]:
    """The regions of tensors that the copies of a kernel or a loop name."""
    for stmt in walk(body):
        if is_call(stmt, Copy):
            copy: Any = record_of(stmt)
            yield from filter(is_global, (copy.src, copy.dst))


def _depends(low: Any, variable: Any) -> bool:
    """Whether an index names a variable, or none where that is None."""
    return isinstance(low, int) if variable is None else any(var.same_as(variable) for var in variables(constant(low)))


def _tiles(body: Any) -> dict[int, Any]:
    """The buffers of a block, by hash."""
    named = (part for stmt in walk(body) for part in buffers_of(stmt))
    return {hash(buffer): buffer for buffer in named if not is_global(buffer)}


def _are_zeros(body: Any, tiles: set[int]) -> bool:
    """Whether tiles (by hash) hold copies of tensors alone."""
    for stmt in walk(body):
        record = record_of(stmt)
        regions = record.regions() if record is not None else []
        stored = {hash(region.buffer) for region, access in regions if "w" in access}
        if isinstance(stmt, ir.BufferStore):
            stored.add(hash(stmt.buffer))
        if stored & tiles and not (isinstance(record, Copy) and is_global(record.src)):
            return False
    return True


def _begins_with_store(body: Any, tile: int) -> bool:
    """Whether the first statement of a body that names a tile (by hash) stores all of it."""
    first = next((stmt for stmt in flattened(body) if uses_of(stmt)[tile]), None)
    record = record_of(first)
    return isinstance(record, (Copy, Fill)) and hash(record.dst.buffer) == tile and record.dst.is_whole


def _uses(body: Any) -> Counter[int]:
    """How often statements name each variable, apart from allocations and hints."""
    found = uses_of(body)
    for stmt in walk(body):
        if isinstance(stmt, ir.AllocBuffer) or isinstance(record_of(stmt), AnnotateLayout):
            found -= uses_of(stmt)
    return found


@dataclass(frozen=True)
class _Shorter(StmtRewriter):
    """Ends loops and regions where the tensors end."""

    cut: set[Any]
    edge: Edge

    def visit_For(self, node: Any) -> Any:
        body = self.stmt(node.body)
        extent = constant(self.edge.kept, str(node.loop_var.ty)) if hash(node.loop_var) in self.cut else node.extent
        return ir.For(
            node.loop_var, node.min, extent, node.kind, body, annotations=node.annotations, step=node.step, span=node.span
        )

    def visit_Evaluate(self, node: Any) -> Any:
        record = record_of(node)
        if isinstance(record, AnnotateLayout) or not isinstance(record, (Copy, Fill, Gemm, Reduce)):
            return node
        changed = {name: self._region(value) for name, value in vars(record).items() if isinstance(value, Region)}
        return replace(record, **changed).to_stmt(node.span)

    def _region(self, region: Region) -> Region:
        extents = [self.edge.kept if self._is_cut(region, axis) else extent for axis, extent in enumerate(region.extents)]
        return Region(region.buffer, region.mins, tuple(extents))

    def _is_cut(self, region: Region, axis: int) -> bool:
        if not is_global(region):
            return (hash(region.buffer), axis) in self.cut
        return self.edge.is_end(region.mins[axis], region.extents[axis], as_int(region.buffer.shape[axis]))


def _shorter(buffer: Any, key: int, cut: set[Any], edge: Edge) -> Any:
    """A buffer for the last turn; of the same shape where the size of what is left is not known."""
    known = isinstance(edge.kept, int)
    shape = [edge.kept if known and (key, axis) in cut else size for axis, size in enumerate(buffer.shape)]
    kind, place = {"scope": scope_of(buffer), "strides": list(buffer.strides)}, buffer.data_alignment
    return ir.decl_buffer(shape, str(buffer.dtype), name=buffer.name, layout=None, data_alignment=place, **kind)
