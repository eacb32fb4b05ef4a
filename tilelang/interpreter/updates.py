"""Updates of fragments by the iterations of a ``T.Parallel``: ``total[i] += a[i, j]``.

Iterations that update one element do so one after another, so that each sees what those before it have left. To the records of
accesses they are atomic updates: in no conflict with each other, but with a plain access of another iteration.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tilelang.interpreter.access import both, load, locate, some, store
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.races import record_updates
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.visit import rebuilt, same_place


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
