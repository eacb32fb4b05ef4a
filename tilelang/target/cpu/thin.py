"""Products of few rows with a transposed B: dot products along K, of rows of A with rows of B as they lie.

Nothing is packed, since each element of B is used once a row. A group of columns keeps a register of partial sums for each of
its elements of C; their lanes are added up at the end.
"""

from __future__ import annotations

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
"""Elements of C that are summed at once."""


def dot_products(x: Matrices, b: Elements, unit: VectorUnit) -> Any:
    """All of C; ``b`` gives the elements of a row of B, as :attr:`Matrices.a` those of A."""
    group = _SUMS // x.m
    full, rest = divmod(x.n, group)
    parts = [loop("g", full, lambda g: _group(x, b, g * group, group, unit))]
    return seq(parts, _group(x, b, full * group, rest, unit) if rest else None)


def _group(x: Matrices, b: Elements, first: Any, count: int, unit: VectorUnit) -> Any:
    """``count`` columns of C from ``first`` on."""
    places = [(r, c) for r in range(x.m) for c in range(count)]
    lanes = min(unit.lanes(canonical(x.way.panel).bits), 1 << (x.k.bit_length() - 1))
    full = x.k // lanes
    sums = local("sums", (len(places) * lanes,), x.way.accumulator)
    ends = local("ends", (len(places),), x.way.accumulator)

    def add(buffer: Any, step: Any, width: int) -> Any:
        rows = [(ir.Var(f"a{r}", x.way.panel_vector(width)), x.a(r, step, width)) for r in range(x.m)]
        columns = [(ir.Var(f"b{c}", x.way.panel_vector(width)), b(first + c, step, width)) for c in range(count)]
        updates = []
        for place, (r, c) in enumerate(places):
            at = [span(place * width, width)]
            more = x.way.multiply_add(ir.BufferLoad(buffer, at), rows[r][0], columns[c][0], width)
            updates.append(ir.BufferStore(buffer, more, at))
        return seq([ir.Bind(*named) for named in (*rows, *columns)], updates)

    def finished(place: int) -> Any:
        r, c = places[place]
        total = fold("sum", ir.BufferLoad(sums, [span(place * lanes, lanes)]), lanes) + ir.BufferLoad(ends, [place])
        if x.excess is not None:
            total = total - x.excess(r)
        old = x.element(r, first + c)
        if isinstance(x.cleared, bool):
            return ir.BufferStore(x.c, total if x.cleared else old + total, old.indices)
        store = [ir.BufferStore(x.c, value, old.indices) for value in (total, old + total)]
        return ir.IfThenElse(x.cleared, *store)

    nothing = zero(x.way.accumulator)
    every = range(len(places))
    return seq(
        register_alloc(sums, lanes),
        register_alloc(ends, 1),
        [ir.BufferStore(sums, splat(nothing, lanes), [span(place * lanes, lanes)]) for place in every],
        [ir.BufferStore(ends, nothing, [place]) for place in every],
        loop("k", full, lambda k: add(sums, k * lanes, lanes)),
        loop("k", x.k - full * lanes, lambda k: add(ends, full * lanes + k, 1)),
        [finished(place) for place in every],
    )
