"""Atomic accesses: ``T.atomic_*`` on elements and on tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from tilelang.interpreter import strands
from tilelang.interpreter.access import both, check_free, check_written, load, locate, mark_written, row_of, store
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import Evaluate, compiled, compiled_element, intrinsic
from tilelang.interpreter.memory import View
from tilelang.interpreter.races import record_updates
from tilelang.interpreter.state import Lanes
from tilelang.interpreter.strands import latest
from tilelang.interpreter.survey import memory_order

_OPERATIONS: Mapping[str, Callable[[Any, Any], Any]] = {
    "add": lambda old, value: old + value,
    # Of a number and NaN the number, whichever is in memory.
    "max": np.fmax,
    "min": np.fmin,
    "or": np.bitwise_or,
}
_AT_ONCE = {"add": np.add, "or": np.bitwise_or}
"""Operations of which NumPy's ``ufunc.at`` gives the same result as updates one after the other."""

_ACQUIRING = ("acquire", "acq_rel", "seq_cst")
_RELEASING = ("release", "acq_rel", "seq_cst")


def update(x: Lanes, view: View, at: Any, value: Any, op: str, order: str, old: bool = False) -> Any:
    """Updates elements at flat positions one after the other; returns their old values on request.

    Args:
        x: the state.
        view: the buffer.
        at, value: arrays of one length.
        op: a key of :data:`_OPERATIONS`.
        order: the memory order.
        old: whether the old values are wanted.

    Returns:
        The values before each update, or None.
    """
    if x.checks and view.storage.written is not None and at.size:
        check_written(x, view, 0, at, True)
    check_free(x, view, 0, at, True)
    x.run.progress += 1
    with _ordered(x, view, at, order):
        return _combined(view, at, value, op, old)


def _combined(view: View, at: Any, value: Any, op: str, old: bool) -> Any:
    """Changes the memory; arguments and result are those of :func:`update`."""
    if at.size > 1 and not old and op in _AT_ONCE and view.kind.memory == view.kind.value:
        _AT_ONCE[op].at(view.storage.elements(view.kind)[0], at, value)
        return None
    combine = _OPERATIONS[op]
    # No element occurs twice: one vectorised update, whose old values are those before it.
    if at.size == 1 or np.unique(at).size == at.size:
        before = view.read(0, at)
        view.write(0, at, combine(before, value))
        return before
    before = np.empty(at.shape, view.kind.value)
    # Several lanes update one element: one after the other, in the order of lanes, so that each old value is one that a GPU could
    # give.
    for place in range(at.size):
        held = view.read(0, at[place])
        before[place] = held
        view.write(0, at[place], combine(held, value[place]))
    return before


def _note_update(x: Lanes, view: View, at: np.ndarray) -> None:
    """Notes that the block, and the group of threads that runs, update flat positions."""
    if not x.checks or not at.size:
        return
    if view.storage.blocks is not None:
        view.storage.blocks.note_update(x, view, at)
    if not x.strand.is_alone:
        strands.note(x, view, at, writes=True, atomic=True)


@contextmanager
def _ordered(x: Lanes, view: View, at: np.ndarray, order: str, updates: bool = True) -> Iterator[None]:
    """An atomic access to flat positions, ordered with those of other blocks and groups of threads.

    Args:
        x: the state.
        view: the buffer.
        at: the positions.
        order: the memory order; ``"relaxed"`` orders nothing.
        updates: whether the access is to be noted.
    """
    places = {int(place) for place in np.ravel(at)} if order != "relaxed" and not view.storage.private else ()
    # An acquiring access first joins what earlier accesses of the element have handed over; a releasing one then hands on what
    # its thread has seen, together with everything that was handed over before (the "release sequence" of the C++ memory model).
    if places and order in _ACQUIRING:
        x.synchronise()
    for place in places if order in _ACQUIRING else ():
        x.strand.acquire(view.storage.handed.get(place, {}))
        if view.is_tensor:
            x.block.order.acquire(x.block.number, (id(view.storage), place))
    if updates:
        _note_update(x, view, at)
    yield
    handed: dict[int, int] = {}
    if places and order in _RELEASING:
        x.strand.release(handed)
    for place in places if order in _RELEASING else ():
        latest(view.storage.handed.setdefault(place, {}), handed)
        if view.is_tensor:
            x.block.order.release(x.block.number, (id(view.storage), place))


def element_update(x: Lanes, view: View, indices: list[Any], value: Any, op: str, order: str) -> Any:
    """An atomic update of the element of each lane; one update where neither position nor value depends on the lane.

    Args:
        x: the state.
        view: the buffer.
        indices: one an axis, numbers or arrays over the lanes.
        value: a number, or an array over the lanes.
        op: a key of :data:`_OPERATIONS`.
        order: the memory order.

    Returns:
        The value before the update, of each lane.
    """
    at, inside = locate(x, view, indices)
    zero = view.kind.value.type(0)
    if inside is False:
        return zero
    active = both(x.mask, inside)
    if view.storage.private:
        return _own_update(x, view, indices, value, op)
    if active is True and not np.ndim(at) and not np.ndim(value) and x.nest is None:
        return update(x, view, np.array([at]), np.array([value]), op, order, old=True)[0]
    at, value = np.broadcast_to(at, (x.lanes,)), np.broadcast_to(value, (x.lanes,))
    if x.checks:
        record_updates(x, view, at, active)
    chosen = np.ones(x.lanes, bool) if active is True else active
    result = np.full(x.lanes, zero)
    result[chosen] = update(x, view, at[chosen], value[chosen], op, order, old=True)
    return result


def _own_update(x: Lanes, view: View, indices: list[Any], value: Any, op: str) -> Any:
    """Memory of threads needs no atomicity."""
    before = load(x, view, indices)
    store(x, view, indices, _OPERATIONS[op](before, value))
    return before


def _update(op: str) -> Callable[[Compiler, Any], Evaluate]:
    def make(c: Compiler, call: Any) -> Evaluate:
        (slot, indices), value, order = compiled_element(c, call.args[0]), compiled(c, call.args[1]), memory_order(call)
        return lambda x: element_update(x, x.views[slot], [index(x) for index in indices], value(x), op, order)

    return make


for _op in _OPERATIONS:
    intrinsic(f"atomic_{_op}")(_update(_op))


def _consecutive(lanes: int) -> Callable[[Compiler, Any], Evaluate]:
    def make(c: Compiler, call: Any) -> Evaluate:
        (target, places), (source, values) = (compiled_element(c, arg) for arg in call.args)

        def evaluate(x: Lanes) -> None:
            place, taken = [index(x) for index in places], [index(x) for index in values]
            for lane in range(lanes):
                value = load(x, x.views[source], [*taken[:-1], taken[-1] + np.int32(lane)])
                element_update(x, x.views[target], [*place[:-1], place[-1] + np.int32(lane)], value, "add", "relaxed")

        return evaluate

    return make


intrinsic("atomic_addx2")(_consecutive(2))
intrinsic("atomic_addx4")(_consecutive(4))


@intrinsic("atomic_load")
def _atomic_load(c: Compiler, call: Any) -> Evaluate:
    (slot, indices), order = compiled_element(c, call.args[0]), memory_order(call)

    def evaluate(x: Lanes) -> Any:
        view, places = x.views[slot], [index(x) for index in indices]
        at, inside = locate(x, view, places)
        active = both(x.mask, inside)
        at = np.ravel(at if active is True or not np.ndim(at) else at[active])
        with _ordered(x, view, at if inside is not False else at[:0], order, updates=False):
            return load(x, view, places, noted=False)

    return evaluate


@intrinsic("atomic_store")
def _atomic_store(c: Compiler, call: Any) -> Evaluate:
    (slot, indices), value, order = compiled_element(c, call.args[0]), compiled(c, call.args[1]), memory_order(call)

    def evaluate(x: Lanes) -> None:
        view = x.views[slot]
        at, inside = locate(x, view, [index(x) for index in indices])
        stored = value(x)
        x.run.progress += 1
        if inside is False:
            return
        active = both(x.mask, inside)
        if active is not True or np.ndim(at) or np.ndim(stored):
            at, stored = np.broadcast_to(at, (x.lanes,)), np.broadcast_to(stored, (x.lanes,))
            chosen = np.ones(x.lanes, bool) if active is True else active
            at, stored = at[chosen], stored[chosen]
        with _ordered(x, view, np.atleast_1d(at), order):
            view.write(row_of(x, view.storage), at, stored)
            mark_written(view, 0, at)

    return evaluate
