"""Step ``cut_edges``: where tiles do not divide a tensor, the last one is a smaller tile instead of one that overhangs.

Before: tile IR. After: the same, in which a kernel with products has its own statements for the last block along an axis of the
grid, and for the last turn of a loop:

    for k in range(4): copy(A[i, k * 32 : k * 32 + 32], a); …; gemm(a, b, c)        # A has 104 columns

becomes a loop over ``range(3)`` and ``copy(A[i, 96 : 104], a_last); …; gemm(a_last, b_last, c)``. No tile overhangs any more, so
that products read the tensors themselves (``forward_copies.py``), and there are as many multiply-adds as elements.

The result is the same where each row of what is cut off depends on that row alone: an axis of a tile that overhangs is followed
through copies, fills, products, reductions and ``T.Parallel`` loops to the axes of other tiles, all of which are walked from end
to end, and none of which leads to a tensor but past its end, where nothing is stored. Where a product sums over the axis, its
operands are copies from past the end of a tensor, which are zeros. An axis for which this does not hold stays as it is.

Each variant of a product is compiled by itself, which takes time: a kernel has several for :data:`LEAST` multiply-adds or more.
Where the only tile is larger than its tensor there is no other variant, and it is always cut.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeGuard

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, is_pure
from tilelang.ir.memory import is_global, scope_of
from tilelang.ir.region import Region
from tilelang.ir.visit import (
    children,
    flattened,
    is_parallel,
    own_expressions,
    parallel_loops,
    statement_exprs,
    variables,
    walk,
)
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

_EDGE, _SUM, _STAYS = "edge", "sum", "stays"
"""What an axis is linked to: the end of a tensor, a sum over it, something that needs all of it."""

_PLAIN = ir.For, ir.SeqStmt, ir.IfThenElse, ir.Bind
"""Statements of an iteration, apart from stores, that change no memory."""

_Links = frozenset[Any]
"""Axes of tiles as ``(buffer's hash, axis)``, loops as their variables' hashes, and marks: shorter together, or not at all."""

_Edge = tuple[int, int]
"""The extent of a tile, and how many of its elements lie inside of a tensor."""


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
        body = self._blocks([axis for axis in axes if axis.node.thread_tag.startswith("blockIdx")], body)
        for axis in reversed(axes):
            body = ir.AttrStmt(axis.node, axis.attr_key, axis.value, body, axis.span)
        return body

    def _blocks(self, axes: Sequence[Any], body: Any) -> Any:
        """The body of a kernel, with the last blocks along each of some axes apart."""
        if not axes:
            # Tiles that are larger than their tensors overhang in every block.
            for edge in sorted(set(_edges(body, None, 1))):
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


def _shortened(last: Any, edge: _Edge, outside: set[int]) -> Any | None:
    """Statements with smaller tiles where they overhang; None where one is needed as it is.

    Args:
        last: the statements.
        edge: where tensors end.
        outside: the buffers (by hash) that other statements of the kernel use, too.
    """
    tiles = _tiles(last)
    cut = _closure(link for stmt in _outermost(last) for link in _Statement(stmt, edge, tiles).links())
    held = {key for key in tiles if any((key, axis) in cut for axis in range(len(tiles[key].shape)))}
    if _STAYS in cut or _SUM in cut and not _are_zeros(last, held):
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


def _edges(body: Any, variable: Any, extent: int) -> Iterator[_Edge]:
    """The ends of tensors that tiles overhang in the last turn, and not in the one before it.

    Args:
        body: of a kernel or a loop.
        variable: the number of the block or turn; None for the ends that tiles overhang always.
        extent: how many there are.
    """

    def at(low: Any, turn: int) -> Any:
        return low if isinstance(low, int) else as_int(substitute(low, {variable: ir.IntImm(variable.ty, turn)}))

    for stmt in walk(body):
        record: Any = record_of(stmt) if is_call(stmt, Copy) else None
        for region in filter(is_global, (record.src, record.dst)) if record is not None else ():
            for low, length, size in zip(region.mins, region.extents, map(as_int, region.buffer.shape)):
                known = isinstance(length, int) and isinstance(size, int)
                if not known or size % length == 0 or not _depends(low, variable):
                    continue
                last, before = at(low, extent - 1), at(low, max(0, extent - 2))
                if isinstance(last, int) and last < size < last + length and (extent == 1 or before + length <= size):
                    yield length, size - last


def _depends(low: Any, variable: Any) -> bool:
    """Whether an index names a variable, or none where that is None."""
    return isinstance(low, int) if variable is None else any(var.same_as(variable) for var in variables(constant(low)))


def _outermost(stmt: Any) -> Iterator[Any]:
    """The statements inside of a statement; a ``T.Parallel`` is one."""
    yield stmt
    for child in () if is_parallel(stmt) else children(stmt):
        yield from _outermost(child)


def _tiles(body: Any) -> dict[int, Any]:
    """The buffers of a block, by hash."""
    named = (part for stmt in walk(body) for part in _buffers(stmt))
    return {hash(buffer): buffer for buffer in named if not is_global(buffer)}


def _buffers(stmt: Any) -> Iterator[Any]:
    """The buffers that a statement itself names."""
    if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)):
        yield stmt.buffer
    exprs = [stmt.data] if isinstance(stmt, ir.DeclBuffer) else statement_exprs(stmt)
    yield from (var for expr in exprs for var in variables(expr) if ir.is_buffer_var(var))


def _closure(links: Iterable[_Links]) -> set[Any]:
    """All that is linked to the ends of tensors, with the marks that it meets."""
    cut, reached, waiting = {_EDGE}, {_EDGE}, list(links)
    while more := [link for link in waiting if not reached.isdisjoint(link)]:
        waiting = [link for link in waiting if reached.isdisjoint(link)]
        cut.update(*more)
        reached = cut - {_SUM, _STAYS}
    return cut


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
class _Statement:
    """A statement, and how it links axes.

    Attributes:
        stmt: the statement; of one with others inside, what it evaluates itself, but for ``T.Parallel``.
        edge: of the tensors.
        tiles: the buffers of the block, by hash.
    """

    stmt: Any
    edge: _Edge
    tiles: Mapping[int, Any]

    def links(self) -> list[_Links]:
        """What it links."""
        record = record_of(self.stmt)
        if isinstance(self.stmt, ir.AllocBuffer) or isinstance(record, AnnotateLayout):
            return []
        if is_parallel(self.stmt):
            return self._of_loops()
        regions = [region for region, _ in record.regions()] if record is not None else []
        if isinstance(record, Copy):
            found = self._of_copy(record)
        elif isinstance(record, Gemm):
            found = self._of_product(record)
        elif isinstance(record, Reduce):
            found = self._of_reduction(record)
        elif isinstance(record, Fill):
            found = [self._axis(record.dst, axis) for axis in range(len(record.dst.extents))] if not is_global(record.dst) else []
        else:
            regions, found = [], []
        # What names a buffer in another way may need any element of it.
        named = Counter(hash(buffer) for buffer in _buffers(self.stmt)) - Counter(hash(region.buffer) for region in regions)
        return [*found, *(self._all_stay(key) for key in named if key in self.tiles)]

    def _all_stay(self, key: int) -> _Links:
        return frozenset({_STAYS, *((key, axis) for axis in range(len(self.tiles[key].shape)))})

    def _axis(self, region: Region, axis: int) -> _Links:
        """An axis of a region: an edge, or an axis of a tile that is walked from end to end; others stay."""
        low, extent, size = region.mins[axis], region.extents[axis], as_int(region.buffer.shape[axis])
        if is_global(region):
            return frozenset({_EDGE if self._ends(low, extent, size) else _STAYS})
        whole = low == 0 and isinstance(extent, int) and extent == size and not len(region.buffer.strides)
        return frozenset({(hash(region.buffer), axis)} | (set() if whole else {_STAYS}))

    def _ends(self, low: Any, extent: Any, size: Any) -> bool:
        """Whether elements along an axis of a tensor overhang its end as the tiles do."""
        return _is_edge(as_int(low), extent, size, self.edge)

    def _of_copy(self, copy: Copy) -> list[_Links]:
        sides = copy.src, copy.dst
        walked = [[axis for axis, extent in enumerate(region.extents) if extent != 1] for region in sides]
        others = [self._axis(region, axis) for region in sides for axis, extent in enumerate(region.extents) if extent == 1]
        if len(walked[0]) == len(walked[1]):
            return [*others, *(self._axis(copy.src, a) | self._axis(copy.dst, b) for a, b in zip(*walked))]
        every = (self._axis(region, axis) for region, axes in zip(sides, walked) for axis in axes)
        return [*others, frozenset({_STAYS}).union(*every)]

    def _of_product(self, product: Gemm) -> list[_Links]:
        (a_row, a_column), (b_row, b_column) = product.a.matrix_axes, product.b.matrix_axes
        m, a_k = (a_column, a_row) if product.transpose_a else (a_row, a_column)
        b_k, n = (b_column, b_row) if product.transpose_b else (b_row, b_column)
        c_row, c_column = product.c.matrix_axes
        others = [
            self._axis(region, axis)
            for region in (product.a, product.b, product.c)
            for axis in range(len(region.extents))
            if axis not in region.matrix_axes
        ]
        return [
            *others,
            self._axis(product.a, m) | self._axis(product.c, c_row),
            self._axis(product.b, n) | self._axis(product.c, c_column),
            self._axis(product.a, a_k) | self._axis(product.b, b_k) | {_SUM},
        ]

    def _of_reduction(self, reduction: Reduce) -> list[_Links]:
        """An axis of the result is the one of the operand that it keeps; what is reduced is needed as it is."""
        src, dst = reduction.src, reduction.dst
        kept, of_result = reduction.kept, [axis for axis, extent in enumerate(dst.extents) if extent != 1]
        others = [self._axis(src, axis) | {_STAYS} for axis in range(len(src.extents)) if axis not in kept]
        others += [self._axis(dst, axis) for axis in range(len(dst.extents)) if axis not in of_result]
        return [*others, *(self._axis(src, a) | self._axis(dst, b) for a, b in zip(kept, of_result))]

    def _of_loops(self) -> list[_Links]:
        """Of a ``T.Parallel``: an axis of a tile is linked to the loop that walks it."""
        loops = parallel_loops(self.stmt)
        extents = {hash(loop.loop_var): as_int(loop.extent) for loop in loops if loop.step is None and as_int(loop.min) == 0}
        every = {hash(loop.loop_var) for loop in loops}
        found: list[_Links] = [frozenset({key, _STAYS}) for key in every - extents.keys()]

        def along(buffer: Any, indices: Sequence[Any]) -> None:
            for axis, index in enumerate(indices):
                walked = isinstance(index, ir.Var) and extents.get(hash(index)) == as_int(buffer.shape[axis])
                found.append(frozenset({(hash(buffer), axis), hash(index) if walked else _STAYS}))

        for stmt in walk(loops[-1].body):
            if isinstance(stmt, ir.BufferStore):
                found += self._of_store(stmt, extents, every)
                if not is_global(stmt.buffer):
                    along(stmt.buffer, stmt.indices)
            elif not isinstance(stmt, _PLAIN):
                # It may do anything with what it names.
                found.append(frozenset({_STAYS, *every}))
                found += [self._all_stay(hash(buffer)) for buffer in _buffers(stmt) if not is_global(buffer)]
            for part in own_expressions(stmt):
                if isinstance(part, ir.TensorLoad) and not is_global(part.source):
                    along(part.source, part.indices)
                elif isinstance(part, ir.Call) and not is_pure(part):
                    found.append(frozenset({_STAYS, *every}))
        return found

    def _of_store(self, store: Any, extents: Mapping[int, Any], every: set[int]) -> list[_Links]:
        """A loop may end earlier where each of its iterations stores to elements of its own, that are cut off or past an end."""
        inside = not is_global(store.buffer)
        walked = {
            hash(variable)
            for index, size in zip(store.indices, map(as_int, store.buffer.shape))
            for variable in variables(index)
            if hash(variable) in extents
            and (index.same_as(variable) if inside else self._ends(index - variable, extents[hash(variable)], size))
        }
        return [frozenset({key, _STAYS}) for key in every - walked]


@dataclass(frozen=True)
class _Shorter(StmtRewriter):
    """Ends loops and regions where the tensors end."""

    cut: set[Any]
    edge: _Edge

    def visit_For(self, node: Any) -> Any:
        body = self.stmt(node.body)
        extent = constant(self.edge[1], str(node.loop_var.ty)) if hash(node.loop_var) in self.cut else node.extent
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
        extents = [self.edge[1] if self._is_cut(region, axis) else extent for axis, extent in enumerate(region.extents)]
        return Region(region.buffer, region.mins, tuple(extents))

    def _is_cut(self, region: Region, axis: int) -> bool:
        if not is_global(region):
            return (hash(region.buffer), axis) in self.cut
        return _is_edge(region.mins[axis], region.extents[axis], as_int(region.buffer.shape[axis]), self.edge)


def _is_edge(low: Any, extent: Any, size: Any, edge: _Edge) -> bool:
    return isinstance(low, int) and isinstance(size, int) and (extent, size - low) == edge


def _shorter(buffer: Any, key: int, cut: set[Any], edge: _Edge) -> Any:
    """A buffer for the last turn."""
    shape = [edge[1] if (key, axis) in cut else size for axis, size in enumerate(buffer.shape)]
    kind, place = {"scope": scope_of(buffer), "strides": list(buffer.strides)}, buffer.data_alignment
    return ir.decl_buffer(shape, str(buffer.dtype), name=buffer.name, layout=None, data_alignment=place, **kind)
