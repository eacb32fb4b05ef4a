"""``T.gemm``: panels of B, broadcast elements of A, accumulators in registers.

B is packed into panels (``panels.py``), so that the inner loop reads it in order; A is read in place where its elements need no
conversion, and is converted into scratch otherwise. The micro-kernel (``tiles.py``) holds ``rows x vectors`` accumulators over
all of K: each step loads ``vectors`` registers of B, and broadcasts ``rows`` elements of A. A K that is too long for the caches
is cut into products that follow each other, and so is that of few rows, for which B comes from memory. Few rows with a transposed
B are dot products (``thin.py``).

Products are formed as ``dot.py`` chooses: element by element in float32, float64 or an integer type, by instructions that sum
several products (two of bfloat16 into float32, two of 16-bit or four of 8-bit integers into int32), or by those of AMX on whole
tiles (``amx.py``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import ThreadsOnCpuError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.region import Region
from tilelang.target.cpu.amx import multiply_by_tiles
from tilelang.target.cpu.dot import DotProduct, choose_dot_product
from tilelang.target.cpu.emit import alloc, cast, local, loop, nest, seq, span, splat, when
from tilelang.target.cpu.lower import Scope, rule
from tilelang.target.cpu.panels import Before, are_rows_dense, bound, columns_of, is_near, summed, widening
from tilelang.target.cpu.results import Result
from tilelang.target.cpu.thin import ROWS, dot_products
from tilelang.target.cpu.tiles import Elements, Matrices, element, multiply, register_tile
from tilelang.tileop.gemm import Gemm

_ROWS_IN_ORDER = 32
"""Rows of a B that comes from memory which few rows of A are multiplied by before the next ones. The register tile reads them in
strips of some hundred columns; the pages of so many rows stay in the processor's first table of addresses for all strips (one row
times 2048 × 2048 in float32: 922 µs for all 2048 rows at once, 788 for 256, 617 for 32, 605 for 16)."""


@rule(Gemm)
def lower_gemm(record: Gemm, scope: Scope) -> Any:
    """``C (+)= op(A) op(B)``; see the module's text."""
    if record.kind == "tcgen05":
        raise ThreadsOnCpuError("T.tcgen05_gemm")
    few = _is_few(record)
    read_once = few and not record.transpose_b and record.b.dtype == "bfloat16" and not len(record.b.buffer.strides)
    # Ways that sum several products need pairs of rows of B packed, which does not pay if they are read only once.
    depth = None if read_once else as_int(record.k)
    types = record.a.dtype, record.b.dtype, record.c.dtype
    dot = choose_dot_product(*types, depth, scope.context, loads_bind=few, tiles=_fits_tiles(record))
    scratch, c, into, out_of = _accumulator(record, dot)
    result = scope.results.get(hash(c.buffer)) if c.is_whole and not few else None
    if result is not None and result.region.dtype != c.dtype and not dot.tile:
        # Registers are stored as they are; blocks that tiles hold pass memory anyway, and are converted there.
        result = replace(result, disjoint=False)
    if result is not None:
        scope.stored[hash(c.buffer)] = result.disjoint
    return seq(scratch, into, _by_depths(record, dot, c, result, scope), out_of)


def _fits_tiles(record: Gemm) -> bool:
    """Whether tiles can hold blocks of C: its extents are known, and its rows are evenly spaced."""
    return all(isinstance(as_int(size), int) for size in (record.m, record.n)) and not len(record.c.buffer.strides)


def _is_few(record: Gemm) -> bool:
    """Whether there are so few rows that a transposed B is read as it lies."""
    m = as_int(record.m)
    return isinstance(m, int) and m <= ROWS


def _is_in_strips(record: Gemm, dot: DotProduct, rows: int, scope: Scope) -> bool:
    """Whether few rows are multiplied by a row-major B in several strips of columns, and ``rows`` rows of B lie far apart."""
    if record.transpose_b:
        return False
    n, (b, axis) = as_int(record.n), summed(record)[1]
    tile = register_tile(scope.context.vectors, dot.accumulator, as_int(record.m), n)
    return not (isinstance(n, int) and n <= tile.columns) and not is_near(b.part(axis, 0, rows))


def _by_depths(record: Gemm, dot: DotProduct, c: Region, result: Result | None, scope: Scope) -> Any:
    """The product as several of fewer elements along K, each of which adds to the sums of the ones before.

    Args:
        record: the product; its C is where ``c`` says.
        dot: how products are formed.
        c: where sums are kept.
        result: where they are copied to; None where that is not known.
        scope: of the statement.
    """
    k, cleared = as_int(record.k), _cleared(record)
    few = _is_few(record)
    most = _ROWS_IN_ORDER * dot.depth if few else dot.most
    whole = few and not _is_in_strips(record, dot, most, scope)
    if not isinstance(k, int) or whole or k <= most and (k % dot.unit == 0 or k < dot.unit):
        return _product(record, dot, c, cleared, result, scope)
    # Of tiles along K, the last may have fewer words: a product of its own.
    steps, ragged = divmod(k, dot.unit)
    count = -(-steps * dot.unit // most)
    # As equal as possible: a short one would load and store all of C for a few steps.
    each, longer = divmod(steps, count)

    def parts(first: int, count: int, depth: int, cleared: Any, result: Result | None) -> Any:
        """``count`` products of a depth, from an element of K on; ``cleared`` is of the first, ``result`` of the last."""

        def part(turn: Any) -> Any:
            (a, a_axis), (b, b_axis) = summed(record)
            low = turn * depth + first
            shorter = replace(record, a=a.part(a_axis, low, depth), b=b.part(b_axis, low, depth))
            ending = None if result is None else replace(result, last=_at(count - 1, turn, result.last))
            with nullcontext() if scope.kept is None else scope.kept.around(turn, 0, count):
                return _product(shorter, dot, c, _at(0, turn, cleared), ending, scope)

        return loop("kk", count, part)

    long = (each + 1) * dot.unit
    ending = None if ragged else result
    rest = parts(longer * long, count - longer, each * dot.unit, False if longer else cleared, ending)
    last = parts(k - ragged, 1, ragged, False, result) if ragged else None
    return seq(parts(0, longer, long, cleared, None), rest, last)


def _at(number: int, turn: Any, condition: Any) -> Any:
    """A condition in one turn of a loop, False in the others.

    Args:
        number: which turn.
        turn: the loop's variable; a number where there is one turn.
        condition: a bool, or an expression.
    """
    if condition is False or isinstance(turn, int):
        return condition
    now = ir.EQ(turn, ir.IntImm(turn.ty, number))
    return now if condition is True else ir.And(now, condition)


def _product(record: Gemm, dot: DotProduct, c: Region, cleared: Any, result: Result | None, scope: Scope) -> Any:
    """The sums in ``c`` over all of the record's K.

    Args:
        record: the product; its C is where ``c`` says.
        dot: how products are formed.
        c: where sums are kept.
        cleared: whether the old content of ``c`` is ignored: a bool, or an expression.
        result: where the sums are copied to; None where that is not known, or not next.
        scope: of the statement.
    """
    m, n, k = as_int(record.m), as_int(record.n), as_int(record.k)
    steps = k // dot.depth if isinstance(k, int) else k
    before = Before([], [])
    if dot.tile:
        elements = partial(element, record.a)
        by_tiles = _with_result(Matrices(m, n, steps, elements, c, dot, cleared), result)
        multiplied = multiply_by_tiles(record, by_tiles, before, scope.kept)
        return seq(before.allocations, before.statements, multiplied)
    static = all(isinstance(extent, int) and extent > 0 for extent in (n, steps))
    thin = _is_few(record) and static and not scope.context.emits_c
    rows = _rows_of_b(record, dot, scope, before) if thin else None
    a = _elements_of_a(record, dot, steps, scope, before, several=rows is not None)
    excess = _row_sums(record, dot, a, steps, scope, before) if dot.bias else None
    product = _with_result(Matrices(m, n, steps, a, c, dot, cleared, excess), result)
    if rows is not None:
        multiplied = dot_products(product, rows, scope.context.vectors)
    else:
        tile = register_tile(scope.context.vectors, dot.accumulator, m, n)
        multiplied = multiply(product, columns_of(record, dot, tile, steps, before, scope.kept), tile)
    return seq(before.allocations, before.statements, multiplied)


def _with_result(product: Matrices, result: Result | None) -> Matrices:
    """The product with the place that its sums are copied to."""
    if result is None:
        return product
    return replace(product, fetched=result.fetches(product.k), target=(result.region, result.stored))


# Operands


def _elements_of_a(record: Gemm, dot: DotProduct, steps: Any, scope: Scope, before: Before, several: bool) -> Elements:
    """How the micro-kernel reads A: in place, or from a converted copy ``[row, step]``; ``several`` elements of a row at once."""
    a = record.a
    if not record.transpose_a:
        rows = _rows_in_place(a, dot.operand, dot, scope, before)
        if rows is not None:
            return rows
    elif dot.depth == 1 and a.dtype == dot.operand and not several:
        return lambda row, step: element(a, step, row)
    scratch = local("a_panel", (bound(a, _row_axis(record)), bound(a, 1 - _row_axis(record)) // dot.depth), dot.panel)
    before.allocations.append(ir.AllocBuffer(scratch))

    def packed(at: list[Any]) -> Any:
        def one(d: int) -> Any:
            row, column = at[0], at[1] * dot.depth + d
            return element(a, column, row) if record.transpose_a else element(a, row, column)

        return ir.BufferStore(scratch, dot.pack(one), at)

    before.statements.append(nest([record.m, steps], packed, "mk"))
    return lambda row, step, lanes=1: ir.BufferLoad(scratch, [row, span(step, lanes)])


def _row_axis(record: Gemm) -> int:
    """The axis of A's matrix that counts rows of C; the other one counts K."""
    return 1 if record.transpose_a else 0


def _rows_of_b(record: Gemm, dot: DotProduct, scope: Scope, before: Before) -> Elements | None:
    """The rows of a transposed B as they lie, if its elements can be read so."""
    if not record.transpose_b or canonical(dot.accumulator).bits < 32:
        return None
    if dot.operand == "float32" and record.b.dtype == "bfloat16" and are_rows_dense(record.b):
        _, widened = widening(record.b, before)
        return lambda row, step, lanes=1: widened(row, step, lanes)
    rows = _rows_in_place(record.b, dot.operand_b or dot.operand, dot, scope, before)
    if rows is None or not dot.bias:
        return rows
    return lambda row, step, lanes=1: rows(row, step, lanes) ^ splat(ir.IntImm(dot.panel, 0x80808080), lanes)


def _rows_in_place(region: Region, operand: str, dot: DotProduct, scope: Scope, before: Before) -> Elements | None:
    """The elements of a matrix whose rows run along K, if the instruction takes them, or several of them, as stored."""
    width, first, depth = as_int(region.buffer.shape[-1]), region.mins[-1], dot.depth
    if region.dtype != operand or not are_rows_dense(region):
        return None
    if depth == 1:
        return lambda row, step, lanes=1: element(region, row, step, lanes)
    # A word holds `depth` neighbours of a row: rows, and the part of them that is read, must begin with a whole word.
    if not isinstance(width, int) or width % depth or not scope.facts.divisible(first, depth):
        return None
    shape = [*region.buffer.shape[:-1], width // depth]
    view = ir.decl_buffer(shape, dot.panel, name=f"{region.buffer.name}_joined", layout=None, data_alignment=4)
    before.allocations.append(ir.DeclBuffer(view, data=ir.buffer_data(region.buffer)))
    column = scope.facts.simplify(ir.FloorDiv(constant(first), constant(depth)))
    joined = Region(view, (*region.mins[:-1], column), region.extents)
    return lambda row, step, lanes=1: element(joined, row, step, lanes)


def _row_sums(record: Gemm, dot: DotProduct, a: Elements, steps: int, scope: Scope, before: Before) -> Callable[[Any], Any]:
    """``bias`` times the sum of each row of A: its product with a column of ones, by the instruction that forms all others."""
    lanes = scope.context.vectors.lanes(32)
    sums = local("a_sums", (bound(record.a, _row_axis(record)),), dot.accumulator)
    partial = local("partial", (lanes,), dot.accumulator)
    before.allocations.append(ir.AllocBuffer(sums))
    # A column of ones of 8 bits, four in a panel element.
    ones, nothing = ir.IntImm(dot.panel, 0x01010101), ir.IntImm(dot.accumulator, 0)

    def row(at: list[Any]) -> Any:
        def add(step: Any, width: int) -> Any:
            place, factor = [span(0, width)], splat(ones, width)
            more = dot.multiply_add(ir.BufferLoad(partial, place), a(at[0], step, width), factor, width)
            return ir.BufferStore(partial, more, place)

        full, rest = divmod(steps, lanes)
        total = sum((ir.BufferLoad(partial, [lane]) for lane in range(1, lanes)), ir.BufferLoad(partial, [0]))
        return seq(
            alloc(partial),
            ir.BufferStore(partial, ir.Broadcast(nothing, lanes), [span(0, lanes)]),
            loop("k", full, lambda k: add(k * lanes, lanes)),
            loop("k", rest, lambda k: add(full * lanes + k, 1)),
            ir.BufferStore(sums, total * ir.IntImm(dot.accumulator, dot.bias), at),
        )

    before.statements.append(nest([record.m], row, "m"))
    return lambda at: ir.BufferLoad(sums, [at])


def _accumulator(record: Gemm, dot: DotProduct) -> tuple[Any, Region, Any, Any]:
    """Where C is accumulated: its allocation or None, the place, and the statements before and after.

    That is C itself if it has the accumulator's type and its rows lie along the last axis; else a copy of that type, which is
    rounded into C once at the end. The old content of C is copied only if the product adds to it.
    """
    c, clear = record.c, _cleared(record)
    if c.dtype == dot.accumulator and c.has_rows:
        return None, c, None, None
    scratch = local("accumulator", (bound(c, 0), bound(c, 1)), dot.accumulator)

    old = nest([record.m, record.n], lambda at: ir.BufferStore(scratch, cast(element(c, *at), dot.accumulator), at))
    into = None if clear is True else when(None if clear is False else ir.Not(clear), old)
    out = nest([record.m, record.n], lambda at: _set(c, at, cast(ir.BufferLoad(scratch, at), c.dtype)))
    return ir.AllocBuffer(scratch), Region(scratch, (0, 0), c.matrix_extents), into, out


def _cleared(record: Gemm) -> Any:
    """Whether the old content of C is ignored: a bool, or an expression."""
    clear = record.clear_accum
    return bool(clear) if isinstance(clear, int) else clear


def _set(region: Region, at: list[Any], value: Any) -> Any:
    return ir.BufferStore(region.buffer, value, element(region, *at).indices)
