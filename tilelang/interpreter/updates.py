"""Updates of fragments by the iterations of a ``T.Parallel``: ``total[i] += a[i, j]``.

Iterations that update one element do so one after another, so that each sees what those before it have left. To the records of
accesses they are atomic updates: in no conflict with each other, but with a plain access of another iteration.

Where several statements make an update (``if a[i, j] > most[i]: most[i] = a[i, j]``), iterations that use one element run one
after another. All accesses have the same indices then, so that nothing is left to record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from tilelang.interpreter.access import both, load, locate, some, store
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.races import record_updates
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.visit import rebuilt, same_place, walk, walk_expr
from tilelang.tileop.carried import accumulated, is_of_updates


def update(c: Compiler, stmt: Any) -> Callable[[Lanes], None]:
    """The effect of a store that reads its own element of a fragment, where lanes are iterations."""
    old = ir.Var("old", str(stmt.buffer.dtype))
    slot, before = c.view(stmt.buffer), c.slot(old)
    value, indices = compiled(c, _from(old, stmt)), [compiled(c, index) for index in stmt.indices]

    def effect(x: Lanes) -> None:
        view, place, outer = x.views[slot], [index(x) for index in indices], x.mask
        at, inside = locate(x, view, place)
        active = both(outer, inside)
        if not some(active):
            return
        for turn in _turns(x, at, active):
            x.mask = turn
            x.values[before] = load(x, view, place)
            store(x, view, place, value(x), tracked=False)
        x.mask = outer
        if x.checks and not view.storage.private:
            record_updates(x, view, at, active)

    return effect


def are_distinct(axes: Iterable[Any], indices: Sequence[Any]) -> bool:
    """Whether every axis of a ``T.Parallel`` is an index by itself, so that no two iterations use one element."""
    return all(any(index.same_as(axis) for index in indices) for axis in axes)


def by_element(c: Compiler, loops: Sequence[Any], by_thread: bool) -> Callable[[Lanes], list[Any]]:
    """The turns in which the iterations of a loop run, as masks; one, unless several statements update fragments.

    Args:
        c: the compiler, which notes these fragments.
        loops: the axes of the ``T.Parallel``.
        by_thread: whether each thread runs it in whole, so that updates are in no order.
    """
    body = loops[-1].body
    found = set() if by_thread else accumulated(body, c.aliased)
    if not found or is_of_updates(body, found):
        return lambda x: [x.mask]
    place = next(stmt.indices for stmt in walk(body) if isinstance(stmt, ir.BufferStore) and stmt.buffer in found)
    # An index that the body computes is not known before it runs; then every iteration has a turn of its own.
    if are_distinct((loop.loop_var for loop in loops), place):
        return lambda x: [x.mask]
    c.in_turn = found
    inside = {
        stmt.var if isinstance(stmt, ir.Bind) else stmt.loop_var for stmt in walk(body) if isinstance(stmt, (ir.Bind, ir.For))
    }
    parts = [part for index in place for part in walk_expr(index)]
    known = not any(isinstance(part, ir.TensorLoad) or (isinstance(part, ir.Var) and part in inside) for part in parts)
    indices = [compiled(c, index) for index in place] if known else []

    def turns(x: Lanes) -> list[Any]:
        places = np.zeros(x.lanes, np.int64)
        for index in indices:
            value = np.asarray(index(x), np.int64)
            places = places * int(value.max() - value.min() + 1) + value - value.min()
        return _turns(x, places, x.mask)

    return turns


def _from(old: Any, stmt: Any) -> Any:
    """The value that a statement stores, computed from what its element has held."""

    def replaced(expr: Any) -> Any:
        return old if same_place(expr, stmt) else rebuilt(expr, replaced)

    return replaced(stmt.value)


def _turns(x: Lanes, at: Any, active: Any) -> list[Any]:
    """The active lanes, as masks in each of which no two have the same element."""
    lanes = np.arange(x.lanes) if active is True else np.flatnonzero(active)
    places = np.broadcast_to(at, (x.lanes,))[lanes]
    order = np.argsort(places, kind="stable")
    sorted_places = places[order]
    ranks = np.empty(lanes.size, np.int64)
    ranks[order] = np.arange(lanes.size) - np.searchsorted(sorted_places, sorted_places)
    last = int(ranks.max())
    if not last:
        return [active]
    turns = np.full(x.lanes, -1)
    turns[lanes] = ranks
    return [turns == turn for turn in range(last + 1)]
