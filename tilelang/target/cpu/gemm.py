"""``T.gemm``: panels of B, broadcast elements of A, accumulators in registers.

B is packed into panels as wide as a register tile, so that the inner loop reads it in order; A is read in place where its
elements need no conversion, and is converted into scratch otherwise. The micro-kernel holds ``rows x vectors`` accumulator
registers over the whole of K: each step loads ``vectors`` registers of B, and broadcasts ``rows`` elements of A.

Products are formed in one of the ways of ``dot.py``: element by element in float32, float64 or an integer type, or by
instructions that sum several products (two of bfloat16 into float32, two of 16-bit or four of 8-bit integers into int32).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.region import Region
from tilelang.target.cpu.context import VectorUnit
from tilelang.target.cpu.dot import Way, choose_way
from tilelang.target.cpu.emit import alloc, cast, local, loop, nest, register_alloc, seq, span, splat, zero
from tilelang.target.cpu.lower import Scope, rule
from tilelang.target.cpu.transposed import SIDE, transpose
from tilelang.tileop.gemm import Gemm

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
class Matrices:
    """One product after its operands were prepared; every callable takes indices and gives an expression.

    Attributes:
        m, n, k: extents; ``k`` counts steps of :attr:`way`.
        a: ``(row, step, lanes)`` -> the element of A for one step (or those for ``lanes`` steps).
        panel: the packed B, ``[panel, step, column]``.
        c: where C is accumulated: a buffer of the accumulator type and its first row and column.
        excess: row -> what the way's bias adds to each sum of that row; None where it has no bias.
    """

    m: Any
    n: Any
    k: Any
    a: Elements
    panel: Any
    c: Any
    c_prefix: tuple[Any, ...]
    c_row: Any
    c_column: Any
    way: Way
    excess: Callable[[Any], Any] | None = None


def register_tile(unit: VectorUnit, dtype: str, m: Any, n: Any) -> Tile:
    """The tile for products of an accumulator type: wide enough to hide latency, and dividing M where one does."""
    lanes = unit.lanes(canonical(dtype).bits)
    if isinstance(n, int):
        while lanes > 4 and lanes // 2 >= n:
            lanes //= 2
    vectors = 1 if isinstance(n, int) and n <= lanes else 2
    most = 8 if unit.registers >= 32 else (6 if vectors == 2 else 8)
    if not isinstance(m, int):
        return Tile(min(most, 4), vectors, lanes)
    candidates = list(range(min(most, m), 0, -1))
    dividing = [rows for rows in candidates if m % rows == 0 and 2 * rows >= candidates[0]]
    return Tile((dividing or candidates)[0], vectors, lanes)


@rule(Gemm)
def lower_gemm(record: Gemm, scope: Scope) -> Any:
    """``C (+)= op(A) op(B)``; see the module's text."""
    m, n, k = as_int(record.m), as_int(record.n), as_int(record.k)
    way = choose_way(record.a.dtype, record.b.dtype, record.c.dtype, k, scope.context)
    tile = register_tile(scope.context.vectors, way.accumulator, m, n)
    steps = k // way.depth if isinstance(k, int) else k
    allocations, prepare = [], []
    a = _prepare_a(record, way, steps, scope, allocations, prepare)
    panel = _pack_b(record, way, tile, steps, allocations, prepare)
    c, into, out_of = _accumulator(record, way, allocations)
    excess = _row_sums(record, way, a, steps, scope, allocations, prepare) if way.bias else None
    matrices = Matrices(m, n, steps, a, panel, *c, way, excess)
    return seq(allocations, prepare, into, _all_tiles(matrices, tile), out_of)


def _bound(region: Region, axis: int) -> Any:
    """An extent for scratch memory: the region's, or its buffer's where the region's depends on the call."""
    extent = as_int(region.extents[axis])
    return extent if isinstance(extent, int) else as_int(region.buffer.shape[axis])


def _element(region: Region, row: Any, column: Any) -> Any:
    """The load of one element of a matrix region, its leading axes fixed."""
    indices = [*region.mins[:-2], region.mins[-2] + row, region.mins[-1] + column]
    return ir.BufferLoad(region.buffer, indices)


# Operands


def _prepare_a(record: Gemm, way: Way, steps: Any, scope: Scope, allocations: list, prepare: list) -> Elements:
    """How the micro-kernel reads A: in place, or from a converted copy ``[row, step]``."""
    a, transposed = record.a, record.transpose_a
    if way.depth == 1 and a.dtype == way.operand:
        return lambda row, step: _element(a, step, row) if transposed else _element(a, row, step)
    view = None if transposed else _joined_view(a, way, scope)
    if view is not None:
        buffer, declaration, column = view
        allocations.append(declaration)
        prefix = list(a.mins[:-2])
        return lambda row, step, lanes=1: ir.BufferLoad(buffer, [*prefix, a.mins[-2] + row, span(column + step, lanes)])
    rows = _bound(a, -1 if transposed else -2)
    most = _bound(a, -2 if transposed else -1)
    scratch = local("a_panel", (rows, most // way.depth), way.panel)
    allocations += alloc(scratch)

    def element(row: Any, depth_index: Any) -> Any:
        return _element(a, depth_index, row) if transposed else _element(a, row, depth_index)

    prepare.append(
        nest(
            [record.m, steps],
            lambda at: ir.BufferStore(scratch, way.pack(lambda d: element(at[0], at[1] * way.depth + d)), at),
            "mk",
        )
    )
    return lambda row, step, lanes=1: ir.BufferLoad(scratch, [row, span(step, lanes)])


def _joined_view(region: Region, way: Way, scope: Scope) -> tuple[Any, Any, Any] | None:
    """A's rows read as panel elements without a copy, where these are aligned; the view, its declaration, its first column."""
    width, first, depth = as_int(region.buffer.shape[-1]), region.mins[-1], way.depth
    stored_as_is = depth > 1 and region.dtype == way.operand
    if not stored_as_is or len(region.buffer.strides) or not isinstance(width, int) or width % depth:
        return None
    if not scope.facts.divisible(first, depth):
        return None
    shape = [*region.buffer.shape[:-1], width // depth]
    view = ir.decl_buffer(shape, way.panel, name=f"{region.buffer.name}_joined", layout=None, data_alignment=4)
    column = scope.facts.simplify(ir.FloorDiv(constant(first), constant(depth)))
    return view, ir.DeclBuffer(view, data=ir.buffer_data(region.buffer)), column


def _row_sums(
    record: Gemm, way: Way, a: Elements, steps: int, scope: Scope, allocations: list, prepare: list
) -> Callable[[Any], Any]:
    """``bias`` times the sum of each row of A: its product with a column of ones, by the instruction that forms all others."""
    lanes = scope.context.vectors.lanes(32)
    sums = local("a_sums", (_bound(record.a, -1 if record.transpose_a else -2),), way.accumulator)
    partial = local("partial", (lanes,), way.accumulator)
    allocations += alloc(sums)
    ones, nothing = ir.IntImm(way.panel, 0x01010101), ir.IntImm(way.accumulator, 0)

    def row(at: list[Any]) -> Any:
        def add(step: Any, width: int) -> Any:
            place, factor = [span(0, width)], splat(ones, width)
            more = way.multiply_add(ir.BufferLoad(partial, place), a(at[0], step, width), factor, width)
            return ir.BufferStore(partial, more, place)

        full, rest = divmod(steps, lanes)
        total = sum((ir.BufferLoad(partial, [lane]) for lane in range(1, lanes)), ir.BufferLoad(partial, [0]))
        return seq(
            alloc(partial),
            ir.BufferStore(partial, ir.Broadcast(nothing, lanes), [span(0, lanes)]),
            loop("k", full, lambda k: add(k * lanes, lanes)),
            loop("k", rest, lambda k: add(full * lanes + k, 1)),
            ir.BufferStore(sums, total * ir.IntImm(way.accumulator, way.bias), at),
        )

    prepare.append(nest([record.m], row, "m"))
    return lambda at: ir.BufferLoad(sums, [at])


def _pack_b(record: Gemm, way: Way, tile: Tile, steps: Any, allocations: list, prepare: list) -> Any:
    """B as ``[panel, step, column]``; columns past N are left as they are, the micro-kernel does not read them."""
    b, transposed = record.b, record.transpose_b
    columns, depth = _bound(b, -2 if transposed else -1), _bound(b, -1 if transposed else -2)
    width = tile.columns
    panels = _ceil(columns, width)
    panel = local("b_panel", (panels, _ceil(depth, way.depth), width), way.panel)
    allocations += alloc(panel)

    def store(p: Any, step: Any, column: Any) -> Any:
        n = p * width + column

        def element(d: int) -> Any:
            return _element(b, n, step * way.depth + d) if transposed else _element(b, step * way.depth + d, n)

        return ir.BufferStore(panel, way.pack_b(element), [p, step, column])

    def block(p: Any, v: Any, k: Any) -> Any:
        source = _element(b, p * width + v * SIDE, k * (SIDE * way.depth))
        words = as_int(b.buffer.shape[-1]) // way.depth
        return transpose(ir.BufferLoad(panel, [p, k * SIDE, v * SIDE]), width, source, words, 0x80808080 if way.bias else 0)

    full = _floor(record.n, width)
    done = steps // SIDE * SIDE if transposed and _is_of_words(b, way, tile, steps) else 0
    prepare.append(nest([full, width // SIDE, done // SIDE], lambda at: block(*at), "pvk") if done else None)
    prepare.append(nest([full, steps - done, width], lambda at: store(at[0], done + at[1], at[2]), "pkj"))
    rest = as_int(record.n - full * width)
    if rest != 0:
        prepare.append(nest([steps, rest], lambda at: store(full, at[0], at[1]), "kj"))
    return panel


def _is_of_words(b: Region, way: Way, tile: Tile, steps: Any) -> bool:
    """Whether the rows of a transposed B are panel elements of 32 bits side by side, and panels whole blocks of them."""
    width = as_int(b.buffer.shape[-1])
    stored_as_is = b.dtype == (way.operand_b or way.operand) and not len(b.buffer.strides)
    words = canonical(way.panel).bits == 32 and isinstance(width, int) and width % way.depth == 0
    return stored_as_is and words and isinstance(steps, int) and tile.lanes == SIDE


def _ceil(value: Any, divisor: int) -> Any:
    return -(-value // divisor) if isinstance(value, int) else ir.FloorDiv(value + (divisor - 1), constant(divisor))


def _floor(value: Any, divisor: int) -> Any:
    return value // divisor if isinstance(value, int) else ir.FloorDiv(value, constant(divisor))


def _accumulator(record: Gemm, way: Way, allocations: list) -> tuple[tuple[Any, ...], Any, Any]:
    """Where C is accumulated, and the statements before and after.

    C itself where it has the accumulator's type; else a copy of that type, rounded into C once at the end.
    """
    c = record.c
    clear = record.clear_accum
    clear = bool(clear) if isinstance(clear, (bool, int)) else clear
    if c.dtype == way.accumulator:
        place = (c.buffer, tuple(c.mins[:-2]), c.mins[-2], c.mins[-1])
        cleared = nest([record.m, record.n], lambda at: _set(c, at, zero(c.dtype)))
        return place, _when_cleared(clear, cleared, None), None
    scratch = local("accumulator", (_bound(c, -2), _bound(c, -1)), way.accumulator)
    allocations += alloc(scratch)

    def fill(value: Callable[[list], Any]) -> Any:
        return nest([record.m, record.n], lambda at: ir.BufferStore(scratch, value(at), at))

    zeros = fill(lambda at: zero(way.accumulator))
    old = fill(lambda at: cast(_element(c, *at), way.accumulator))
    out = nest([record.m, record.n], lambda at: _set(c, at, cast(ir.BufferLoad(scratch, at), c.dtype)))
    return (scratch, (), 0, 0), _when_cleared(clear, zeros, old), out


def _when_cleared(clear: Any, cleared: Any, otherwise: Any) -> Any:
    if isinstance(clear, bool):
        return cleared if clear else otherwise
    return ir.IfThenElse(clear, cleared, otherwise)


def _set(region: Region, at: list[Any], value: Any) -> Any:
    indices = [*region.mins[:-2], region.mins[-2] + at[0], region.mins[-1] + at[1]]
    return ir.BufferStore(region.buffer, value, indices)


# The micro-kernel


def _all_tiles(x: Matrices, tile: Tile) -> Any:
    """All of C: full panels, then what is left of N in narrower registers."""
    full = _floor(x.n, tile.columns)
    parts = [loop("p", full, lambda p: _panel(x, tile, p, p * tile.columns, 0))]
    if not isinstance(x.n, int):
        rest = x.n - full * tile.columns
        one = Tile(tile.rows, 1, 1)
        parts.append(loop("j", rest, lambda j: _panel(x, one, full, full * tile.columns + j, j)))
        return seq(parts)
    column = 0
    for piece in _pieces(x.n - full * tile.columns, tile):
        parts.append(_panel(x, piece, full, full * tile.columns + column, column))
        column += piece.columns
    return seq(parts)


def _pieces(columns: int, tile: Tile) -> list[Tile]:
    """Register tiles for the last columns: whole registers, then halves, quarters, …"""
    pieces, lanes = [], tile.lanes
    while columns:
        vectors, columns = divmod(columns, lanes)
        if vectors:
            pieces.append(Tile(tile.rows, vectors, lanes))
        lanes //= 2
    return pieces


def _panel(x: Matrices, tile: Tile, p: Any, column: Any, inside: Any) -> Any:
    """All rows of C under one panel; ``column`` counts in C, ``inside`` in the panel."""
    full = _floor(x.m, tile.rows)
    parts = [loop("q", full, lambda q: _micro(x, tile, q * tile.rows, p, column, inside))]
    if isinstance(x.m, int):
        rest = x.m - full * tile.rows
        if rest:
            parts.append(_micro(x, Tile(rest, tile.vectors, tile.lanes), full * tile.rows, p, column, inside))
    else:
        single = Tile(1, tile.vectors, tile.lanes)
        rest = x.m - full * tile.rows
        parts.append(loop("q1", rest, lambda q: _micro(x, single, full * tile.rows + q, p, column, inside)))
    return seq(parts)


def _micro(x: Matrices, tile: Tile, row: Any, p: Any, column: Any, inside: Any) -> Any:
    """One register tile over all of K."""
    lanes, way = tile.lanes, x.way
    registers = [(r, v) for r in range(tile.rows) for v in range(tile.vectors)]
    acc = local("acc", (len(registers) * lanes,), way.accumulator)

    def at(r: int, v: int) -> list[Any]:
        return [span((r * tile.vectors + v) * lanes, lanes)]

    rows = [x.c_row + row + r for r in range(tile.rows)]
    columns = [span(x.c_column + column + v * lanes, lanes) for v in range(tile.vectors)]

    def load_c(r: int, v: int) -> Any:
        value = ir.BufferLoad(x.c, [*x.c_prefix, rows[r], columns[v]])
        if x.excess is None:
            return value
        excess = x.excess(row + r)
        return value - splat(excess, lanes)

    def step(k: Any) -> Any:
        b = [ir.Var(f"b{v}", way.panel_vector(lanes)) for v in range(tile.vectors)]
        loads = [ir.Bind(b[v], ir.BufferLoad(x.panel, [p, k, span(inside + v * lanes, lanes)])) for v in range(tile.vectors)]
        updates = []
        for r in range(tile.rows):
            broadcast = ir.Var(f"a{r}", way.panel_vector(lanes))
            value = x.a(row + r, k)
            updates.append(ir.Bind(broadcast, splat(value, lanes)))
            for v in range(tile.vectors):
                old = ir.BufferLoad(acc, at(r, v))
                updates.append(ir.BufferStore(acc, way.multiply_add(old, broadcast, b[v], lanes), at(r, v)))
        return seq(loads, updates)

    load = [ir.BufferStore(acc, load_c(r, v), at(r, v)) for r, v in registers]
    store = [ir.BufferStore(x.c, ir.BufferLoad(acc, at(r, v)), [*x.c_prefix, rows[r], columns[v]]) for r, v in registers]
    return seq(register_alloc(acc, lanes), load, loop("k", x.k, step), store)
