"""``T.Parallel``: all iterations at once, each a lane.

Iterations are in no order: one that touches what another writes is a race. Memory of threads (``T.alloc_local``, ``T.alloc_var``)
is each iteration's own while the loop runs. Afterwards an element that one iteration stored to holds that value; one that several
iterations gave different values holds none.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import Storage
from tilelang.interpreter.numbers import element
from tilelang.interpreter.state import Lanes
from tilelang.interpreter.survey import evaluated, is_private, touched, variables_of
from tilelang.ir import nodes as ir


def parallel(c: Compiler, stmt: Any) -> Step:
    """The step of a ``T.Parallel``."""
    loops = [stmt]
    while len(loops) < int(stmt.annotations["tl.parallel"]):
        loops.append(loops[-1].body)
    bounds = [(compiled(c, loop.min), compiled(c, loop.extent), c.slot(loop.loop_var)) for loop in loops]
    kinds = [element(str(loop.loop_var.ty)).value for loop in loops]
    inner = loops[-1].body
    c.in_nest = "body"
    body = c.step(inner)
    c.in_nest = False
    private = [c.view(buffer) for buffer in sorted(touched(inner), key=str) if is_private(buffer)]
    own = {loop.loop_var for loop in loops}
    outer = [c.slot(var) for var in variables_of(evaluated(inner)) if var not in own]
    span = stmt.span

    def run(x: Lanes) -> bool:
        x.begin(span)
        sizes = tuple(int(_alike(x, extent(x))) for _, extent, _ in bounds)
        if 0 in sizes:
            return False
        y = _iterations(x, sizes, outer, span)
        for (low, _, slot), kind, index in zip(bounds, kinds, _indices(sizes)):
            first = _alike(x, low(x))
            y.values[slot] = index.astype(kind) if not first else (index + first).astype(kind)
        forked = _fork_private(x, y, private)
        body.run(y)
        for base, copy in forked:
            _join(base, copy)
        return False

    return Step(run)


@lru_cache(maxsize=512)
def _indices(sizes: tuple[int, ...]) -> tuple[np.ndarray, ...]:
    """The index along each axis of each iteration, the last axis running fastest."""
    return tuple(axis.ravel() for axis in np.indices(sizes, dtype=np.int32))


def _iterations(x: Lanes, sizes: tuple[int, ...], outer: list[int], span: Any) -> Lanes:
    """A state whose lanes are the iterations."""
    y = Lanes(x.run, x.block, int(np.prod(sizes, dtype="int64")), list(x.values), list(x.views))
    x.run.clock += 1
    y.interval, y.unordered, y.nest, y.span = x.run.clock, 1, sizes, span
    for slot in outer:
        if np.ndim(y.values[slot]):
            y.values[slot] = _alike(x, y.values[slot])
    return y


def _alike(x: Lanes, value: Any) -> Any:
    """A value that iterations use and all threads must agree on, as which thread runs an iteration is not specified."""
    if not np.ndim(value):
        return value
    chosen = value if x.mask is True else value[x.mask]
    if chosen.size and not (chosen == chosen[0]).all():
        x.find("divergence", "an iteration of T.Parallel uses a value that differs between the threads that could run it")
    return chosen[0] if chosen.size else value[0]


def _fork_private(x: Lanes, y: Lanes, private: list[int]) -> list[tuple[Storage, Storage]]:
    """Gives each iteration its own copy of the memory of threads that the loop names."""
    copies: dict[int, tuple[Storage, Storage]] = {}
    for slot in private:
        view = x.views[slot] if slot < len(x.views) else None
        if view is None:
            continue
        base = view.storage
        if id(base) not in copies:
            copies[id(base)] = base, _own_copy(x, base, y.lanes)
        y.views[slot] = view.over(copies[id(base)][1])
    return list(copies.values())


def _own_copy(x: Lanes, base: Storage, lanes: int) -> Storage:
    """A storage with a row an iteration, which begin as what the threads hold where they hold the same."""
    copy = base.fork(lanes)
    copy.touched = np.zeros((lanes, base.data.shape[1] * 8 // base.cell_bits), bool)
    if base.rows > 1:
        rows = base.data if x.mask is True else base.data[x.mask]
        same = (rows == rows[:1]).all(0).reshape(-1, max(1, base.cell_bits // 8)).all(-1)
        if base.cell_bits < 8:
            same = np.repeat(same, 8 // base.cell_bits)
        copy.data[:] = rows[:1]
        copy.typed = {}
        known = np.ones_like(same) if base.written is None else base.written[0 if x.mask is True else int(np.argmax(x.mask))]
        copy.written = np.repeat((known & same)[None], lanes, axis=0)
    return copy


def _join(base: Storage, copy: Storage) -> None:
    """Puts what iterations stored to their own copies into the memory of all threads."""
    writers = copy.touched.sum(0)
    if not writers.any():
        return
    last = copy.touched.shape[0] - 1 - np.argmax(copy.touched[::-1], axis=0)
    if base.written is None:
        base.written = np.ones((base.rows, copy.touched.shape[1]), bool)
    size = max(1, base.cell_bits // 8)
    per_byte = max(1, 8 // base.cell_bits)
    data = copy.data.reshape(copy.data.shape[0], -1, size)
    for cell in np.flatnonzero(writers):
        place = cell // per_byte
        chosen = data[last[cell], place]
        agree = (data[copy.touched[:, cell], place] == chosen).all()
        base.data.reshape(base.rows, -1, size)[:, place] = chosen
        base.written[:, cell] = bool(agree)


__all__ = ["ir", "parallel"]
