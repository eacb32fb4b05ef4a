"""Updates of fragments by the iterations of a ``T.Parallel``: ``total[i] += a[i, j]``.

Iterations that update one element do so one after another, so that each sees what those before it have left. To the records of
accesses they are atomic updates: in no conflict with each other, but with a plain access of another iteration.

Where several statements make an update (``if a[i, j] > most[i]: most[i] = a[i, j]``), iterations that use one element run one
after another. All accesses of a fragment have the same indices then, so that nothing is left to record.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.interpreter.access import both, load, locate, some, store
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.races import record_updates
from tilelang.interpreter.state import Lanes
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_declared_fragment
from tilelang.ir.visit import reads_its_place, rebuilt, same_place, walk, walk_expr
from tilelang.tileop.carried import accumulated, are_equal, is_updated_alone


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
        for turn in _turns(x, [at], active):
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
    found = {} if by_thread else accumulated(body, c.aliased)
    axes = [loop.loop_var for loop in loops]
    c.updated = set(_updated(body, axes))
    kept = {buffer: place for buffer, place in found.items() if not (is_updated_alone(body, buffer) or are_distinct(axes, place))}
    if not kept:
        return lambda x: [x.mask]
    c.in_turn = set(kept)
    inside = {
        stmt.var if isinstance(stmt, ir.Bind) else stmt.loop_var for stmt in walk(body) if isinstance(stmt, (ir.Bind, ir.For))
    }
    distinct: list[Any] = []
    for place in kept.values():
        if not any(are_equal(place, other) for other in distinct):
            distinct.append(place)
    numbers = [_place(c, place, inside) for place in distinct]

    def turns(x: Lanes) -> list[Any]:
        return _turns(x, [number(x) for number in numbers], x.mask)

    return turns


def _updated(body: Any, axes: Sequence[Any]) -> Iterator[Any]:
    """The fragments of which several iterations may update one element in one statement."""
    for stmt in walk(body):
        if isinstance(stmt, ir.BufferStore) and is_declared_fragment(stmt.buffer) and reads_its_place(stmt):
            if not are_distinct(axes, stmt.indices):
                yield stmt.buffer


def _place(c: Compiler, indices: Sequence[Any], inside: Container[Any]) -> Callable[[Lanes], Any]:
    """A number of the element that each iteration uses, equal for all where an index is known in the body alone."""
    parts = [part for index in indices for part in walk_expr(index)]
    if any(isinstance(part, ir.TensorLoad) or (isinstance(part, ir.Var) and part in inside) for part in parts):
        return lambda x: np.int64(0)
    values = [compiled(c, index) for index in indices]

    def number(x: Lanes) -> Any:
        places = np.zeros(x.lanes, np.int64)
        for value in (np.asarray(of(x), np.int64) for of in values):
            places = places * int(value.max() - value.min() + 1) + value - value.min()
        return places

    return number


def _from(old: Any, stmt: Any) -> Any:
    """The value that a statement stores, computed from what its element has held."""

    def replaced(expr: Any) -> Any:
        return old if same_place(expr, stmt) else rebuilt(expr, replaced)

    return replaced(stmt.value)


def _turns(x: Lanes, places: Sequence[Any], active: Any) -> list[Any]:
    """The active lanes, as masks in each of which no two have the same element, by any of several numbers of theirs."""
    lanes = np.arange(x.lanes) if active is True else np.flatnonzero(active)
    numbers = [np.broadcast_to(place, (x.lanes,))[lanes] for place in places]
    ranks = _ranks(numbers[0]) if len(numbers) == 1 else _ranks_by_any(numbers)
    last = int(ranks.max())
    if not last:
        return [active]
    turns = np.full(x.lanes, -1)
    turns[lanes] = ranks
    return [turns == turn for turn in range(last + 1)]


def _ranks(numbers: np.ndarray) -> np.ndarray:
    """How often each number has occurred before."""
    order = np.argsort(numbers, kind="stable")
    in_order = numbers[order]
    ranks = np.empty(numbers.size, np.int64)
    ranks[order] = np.arange(numbers.size) - np.searchsorted(in_order, in_order)
    return ranks


def _ranks_by_any(numbers: Sequence[np.ndarray]) -> np.ndarray:
    """The first turn of each lane after those of the lanes before it that share a number with it."""
    free: list[dict[int, int]] = [{} for _ in numbers]
    ranks = np.empty(numbers[0].size, np.int64)
    for lane, own in enumerate(zip(*(each.tolist() for each in numbers))):
        turn = max(turns.get(number, 0) for turns, number in zip(free, own))
        ranks[lane] = turn
        for turns, number in zip(free, own):
            turns[number] = turn + 1
    return ranks
