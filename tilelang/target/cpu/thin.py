"""Products of few rows with a transposed B: dot products along K, of rows of A with rows of B as they lie.

Nothing is packed, since each element of B is used only once for each row of A. A group of columns has several registers of
partial sums for each element of C, so that no addition waits for the one before it; they and their lanes are added at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, reduce
from operator import add as add_up
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.target.cpu.context import VectorUnit
from tilelang.target.cpu.emit import local, loop, register_alloc, seq, span, splat, zero
from tilelang.target.cpu.lines import fold
from tilelang.target.cpu.tiles import Elements, Matrices

ROWS = 4
"""The most rows of a thin product."""

_SUMS = 8
"""Registers of partial sums: an addition takes four cycles, and two can start in each."""


def dot_products(x: Matrices, b: Elements, unit: VectorUnit) -> Any:
    """All of C; ``b`` gives the elements of a row of B, as :attr:`Matrices.a` those of A.

    Args:
        x: the product with its A and C.
        b: gives the elements of a row of B, as :attr:`Matrices.a` those of A.
        unit: the machine's vector unit.
    """
    # Columns for which the accumulators of all rows fit: 8 registers for 1 row are 8 columns, for 4 rows 2.
    group = _SUMS // x.m
    full, rest = divmod(x.n, group)
    parts = [loop("g", full, lambda g: _group(x, b, g * group, group, unit))]
    return seq(parts, _group(x, b, full * group, rest, unit) if rest else None)


def _group(x: Matrices, b: Elements, first: Any, count: int, unit: VectorUnit) -> Any:
    """``count`` columns of C from ``first`` on."""
    # r, c: the elements of C that this group computes, row by row.
    places = [(r, c) for r in range(x.m) for c in range(count)]
    # For a K below a register's lanes: the largest power of two that it has.
    lanes = min(unit.lanes(canonical(x.dot.panel).bits), 1 << (x.k.bit_length() - 1))
    # Registers of partial sums for each element, all in all about _SUMS, so that no addition waits for the one before.
    each = max(1, min(_SUMS // len(places), x.k // lanes))
    full = x.k // lanes
    sums = local("sums", (len(places) * each * lanes,), x.dot.accumulator)
    ends = local("ends", (len(places),), x.dot.accumulator)

    def register(part: int, place: int) -> Any:
        return ir.BufferLoad(sums, [span((place * each + part) * lanes, lanes)])

    def add(step: Any, width: int, sum_of: Callable[[int], Any]) -> Any:
        rows = [(ir.Var(f"a{r}", x.dot.panel_vector(width)), x.a(r, step, width)) for r in range(x.m)]
        columns = [(ir.Var(f"b{c}", x.dot.panel_vector(width)), b(first + c, step, width)) for c in range(count)]
        updates = []
        for place, (r, c) in enumerate(places):
            old = sum_of(place)
            more = x.dot.multiply_add(old, rows[r][0], columns[c][0], width)
            updates.append(ir.BufferStore(old.source, more, old.indices))
        return seq([ir.Bind(*named) for named in (*rows, *columns)], updates)

    def add_registers(step: Any, several: int) -> Any:
        return seq([add((step + part) * lanes, lanes, partial(register, part)) for part in range(several)])

    def finished(place: int) -> Any:
        r, c = places[place]
        together = reduce(add_up, (register(part, place) for part in range(each)))
        total = fold("sum", together, lanes) + ir.BufferLoad(ends, [place])
        if x.excess is not None:
            # What the bias of the dot product instruction (dot.py) added to each sum of the row.
            total = total - x.excess(r)
        old = x.element(r, first + c)
        if isinstance(x.cleared, bool):
            return ir.BufferStore(x.c.buffer, total if x.cleared else old + total, old.indices)
        store = [ir.BufferStore(x.c.buffer, value, old.indices) for value in (total, old + total)]
        return ir.IfThenElse(x.cleared, *store)

    nothing = zero(x.dot.accumulator)
    every = range(len(places))
    return seq(
        register_alloc(sums, lanes),
        register_alloc(ends, 1),
        [ir.BufferStore(sums, splat(nothing, lanes), register(part, place).indices) for place in every for part in range(each)],
        [ir.BufferStore(ends, nothing, [place]) for place in every],
        loop("k", full // each, lambda k: add_registers(k * each, each)),
        add_registers(full // each * each, full % each),
        loop("k", x.k - full * lanes, lambda k: add(full * lanes + k, 1, lambda place: ir.BufferLoad(ends, [place]))),
        [finished(place) for place in every],
    )
