"""Memory of threads that a ``T.Parallel`` carries from one iteration of a thread to the next: sums, maxima, counts.

Iterations read such a variable or array before they store to it, at indices that the loop does not move, and use its value for
nothing but what they store to such memory. So no iteration sees the order of the others, and each thread may keep the result of
its own (docs/semantics.md). ``if x[i] > most: most = x[i]; place = i`` carries both: a condition is part of what is stored below.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from itertools import pairwise
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_array, is_declared_fragment, is_local, is_memory
from tilelang.ir.visit import (
    children,
    computed_from,
    expressions,
    mentions,
    parallel_loops,
    reads_its_place,
    same_place,
    statement_exprs,
    walk,
    walk_expr,
)
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_ELSEWHERE = "elsewhere"
"""Where a value goes that something other than a store to memory uses: calls with effects, jumps."""

Flow = tuple[set[Any], Any]
"""Variables and buffers, and the variable or buffer that gets a value which depends on them."""


def carried_by(loop: Any, views: Container[Any] = ()) -> set[Any]:
    """The variables and arrays that a ``T.Parallel`` of the IR carries.

    Args:
        loop: its outermost loop.
        views: buffers that share their memory with other buffers; they are not carried.
    """
    loops = parallel_loops(loop)
    return carried(loops[-1].body, (each.loop_var for each in loops), views)


def carried(body: Any, axes: Iterable[Any], views: Container[Any] = ()) -> set[Any]:
    """The variables and arrays that a loop carries.

    Args:
        body: of the loop.
        axes: its variables.
        views: as for :func:`carried_by`.
    """
    axes = tuple(axes)

    def may_be(places: list[tuple[Any, ...]]) -> bool:
        moved = computed_from(axes, body)
        return not any(mentions(index, moved) for place in places for index in place)

    return _kept(body, is_local, may_be, views)


def accumulated(body: Any, views: Container[Any] = ()) -> dict[Any, tuple[Any, ...]]:
    """The fragments whose elements iterations of a loop carry to those that use the same element, with the indices of each.

    ``if x[i, j] > most[i]: most[i] = x[i, j]; place[i] = j`` accumulates both, along ``j``: every access has the same indices.
    Fragments have the indices of those that their values come from or go to; others, in the same loop, may have their own.

    Args:
        body: of the loop.
        views: as for :func:`carried_by`.
    """
    found = _kept(body, is_declared_fragment, lambda places: all(are_equal(place, places[0]) for place in places), views)
    places = {buffer: place for buffer, place, _ in _uses(body) if buffer in found}
    together = _connected(found, list(flows(body, set()))) if len(found) > 1 else [found]
    agree = (group for group in together if all(are_equal(places[one], places[other]) for one, other in pairwise(group)))
    return {buffer: places[buffer] for group in agree for buffer in group}


def _connected(memory: set[Any], moves: list[Flow]) -> list[set[Any]]:
    """Some memory in groups: a value of one goes to another only within a group."""
    groups: list[set[Any]] = []
    for buffer in memory:
        group = {buffer} | (_reached({buffer}.__contains__, moves) & memory)
        joined = [other for other in groups if not other.isdisjoint(group)]
        groups = [*(other for other in groups if other not in joined), group.union(*joined)]
    return groups


def is_updated_alone(body: Any, buffer: Any) -> bool:
    """Whether a loop uses a fragment in nothing but statements that update one element each (``total[i] += x[i, j]``)."""
    updates = [
        stmt for stmt in walk(body) if isinstance(stmt, ir.BufferStore) and stmt.buffer.same_as(buffer) and reads_its_place(stmt)
    ]
    loads = sum(same_place(part, stmt) for stmt in updates for part in walk_expr(stmt.value))
    return len(updates) + loads == sum(used.same_as(buffer) for used, _, _ in _uses(body))


def are_equal(place: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Whether two accesses have the same indices."""
    return tvm_ffi.structural_equal(list(place), list(other))


def _kept(
    body: Any, is_kind: Callable[[Any], bool], may_be: Callable[[list[tuple[Any, ...]]], bool], views: Container[Any]
) -> set[Any]:
    """The memory that iterations read before they store to it, whose value they use for nothing but stores to such memory.

    Args:
        body: of the loop.
        is_kind: the memory that is looked at.
        may_be: whether a buffer may be accessed at some indices.
        views: as for :func:`carried_by`.
    """
    stored = {stmt.buffer for stmt in walk(body) if isinstance(stmt, ir.BufferStore) and is_kind(stmt.buffer)}
    if not stored:
        return set()
    inside = {stmt.buffer for stmt in walk(body) if isinstance(stmt, (ir.AllocBuffer, ir.DeclBuffer))}
    uses = list(_uses(body))
    own = {buffer for buffer in stored - inside if buffer not in views}
    first: dict[Any, bool] = {}
    for buffer, _, stores in uses:
        first.setdefault(buffer, stores)
    if all(first[buffer] for buffer in own):
        return set()
    own = {buffer for buffer in own if may_be([indices for used, indices, _ in uses if used.same_as(buffer)])}
    moves = list(flows(body, set()))
    kept = own | inside
    own -= _reached(lambda target: target is _ELSEWHERE or (_is_buffer(target) and target not in kept), moves, backwards=True)
    read_first = {buffer for buffer in own if not first[buffer]}
    return own & (read_first | _reached(read_first.__contains__, moves)) if read_first else set()


def is_run_by_each_thread(body: Any, memory: Iterable[Any]) -> bool:
    """Whether every thread runs all iterations of a loop that carries some memory.

    It does where that is an array of the thread's, and the loop uses no fragment and changes nothing but memory of threads: then
    no iteration belongs to a thread, and programs expect that each has the whole result.
    """
    if not any(is_array(buffer) for buffer in memory):
        return False
    stored = (stmt for stmt in walk(body) if isinstance(stmt, (ir.BufferStore, ir.Evaluate)))
    if any(isinstance(stmt, ir.Evaluate) or is_memory(stmt.buffer) for stmt in stored):
        return False
    loaded = (buffer for buffer, _, _ in _uses(body))
    return not any(map(is_declared_fragment, loaded)) and not any(has_effect(part) for part in expressions(body))


def carried_partially(loop: Any, views: Container[Any] = ()) -> set[Any]:
    """Of a ``T.Parallel`` whose iterations are shared out, the memory of which each thread holds the result of its own.

    Args:
        loop, views: as for :func:`carried_by`.
    """
    found = carried_by(loop, views)
    return set() if is_run_by_each_thread(parallel_loops(loop)[-1].body, found) else found


# What goes where ---------------------------------------------------------------------------------------------------------


def _uses(body: Any) -> Iterator[tuple[Any, tuple[Any, ...], bool]]:
    """The accesses of elements in program order: the buffer, the indices, whether it is a store."""
    for stmt in walk(body):
        exprs = (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)
        for part in (part for expr in exprs for part in walk_expr(expr)):
            if isinstance(part, ir.TensorLoad):
                yield part.source, tuple(part.indices), False
        if isinstance(stmt, ir.BufferStore):
            yield stmt.buffer, tuple(stmt.indices), True


def flows(stmt: Any, control: set[Any]) -> Iterator[Flow]:
    """What the values that a statement gives to variables and buffers depend on.

    Args:
        stmt: the statement.
        control: what decides whether it is executed.
    """
    exprs = (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)
    named = control | {part for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.Var)}
    if isinstance(stmt, ir.BufferStore):
        yield named, stmt.buffer
    elif isinstance(stmt, ir.Bind):
        yield named, stmt.var
    elif isinstance(stmt, (ir.For, ir.IfThenElse, ir.While)):
        if isinstance(stmt, ir.For):
            yield named, stmt.loop_var
        control = named
    elif not isinstance(stmt, (ir.SeqStmt, ir.AttrStmt, ir.AllocBuffer)):
        yield named, _ELSEWHERE
    if any(has_effect(part) for expr in exprs for part in walk_expr(expr)):
        yield named, _ELSEWHERE
    for child in children(stmt):
        yield from flows(child, control)


def _reached(begins: Callable[[Any], bool], flows: list[Flow], backwards: bool = False) -> set[Any]:
    """What values flow to from some variables and buffers, or backwards where they come from."""
    found: set[Any] = set()
    before = -1
    while before != len(found):
        before = len(found)
        for sources, target in flows:
            if backwards and (begins(target) or target in found):
                found |= sources
            elif not backwards and any(begins(source) or source in found for source in sources):
                found.add(target)
    return found


def _is_buffer(target: Any) -> bool:
    return isinstance(target, ir.Var) and ir.is_buffer_var(target)


def has_effect(part: Any) -> bool:
    """Whether a part of an expression does, or asks for, more than its arguments say."""
    name = intrinsic_name(part)
    return name is not None and (not INTRINSICS[name].pure or bool(INTRINSICS[name].threads))
