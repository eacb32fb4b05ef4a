"""Which axes of tiles and loops are cut together, where tiles overhang the end of a tensor.

Statements link axes: a copy the axes of its source to those of its destination, a product the rows of A to those of C, and so on.
All that is linked to the end of a tensor is cut, unless it is linked to something that needs all of it, too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, difference, is_pure, same
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.visit import children, is_parallel, own_expressions, parallel_loops, statement_exprs, variables, walk
from tilelang.tileop import record_of
from tilelang.tileop.copy import Copy, Fill
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.hint import AnnotateLayout
from tilelang.tileop.reduce import Reduce

EDGE, SUM, STAYS = "edge", "sum", "stays"
"""What an axis is linked to: the end of a tensor, a sum over it, something that needs all of it."""

_PLAIN = ir.For, ir.SeqStmt, ir.IfThenElse, ir.Bind
"""Statements of an iteration, apart from stores, that change no memory."""

_Links = frozenset[Any]
"""Axes of tiles as ``(buffer's hash, axis)``, loops as their variables' hashes, and marks: shorter together, or not at all."""


@dataclass(frozen=True)
class Edge:
    """Where tiles overhang the end of a tensor.

    Attributes:
        extent: the length of a tile.
        inside: how many elements there are from the tile's first one to the tensor's end, a number or an expression.
        kept: the length of what is left of the tile.
    """

    extent: int
    inside: Any
    kept: Any

    @staticmethod
    def known(extent: int, inside: int) -> Edge:
        """An edge of a tensor whose size is known."""
        return Edge(extent, inside, inside)

    @staticmethod
    def unknown(extent: int, inside: Any) -> Edge:
        """An edge of a tensor whose size a call gives; it may lie past the tile, or before it."""
        kind = str(inside.ty)
        return Edge(extent, inside, ir.Max(ir.Min(inside, constant(extent, kind)), constant(0, kind)))

    def is_end(self, low: Any, extent: Any, size: Any) -> bool:
        """Whether elements from an index of a tensor on overhang it as the tiles do.

        Args:
            low: the first index.
            extent: how many elements.
            size: the length of the tensor.
        """
        if not isinstance(extent, int) or extent != self.extent:
            return False
        known = isinstance(low, int) and isinstance(size, int)
        if isinstance(self.inside, int):
            return known and size - low == self.inside
        return not known and same(difference(constant(size), constant(low)), self.inside)


def buffers_of(stmt: Any) -> Iterator[Any]:
    """The buffers that a statement itself names."""
    if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer)):
        yield stmt.buffer
    exprs = [stmt.data] if isinstance(stmt, ir.DeclBuffer) else statement_exprs(stmt)
    yield from (var for expr in exprs for var in variables(expr) if ir.is_buffer_var(var))


def cut_axes(stmt: Any, edge: Edge, tiles: Mapping[int, Any]) -> set[Any]:
    """The axes, loops and marks that are linked to an edge.

    Args:
        stmt: a statement with others inside.
        edge: where tiles overhang.
        tiles: the buffers of the block, by hash.
    """
    return _closure(link for inner in _outermost(stmt) for link in _Statement(inner, edge, tiles).links())


def _outermost(stmt: Any) -> Iterator[Any]:
    """The statements inside of a statement; a ``T.Parallel`` is one."""
    yield stmt
    for child in () if is_parallel(stmt) else children(stmt):
        yield from _outermost(child)


def _closure(links: Iterable[_Links]) -> set[Any]:
    """All that is linked to the ends of tensors, with the marks that it meets."""
    cut, reached, waiting = {EDGE}, {EDGE}, list(links)
    while more := [link for link in waiting if not reached.isdisjoint(link)]:
        waiting = [link for link in waiting if reached.isdisjoint(link)]
        cut.update(*more)
        reached = cut - {SUM, STAYS}
    return cut


@dataclass(frozen=True)
class _Statement:
    """A statement, and how it links axes.

    Attributes:
        stmt: the statement; of one with others inside, what it evaluates itself, but for ``T.Parallel``.
        edge: of the tensors.
        tiles: the buffers of the block, by hash.
    """

    stmt: Any
    edge: Edge
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
        named = Counter(hash(buffer) for buffer in buffers_of(self.stmt)) - Counter(hash(region.buffer) for region in regions)
        return [*found, *(self._all_stay(key) for key in named if key in self.tiles)]

    def _all_stay(self, key: int) -> _Links:
        return frozenset({STAYS, *((key, axis) for axis in range(len(self.tiles[key].shape)))})

    def _axis(self, region: Region, axis: int) -> _Links:
        """An axis of a region: an edge, or an axis of a tile that is walked from end to end; others stay."""
        low, extent, size = region.mins[axis], region.extents[axis], as_int(region.buffer.shape[axis])
        if is_global(region):
            return frozenset({EDGE if self._ends(low, extent, size) else STAYS})
        whole = low == 0 and isinstance(extent, int) and extent == size and not len(region.buffer.strides)
        return frozenset({(hash(region.buffer), axis)} | (set() if whole else {STAYS}))

    def _ends(self, low: Any, extent: Any, size: Any) -> bool:
        """Whether elements along an axis of a tensor overhang its end as the tiles do."""
        return self.edge.is_end(as_int(low), extent, size)

    def _of_copy(self, copy: Copy) -> list[_Links]:
        sides = copy.src, copy.dst
        walked = [[axis for axis, extent in enumerate(region.extents) if extent != 1] for region in sides]
        others = [self._axis(region, axis) for region in sides for axis, extent in enumerate(region.extents) if extent == 1]
        if len(walked[0]) == len(walked[1]):
            return [*others, *(self._axis(copy.src, a) | self._axis(copy.dst, b) for a, b in zip(*walked))]
        every = (self._axis(region, axis) for region, axes in zip(sides, walked) for axis in axes)
        return [*others, frozenset({STAYS}).union(*every)]

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
            self._axis(product.a, a_k) | self._axis(product.b, b_k) | {SUM},
        ]

    def _of_reduction(self, reduction: Reduce) -> list[_Links]:
        """An axis of the result is the one of the operand that it keeps; what is reduced is needed as it is."""
        src, dst = reduction.src, reduction.dst
        kept, of_result = reduction.kept, [axis for axis, extent in enumerate(dst.extents) if extent != 1]
        others = [self._axis(src, axis) | {STAYS} for axis in range(len(src.extents)) if axis not in kept]
        others += [self._axis(dst, axis) for axis in range(len(dst.extents)) if axis not in of_result]
        return [*others, *(self._axis(src, a) | self._axis(dst, b) for a, b in zip(kept, of_result))]

    def _of_loops(self) -> list[_Links]:
        """Of a ``T.Parallel``: an axis of a tile is linked to the loop that walks it."""
        loops = parallel_loops(self.stmt)
        extents = {hash(loop.loop_var): as_int(loop.extent) for loop in loops if loop.step is None and as_int(loop.min) == 0}
        every = {hash(loop.loop_var) for loop in loops}
        found: list[_Links] = [frozenset({key, STAYS}) for key in every - extents.keys()]

        def along(buffer: Any, indices: Sequence[Any]) -> None:
            for axis, index in enumerate(indices):
                walked = isinstance(index, ir.Var) and extents.get(hash(index)) == as_int(buffer.shape[axis])
                found.append(frozenset({(hash(buffer), axis), hash(index) if walked else STAYS}))

        for stmt in walk(loops[-1].body):
            if isinstance(stmt, ir.BufferStore):
                found += self._of_store(stmt, extents, every)
                if not is_global(stmt.buffer):
                    along(stmt.buffer, stmt.indices)
            elif not isinstance(stmt, _PLAIN):
                # It may do anything with what it names.
                found.append(frozenset({STAYS, *every}))
                found += [self._all_stay(hash(buffer)) for buffer in buffers_of(stmt) if not is_global(buffer)]
            for part in own_expressions(stmt):
                if isinstance(part, ir.TensorLoad) and not is_global(part.source):
                    along(part.source, part.indices)
                elif isinstance(part, ir.Call) and not is_pure(part):
                    found.append(frozenset({STAYS, *every}))
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
        return [frozenset({key, STAYS}) for key in every - walked]
