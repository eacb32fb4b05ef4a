"""Products by the tiles of AMX: registers of 16 rows of 64 bytes, and an instruction that multiplies two of them.

C is cut into blocks of up to 32 x 32 elements, which four tiles hold over all of K; two hold rows of A, two a panel of B, whose
words are the pairs or fours along K that ``dot.py`` packs. Tiles of C are loaded, or begin as zeros, and are stored where they
belong. Edges are tiles of fewer rows and columns: which ones a tile has is said when the unit is configured.

The configuration is state of the thread. A product sets it and releases the tiles at its end; nothing leaves a product before, so
that other code of the thread (torch's own products) finds the unit as it was. The system grants a process the registers when it
is asked: ``host.py`` asks before it names the instructions as features, and the entry of a kernel that has them asks once more,
since a library may be loaded by another process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant
from tilelang.ir.region import Region
from tilelang.target.cpu.dot import DotProduct
from tilelang.target.cpu.emit import address_of, cast, extern_call, local, loop, nest, seq
from tilelang.target.cpu.kept import Kept
from tilelang.target.cpu.panels import Before, are_rows_dense, bound, columns_of, pitch
from tilelang.target.cpu.tile_code import CONFIGURE, RELEASE, ROWS, WORDS, block_name
from tilelang.target.cpu.tiles import Columns, Matrices, Tile, element
from tilelang.target.cpu.transposed import SIDE, transpose
from tilelang.tileop.gemm import Gemm

BLOCK = Tile(2 * ROWS, 2, WORDS)
"""The block of C that the tiles hold."""


@dataclass(frozen=True)
class _Rows:
    """Rows of A as tiles load them.

    Attributes:
        load: row -> its first element.
        pitch: bytes from one row to the next.
    """

    load: Callable[[Any], Any]
    pitch: Any


@dataclass(frozen=True)
class _Run:
    """Blocks of one shape along an axis of C: the first, how many they are, and the extent of each."""

    first: int
    count: int
    extent: int


def multiply_by_tiles(record: Gemm, x: Matrices, before: Before, kept: Kept | None) -> Any:
    """All of C.

    Args:
        record: the product; A and B are read as it says.
        x: the same with its C; its extents are numbers.
        before: takes the statements that run before the product.
        kept: the panels that blocks leave for the next ones.
    """
    a = _rows_of_a(record, x.dot, x.k, before)
    b = columns_of(record, x.dot, BLOCK, x.k, before, kept)
    panels, length = (int(size) for size in b.registers(0, 0, 0, 1).source.shape[:2])
    filled = min(panels, -(-x.n // BLOCK.columns))
    before.statements.append(
        _zeros(lambda p, k, column: b.registers(p, k, column, 1), (filled,), (x.k, length), (BLOCK.columns,))
    )
    rows, columns = _runs(x.m), _runs(x.n)
    one = len(rows) == len(columns) == 1

    def shaped(row: _Run, column: _Run) -> Any:
        return None if one else _configured((row.extent, column.extent))

    def blocks(row: _Run, column: _Run, q: Any, p: Any) -> Any:
        return _block(x, a, b, (q, p), (row.extent, column.extent))

    def under(column: _Run, p: Any) -> Any:
        # A panel stays in the first-level cache, while rows of A come from the second.
        runs = [seq(shaped(row, column), _loop("q", row, lambda q, r=row: blocks(r, column, q, p))) for row in rows]
        return seq(b.pack(p, column.extent) if b.pack else None, *runs)

    product = [_loop("p", column, partial(under, column)) for column in columns]
    start = _configured((rows[0].extent, columns[0].extent)) if one else None
    return seq(start, product, ir.Evaluate(extern_call(RELEASE, [], "int32", pure=False)))


def _runs(extent: int) -> list[_Run]:
    """An extent of C in blocks: whole ones, and a rest."""
    full, rest = divmod(extent, BLOCK.rows)
    return [run for run in (_Run(0, full, BLOCK.rows), _Run(full, 1, rest)) if run.count and run.extent]


def _loop(name: str, run: _Run, body: Callable[[Any], Any]) -> Any:
    return loop(name, run.count, lambda turn: body(turn + run.first))


def _configured(shape: tuple[int, int]) -> Any:
    """The statement that gives the tiles the shapes of a block of so many rows and columns: four of C, two of A, two of B."""
    heights, widths = _halves(shape[0]), [4 * half for half in _halves(shape[1])]
    c = [(height, width) for height in heights for width in widths]
    a, b = [(height, 4 * WORDS) for height in heights], [(WORDS, width) for width in widths]
    # A tile that is not used has neither rows nor columns.
    tiles = [(height, width) if height and width else (0, 0) for height, width in (*c, *a, *b)]
    # Bytes of a row in 16 bits for each tile, then rows in 8 bits.
    words = [sum(width << (16 * i) for i, (_, width) in enumerate(half)) for half in (tiles[:4], tiles[4:])]
    words.append(sum(height << (8 * i) for i, (height, _) in enumerate(tiles)))
    return ir.Evaluate(extern_call(CONFIGURE, [ir.IntImm("int64", word) for word in words], "int32", pure=False))


def _halves(extent: int) -> tuple[int, int]:
    """The extents of the two tiles along an axis of a block; the second may have none."""
    return min(extent, ROWS), max(extent - ROWS, 0)


def _block(x: Matrices, a: _Rows, b: Columns, place: tuple[Any, Any], shape: tuple[int, int]) -> Any:
    """One block of C over all of K.

    Args:
        x, a, b: the product, rows of A, columns of B.
        place: its number along both axes.
        shape: its rows and columns.
    """
    name = block_name(x.dot.tile, *(-(-extent // ROWS) for extent in shape))
    row, column = place[0] * BLOCK.rows, place[1] * BLOCK.columns
    cleared = ir.Cast("int32", constant(x.cleared))

    def formed(load: Any, pitch: Any) -> Any:
        """The statement that stores the block from an element on, in rows of so many bytes."""
        places = [address_of(element(x.c, row, column)), _row_bytes(x.c), address_of(load), pitch]
        factors = [address_of(a.load(row)), a.pitch, address_of(b.registers(place[1], 0, 0, 1))]
        steps = ir.IntImm("int64", -(-x.k // WORDS))
        return ir.Evaluate(extern_call(name, [*places, *factors, steps, cleared], "int32", pure=False))

    def into(region: Region) -> Any:
        if region.dtype == x.c.dtype:
            return formed(element(region, row, column), _row_bytes(region))
        sums = local("sums", (BLOCK.rows, BLOCK.columns), x.c.dtype)

        first = ir.BufferLoad(sums, [0, 0])

        def converted(at: list[Any]) -> Any:
            value = cast(ir.BufferLoad(sums, at), region.dtype)
            return ir.BufferStore(region.buffer, value, element(region, row + at[0], column + at[1]).indices)

        def rounded() -> Any:
            target = [address_of(element(region, row, column)), _row_bytes(region)]
            rows = ir.IntImm("int64", shape[0])
            return ir.Evaluate(extern_call(x.dot.rounding, [*target, address_of(first), rows], "int32", pure=False))

        whole_rows = x.dot.rounding and region.dtype == "bfloat16" and shape[1] == BLOCK.columns
        return seq(
            ir.AllocBuffer(sums),
            formed(first, ir.IntImm("int64", 4 * BLOCK.columns)),
            rounded() if whole_rows else nest(shape, converted),
        )

    fetched = x.fetched(row, column, Tile(shape[0], -(-shape[1] // WORDS), WORDS)) if x.fetched else None
    target, now = x.target
    if target is None or now is False:
        return seq(fetched, into(x.c))
    return seq(fetched, into(target) if now is True else ir.IfThenElse(now, into(target), into(x.c)))


def _row_bytes(region: Region) -> Any:
    return ir.Cast("int64", constant(pitch(region))) * ir.IntImm("int64", canonical(region.dtype).bytes)


def _rows_of_a(record: Gemm, dot: DotProduct, steps: int, before: Before) -> _Rows:
    """A in place where its rows are what tiles load, or packed into whole tiles: words of pairs or fours along K."""
    a = record.a
    if not record.transpose_a and a.dtype == dot.operand and are_rows_dense(a) and steps % WORDS == 0:
        return _Rows(lambda row: element(a, row, 0), _row_bytes(a))
    rows, length = bound(a, 1 if record.transpose_a else 0), -(-steps // WORDS) * WORDS
    scratch = local("a_panel", (rows, length), dot.panel)
    before.allocations.append(ir.AllocBuffer(scratch))
    pack = _pack_transposed if record.transpose_a else _pack
    word = lambda *at: ir.BufferLoad(scratch, list(at))  # noqa: E731
    before.statements.extend([*pack(record, dot, steps, scratch, before), _zeros(word, (rows,), (steps, length), ())])
    return _Rows(lambda row: word(row, 0), ir.IntImm("int64", 4 * length))


def _pack(record: Gemm, dot: DotProduct, steps: int, target: Any, before: Before) -> Iterator[Any]:
    """The statements that pack rows along K."""

    def word(at: list[Any]) -> Any:
        return ir.BufferStore(target, dot.pack(lambda d: element(record.a, at[0], at[1] * dot.depth + d)), at)

    yield nest([record.m, steps], word, "mk")


def _pack_transposed(record: Gemm, dot: DotProduct, steps: int, target: Any, before: Before) -> Iterator[Any]:
    """The statements that pack columns: words of neighbouring rows first, which are transposed by blocks."""
    m, length = record.m, int(target.shape[1])
    words = local("a_words", (steps, m), dot.panel)
    before.allocations.append(ir.AllocBuffer(words))

    def word(at: list[Any]) -> Any:
        return ir.BufferStore(words, dot.pack(lambda d: element(record.a, at[0] * dot.depth + d, at[1])), at)

    def block(at: list[Any]) -> Any:
        row, step = at[0] * SIDE, at[1] * SIDE
        return transpose(ir.BufferLoad(target, [row, step]), length, ir.BufferLoad(words, [step, row]), m)

    def single(at: list[Any], row: Any, step: Any) -> Any:
        place = [row + at[0], step + at[1]]
        return ir.BufferStore(target, ir.BufferLoad(words, place[::-1]), place)

    yield nest([steps, m], word, "km")
    rows, columns = m // SIDE, steps // SIDE
    yield nest([rows, columns], block, "mk")
    yield nest([rows * SIDE, steps - columns * SIDE], lambda at: single(at, 0, columns * SIDE), "mk")
    yield nest([m - rows * SIDE, steps], lambda at: single(at, rows * SIDE, 0), "mk")


def _zeros(word: Callable[..., Any], outer: tuple[Any, ...], words: tuple[int, int], inner: tuple[int, ...]) -> Any:
    """Zeros in words of K, which fill the last tile.

    Args:
        word: indices -> the load of a word.
        outer, inner: extents of the axes before and after that of K.
        words: the first word of K, and the one after the last.
    """
    axis = len(outer)

    def store(at: list[Any]) -> Any:
        load = word(*at[:axis], at[axis] + words[0], *at[axis + 1 :])
        return ir.BufferStore(load.source, ir.IntImm(str(load.ty), 0), load.indices)

    return nest([*outer, words[1] - words[0], *inner], store)
