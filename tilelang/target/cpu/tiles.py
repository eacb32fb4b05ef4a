"""The micro-kernel of a product: a tile of C in registers over the whole of K, and the tiles that C is cut into."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant
from tilelang.ir.region import Region
from tilelang.target.cpu.context import VectorUnit
from tilelang.target.cpu.dot import DotProduct
from tilelang.target.cpu.emit import local, loop, register_alloc, seq, span, splat, when, zero

Elements = Callable[..., Any]
"""``(row, step)`` -> a panel element; ``(row, step, lanes)`` -> those of ``lanes`` steps."""


@dataclass(frozen=True)
class Tile:
    """The register tile.

    Attributes:
        rows: rows of C.
        vectors: registers along the columns of C.
        lanes: elements in one register.
    """

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of C."""
        return self.vectors * self.lanes


@dataclass(frozen=True)
class Columns:
    """B as the micro-kernel reads it.

    Attributes:
        registers: ``(panel, step, column, lanes)`` -> the elements of so many columns, counted in a panel.
        ahead: ``(panel, step)`` -> the statement that fetches a later step; None where the caches hold B.
        keep: ``(panel, step, column, value, lanes)`` -> the statement that stores what was loaded, for later rows of tiles.
        first: how the first row of tiles reads B, where it differs.
        fresh: whether it differs: a bool, or an expression.
        pack: ``(panel, columns)`` -> the statement that packs so many columns of a panel, when its turn comes; None where all are
            packed before, or none is.
    """

    registers: Callable[[Any, Any, Any, int], Any]
    ahead: Callable[[Any, Any], Any] | None = None
    keep: Callable[[Any, Any, Any, Any, int], Any] | None = None
    first: Columns | None = None
    fresh: Any = True
    pack: Callable[[Any, Any], Any] | None = None


@dataclass(frozen=True)
class Matrices:
    """A product whose A and C are ready; every callable takes indices and gives an expression.

    Attributes:
        m, n, k: extents; ``k`` counts steps of :attr:`dot`.
        a: the elements of A.
        c: where C is accumulated: a matrix of the accumulator type, whose rows lie along the last axis of its buffer.
        cleared: whether the old content of C is ignored: a bool, or an expression.
        excess: row -> what the bias of the instruction adds to each sum of that row; None where it has no bias.
        fetched: ``(row, column, tile)`` -> the statement by which a register tile fetches where it will be copied to; None where
            that is not known, or not next.
        target: where the sums are stored in place of C, and when: a bool, or an expression.
    """

    m: Any
    n: Any
    k: Any
    a: Elements
    c: Region
    dot: DotProduct
    cleared: Any = False
    excess: Callable[[Any], Any] | None = None
    fetched: Callable[[Any, Any, Tile], Any] | None = None
    target: tuple[Region | None, Any] = (None, False)

    def element(self, row: Any, column: Any, lanes: int = 1) -> Any:
        """The load of elements of C.

        Args:
            row, column: of the element of C, or of the first one.
            lanes: how many elements of the row.
        """
        return element(self.c, row, column, lanes)


def element(region: Region, row: Any, column: Any, lanes: int = 1) -> Any:
    """The load of an element of a matrix region, or of consecutive ones of a row.

    Args:
        region: the matrix.
        row, column: of the element, or of the first one.
        lanes: how many elements of the row, which lies along the last axis of the buffer if they are several.
    """
    *indices, last = region.matrix_index(row, column)
    return ir.BufferLoad(region.buffer, [*indices, span(last, lanes)])


def register_tile(unit: VectorUnit, dtype: str, m: Any, n: Any) -> Tile:
    """The tile for products of an accumulator type: wide enough to hide latency, and dividing M where one does.

    Four registers wide where that is all of N: each element of A is then loaded once, and B is one panel.

    Args:
        unit: the machine's vector unit.
        dtype: the accumulator type.
        m, n: extents of C; expressions where they are not known.
    """
    lanes = unit.lanes(canonical(dtype).stored_bits)
    if isinstance(n, int):
        # Fewer columns than half a register: a narrower one wastes less.
        while lanes > 4 and lanes // 2 >= n:
            lanes //= 2
    many = unit.registers >= 32
    if isinstance(m, int) and m <= 4:
        # Few rows make few accumulators; more columns keep as many additions in flight (an addition takes four cycles, and two
        # start in each).
        wide = (16 if many else 8) // m
        return Tile(m, min(wide, n // lanes or 1) if isinstance(n, int) else min(wide, 2), lanes)
    vectors = 1 if isinstance(n, int) and n <= lanes else 4 if many and n == 4 * lanes else 2
    # Accumulators, a row of B and an element of A have to fit the registers: 4 * 6 + 4 + 1 of 32, 2 * 6 + 2 + 1 of 16.
    most = {1: 8, 2: 8 if many else 6, 4: 6}[vectors]
    if not isinstance(m, int):
        return Tile(min(most, 4), vectors, lanes)
    # A number of rows that divides M needs no second kernel for the rest, but not at any price: at least half of the most.
    candidates = list(range(min(most, m), 0, -1))
    dividing = [rows for rows in candidates if m % rows == 0 and 2 * rows >= candidates[0]]
    return Tile((dividing or candidates)[0], vectors, lanes)


def multiply(x: Matrices, b: Columns, tile: Tile) -> Any:
    """All of C: full panels, then the remaining columns in narrower registers.

    Args:
        x: the product with its A and C.
        b: how B is read.
        tile: the register tile.
    """
    full = whole(x.n, tile.columns)
    rest = x.n - full * tile.columns

    def packed(p: Any, columns: Any) -> Any:
        return b.pack(p, columns) if b.pack else None

    parts = [loop("p", full, lambda p: seq(packed(p, tile.columns), _panel(x, b, tile, p, p * tile.columns, 0)))]
    parts.append(packed(full, rest))
    if not isinstance(x.n, int):
        # How many columns are left is not known: no register tile of several is sure to fit.
        one = Tile(tile.rows, 1, 1)
        parts.append(loop("j", rest, lambda j: _panel(x, b, one, full, full * tile.columns + j, j)))
        return seq(parts)
    column = 0
    for piece in _pieces(rest, tile):
        parts.append(_panel(x, b, piece, full, full * tile.columns + column, column))
        column += piece.columns
    return seq(parts)


def whole(value: Any, divisor: int) -> Any:
    """How many times ``divisor`` goes into a size."""
    return value // divisor if isinstance(value, int) else ir.FloorDiv(value, constant(divisor))


def _pieces(columns: int, tile: Tile) -> list[Tile]:
    """Register tiles for the last columns: whole registers, then halves, quarters, …"""
    pieces, lanes = [], tile.lanes
    while columns:
        vectors, columns = divmod(columns, lanes)
        if vectors:
            pieces.append(Tile(tile.rows, vectors, lanes))
        lanes //= 2
    return pieces


def _panel(x: Matrices, b: Columns, tile: Tile, p: Any, column: Any, inside: Any) -> Any:
    """All rows of C under one panel; ``column`` counts in C, ``inside`` in the panel."""
    full = whole(x.m, tile.rows)
    parts, peeled = [], 0
    if b.first is not None:
        packing = _micro(x, b.first, tile, 0, p, column, inside)
        known = b.fresh is True
        parts, peeled = [packing if known else when(b.fresh, packing)], 1 if known else ir.Cast("int32", b.fresh)
    parts.append(loop("q", full - peeled, lambda q: _micro(x, b, tile, (q + peeled) * tile.rows, p, column, inside)))
    if isinstance(x.m, int):
        rest = x.m - full * tile.rows
        if rest:
            parts.append(_micro(x, b, Tile(rest, tile.vectors, tile.lanes), full * tile.rows, p, column, inside))
    else:
        single = Tile(1, tile.vectors, tile.lanes)
        rest = x.m - full * tile.rows
        parts.append(loop("q1", rest, lambda q: _micro(x, b, single, full * tile.rows + q, p, column, inside)))
    return seq(parts)


def _micro(x: Matrices, b: Columns, tile: Tile, row: Any, p: Any, column: Any, inside: Any) -> Any:
    """One register tile over all of K."""
    lanes, dot = tile.lanes, x.dot
    registers = [(r, v) for r in range(tile.rows) for v in range(tile.vectors)]
    acc = local("acc", (len(registers) * lanes,), dot.accumulator)

    def at(r: int, v: int) -> list[Any]:
        return [span((r * tile.vectors + v) * lanes, lanes)]

    def start(cleared: bool) -> list[Any]:
        def value(r: int, v: int) -> Any:
            old = splat(zero(dot.accumulator), lanes) if cleared else x.element(row + r, column + v * lanes, lanes)
            # Subtracted first: integer sums wrap around, so that the order does not matter, and it costs no pass of its own.
            return old if x.excess is None else old - splat(x.excess(row + r), lanes)

        return [ir.BufferStore(acc, value(r, v), at(r, v)) for r, v in registers]

    def step(k: Any) -> Any:
        # An outer product for each k: a register of B for each vector, one broadcast of A for each row. All accumulators stay in
        # registers over the whole of K, which is what the size of a tile is chosen for.
        factors = [ir.Var(f"b{v}", dot.panel_vector(lanes)) for v in range(tile.vectors)]
        loads = [ir.Bind(factor, b.registers(p, k, inside + v * lanes, lanes)) for v, factor in enumerate(factors)]
        updates = []
        for r in range(tile.rows):
            broadcast = ir.Var(f"a{r}", dot.panel_vector(lanes))
            updates.append(ir.Bind(broadcast, splat(x.a(row + r, k), lanes)))
            for v in range(tile.vectors):
                old = ir.BufferLoad(acc, at(r, v))
                updates.append(ir.BufferStore(acc, dot.multiply_add(old, broadcast, factors[v], lanes), at(r, v)))
        kept = [b.keep(p, k, inside + v * lanes, factor, lanes) for v, factor in enumerate(factors)] if b.keep else None
        return seq(b.ahead(p, k) if b.ahead else None, loads, kept, updates)

    known = isinstance(x.cleared, bool)
    load = start(x.cleared) if known else ir.IfThenElse(x.cleared, seq(start(True)), seq(start(False)))
    places = [(row + r, column + v * lanes, ir.BufferLoad(acc, at(r, v))) for r, v in registers]
    store = _stored(x, places)
    fetched = x.fetched(row, column, tile) if x.fetched else None
    return seq(fetched, register_alloc(acc, lanes), load, loop("k", x.k, step), store)


def _stored(x: Matrices, places: Sequence[tuple[Any, Any, Any]]) -> Any:
    """The statement that stores registers of sums, given with the row and column of their first element."""

    def into(region: Region) -> Any:
        lanes = [canonical(str(value.ty)).lanes for _, _, value in places]
        loads = [element(region, row, column, count) for (row, column, _), count in zip(places, lanes)]
        return seq([ir.BufferStore(region.buffer, value, load.indices) for load, (_, _, value) in zip(loads, places)])

    target, now = x.target
    if target is None or now is False:
        return into(x.c)
    return into(target) if now is True else ir.IfThenElse(now, into(target), into(x.c))
