"""``T.Parallel``: all iterations at once, each a lane.

Iterations are in no order: one that touches what another writes is a race. Memory of threads (``T.alloc_local``, ``T.alloc_var``)
is each iteration's own while the loop runs. Afterwards an element that one iteration stored to holds that value; one that several
iterations gave different values holds none.

What iterations carry (``tileop/carried.py``: sums, maxima, counts) is the thread's: iteration i is that of thread i modulo the
number of threads, and begins with what that thread's previous one left. Elements of fragments that they accumulate are the
block's: iterations of one element run one after another (``updates.py``).

A loop that names a thread, or uses memory of threads in which they hold different values, is executed by each thread: every
thread runs all iterations, and the lanes are pairs of a thread and an iteration.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from tilelang.interpreter import updates
from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import Storage
from tilelang.interpreter.numbers import element
from tilelang.interpreter.state import Lanes
from tilelang.interpreter.survey import evaluated, is_private, stored_first, touched, variables_of
from tilelang.ir.visit import parallel_loops
from tilelang.tileop.carried import carried_by, is_run_by_each_thread


def parallel(c: Compiler, stmt: Any) -> Step:
    """The step of a ``T.Parallel``."""
    loops = parallel_loops(stmt)
    bounds = [(compiled(c, loop.min), compiled(c, loop.extent), c.slot(loop.loop_var)) for loop in loops]
    kinds = [element(str(loop.loop_var.ty)).value for loop in loops]
    inner = loops[-1].body
    around = c.loops
    first, carried = set(stored_first(inner)), carried_by(stmt, c.aliased)
    in_whole = is_run_by_each_thread(inner, carried)
    may_hold_different = c.differ_but_for(evaluated(inner), first | (set() if in_whole else set(carried)))
    turns = updates.by_element(c, loops, may_hold_different)
    # Inside, lanes are iterations: a jump means one of the loops in the body, so those around it are not counted.
    c.in_nest, c.loops = tuple(loop.loop_var for loop in loops), 0
    body = c.step(inner)
    c.in_nest, c.loops, c.in_turn = (), around, set()
    private = [c.view(buffer) for buffer in sorted(touched(inner), key=str) if is_private(buffer)]
    own = {loop.loop_var for loop in loops}
    outer = [c.slot(var) for var in variables_of(evaluated(inner)) if var not in own]
    # Memory that every iteration stores to before it reads it does not matter: what threads held in it before is not used.
    used = [slot for slot in private if slot not in {c.view(buffer) for buffer in first}]
    kept = [c.view(buffer) for buffer in sorted(carried, key=str)]
    private, used = ([slot for slot in slots if slot not in kept] for slots in (private, used))
    span = stmt.span

    def run(x: Lanes) -> bool:
        x.begin(span)
        sizes = tuple(int(_alike(x, extent(x))) for _, extent, _ in bounds)
        if min(sizes) <= 0:
            return False
        # The loop is each thread's own if it names a thread or threads may bring different values: then lanes are (thread,
        # iteration) pairs.
        by_thread = may_hold_different or _hold_different(x, outer, used) or (in_whole and _hold_different(x, (), kept))
        y, threads = _iterations(x, sizes, outer, by_thread)
        for (low, _, slot), kind, index in zip(bounds, kinds, _indices(sizes)):
            first = _alike(x, low(x))
            index = index.astype(kind) if not first else (index + first).astype(kind)
            y.values[slot] = index if threads is None else np.tile(index, len(threads))
        forked = _fork_private(x, y, private, threads)
        if kept:
            _in_turn(x, y, body, kept, _owners(x, y, threads, in_whole))
        else:
            for turn in turns(y):
                y.mask = turn
                body.run(y)
        for base, copy in forked:
            _join(x, base, copy, threads)
        return False

    return Step(run)


@lru_cache(maxsize=512)
def _indices(sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The index along each axis of each iteration, the last axis running fastest."""
    return tuple(axis.ravel() for axis in np.indices(sizes, dtype=np.int32))


def _iterations(x: Lanes, sizes: tuple[int, ...], outer: list[int], by_thread: bool) -> tuple[Lanes, np.ndarray | None]:
    """A state whose lanes are the iterations; of every thread where the loop is each thread's own, then with their numbers."""
    count, threads = int(np.prod(sizes, dtype="int64")), None
    if by_thread:
        threads = np.flatnonzero(np.ones(x.lanes, bool) if x.mask is True else x.mask)
    y = Lanes(x.run, x.block, count if threads is None else count * len(threads), list(x.values), list(x.views))
    x.run.clock += 1
    # One interval for the whole loop: accesses of different iterations are in no order, so any conflict among them is a race.
    y.interval, y.unordered, y.span = x.run.clock, 1, x.span
    y.strand = x.strand
    if x.since is not None:
        # Which threads run the iterations is not specified: their accesses are ordered with other statements' by barriers alone.
        y.since, y.first = x.since, x.run.take_numbers(y.lanes)
        y.performers = y.lane_ids + np.int32(y.first) if threads is None else np.repeat(threads, count).astype(np.int32)
    y.nest = sizes if threads is None else (len(threads), *sizes)
    for slot in outer:
        value = y.values[slot]
        if isinstance(value, np.ndarray) and value.ndim:
            y.values[slot] = _alike(x, value) if threads is None else np.repeat(value[threads], count)
    return y, threads


def _hold_different(x: Lanes, variables: Sequence[int], buffers: Sequence[int]) -> bool:
    """Whether threads that run a statement have different values of what it uses."""
    return any(_differs(x, x.values[slot]) for slot in variables) or any(_rows_differ(x, slot) for slot in buffers)


def _rows_differ(x: Lanes, slot: int) -> bool:
    """Whether threads hold different values in a per-thread buffer."""
    view = x.views[slot]
    return view is not None and view.storage.rows > 1 and _differs(x, view.storage.data)


def _differs(x: Lanes, value: Any) -> bool:
    """Whether threads that run a statement have different values."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return False
    chosen = value if x.mask is True else value[x.mask]
    return bool((chosen != chosen[:1]).any())


def _alike(x: Lanes, value: Any) -> Any:
    """The value that the threads agree on; a finding where they do not."""
    if not isinstance(value, np.ndarray) or not value.ndim:
        return value
    if _differs(x, value):
        x.find("divergence", "the extents of a T.Parallel differ between the threads that run it")
    return value[0] if x.mask is True else value[int(np.argmax(x.mask))]


# What iterations carry -------------------------------------------------------------------------------------------------


def _owners(x: Lanes, y: Lanes, threads: np.ndarray | None, in_whole: bool) -> np.ndarray:
    """The thread of each iteration; -1 for that of all threads, where they run the loop alike."""
    if threads is not None:
        return np.repeat(threads, y.lanes // len(threads))
    if in_whole:
        return np.full(y.lanes, -1)
    running = np.arange(x.lanes) if x.mask is True else np.flatnonzero(x.mask)
    return running[np.arange(y.lanes) % len(running)]


def _in_turn(x: Lanes, y: Lanes, body: Step, kept: list[int], owners: np.ndarray) -> None:
    """Runs the iterations of each thread one after the other, which hand on the memory that they carry."""
    copies = [_carried_copy(x, y, slot, owners) for slot in kept]
    order = np.argsort(owners, kind="stable")
    # The iterations of one turn are those of different threads.
    turns = np.arange(y.lanes) - np.searchsorted(owners[order], owners[order])
    # In the order by owners the lane before one is its owner's previous iteration, except in turn 0, where nothing is handed
    # on.
    previous = np.roll(order, 1)
    for turn in range(int(turns.max()) + 1):
        now = turns == turn
        lanes = order[now]
        if turn:
            for _, copy in copies:
                _hand_on(copy, lanes, copy, previous[now])
        y.mask = np.zeros(y.lanes, bool)
        y.mask[lanes] = True
        body.run(y)
    # The last iteration of an owner stands before the first turn of the next owner.
    last = order[np.append(turns[1:] == 0, True)]
    rows = owners[last]
    # All threads ran the loop alike, so that there is one result, and each of them gets it.
    if owners[0] < 0:
        rows = np.flatnonzero(np.ones(x.lanes, bool) if x.mask is True else x.mask)
        last = np.repeat(last, len(rows))
    for base, copy in copies:
        _hand_on(base, rows if base.rows > 1 else rows[:1], copy, last if base.rows > 1 else last[:1])


def _carried_copy(x: Lanes, y: Lanes, slot: int, owners: np.ndarray) -> tuple[Storage, Storage]:
    """Some memory of threads, and one with a row for each iteration in its place, from its thread's row."""
    base = x.views[slot].storage
    # From here on threads hold different values, either since each gets its own result, or since some do not run the loop.
    if owners[0] >= 0 or x.mask is not True:
        base.spread(x.lanes)
    first = 0 if x.mask is True else int(np.argmax(x.mask))
    rows = np.where(owners < 0, first, owners) if base.rows > 1 else np.zeros(y.lanes, np.int64)
    copy = base.fork(rows)
    y.views[slot] = x.views[slot].over(copy)
    return base, copy


def _hand_on(target: Storage, rows: np.ndarray, source: Storage, others: np.ndarray) -> None:
    """Copies rows of memory of threads, and which of their elements hold a value."""
    target.data[rows] = source.data[others]
    if target.written is not None:
        target.written[rows] = True if source.written is None else source.written[others]


# Memory of threads ---------------------------------------------------------------------------------------------------


def _fork_private(x: Lanes, y: Lanes, private: list[int], threads: np.ndarray | None) -> list[tuple[Storage, Storage]]:
    """Gives each iteration its own copy of the memory of threads that the loop names."""
    copies: dict[int, tuple[Storage, Storage]] = {}
    for slot in private:
        view = x.views[slot]
        if view is None:
            continue
        base = view.storage
        if id(base) not in copies:
            copies[id(base)] = base, _own_copy(x, base, y.lanes, threads)
        y.views[slot] = view.over(copies[id(base)][1])
    return list(copies.values())


def _own_copy(x: Lanes, base: Storage, lanes: int, threads: np.ndarray | None) -> Storage:
    """A storage with one row for each iteration, initialised from its thread's row."""
    if base.rows == 1:
        rows = np.zeros(lanes, np.int64)
    elif threads is None:
        rows = np.full(lanes, 0 if x.mask is True else int(np.argmax(x.mask)))
    else:
        rows = np.repeat(threads, lanes // len(threads))
    copy = base.fork(rows)
    copy.touched = np.zeros((lanes, base.cell_count), bool)
    return copy


def _join(x: Lanes, base: Storage, copy: Storage, threads: np.ndarray | None) -> None:
    """Writes the iterations' private copies back to their threads' memory."""
    if copy.touched is None or not copy.touched.any():
        return
    owners = 1 if threads is None else len(threads)
    touched = copy.touched.reshape(owners, -1, base.cell_count)
    if threads is not None or x.mask is not True:
        base.spread(x.lanes)
        rows = np.flatnonzero(x.mask) if threads is None else threads
    else:
        rows = np.arange(base.rows)
    stored = copy.cells().reshape(owners, touched.shape[1], base.cell_count, -1)
    # The value of any iteration that stored; where they differ the element holds none, see below.
    last = touched.shape[1] - 1 - np.argmax(touched[:, ::-1], axis=1)
    chosen = np.take_along_axis(stored, last[:, None, :, None], axis=1)
    agree = np.all(np.all(stored == chosen, axis=-1) | ~touched, axis=1)
    changed = np.any(touched, axis=1)
    cells = base.cells()
    cells[rows] = np.where(changed[..., None], chosen[:, 0], cells[rows])
    base.set_cells(cells)
    if base.written is not None:
        base.written[rows] |= changed
    if not agree.all():
        base.lose(changed & ~agree, rows)
