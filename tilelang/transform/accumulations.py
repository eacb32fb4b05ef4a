"""Iterations of a ``T.Parallel`` that update one element of a fragment run within a thread.

In ``for i, j in T.Parallel(m, n): total[i] += a[i, j]`` the iterations along ``j`` change one element, one after another
(docs/semantics.md). Shared out over threads they would lose most of the terms. In ``total[i, j // 32] += a[i, j]``, 32
iterations along ``j`` change one element; in ``total[i % 8] += a[i]`` every eighth one does. So an axis is written as digits in
mixed radix, and those along which iterations accumulate are axes that are not shared out over threads. Where no digit is left to
share out (``total[0] += x[i]``), each thread sums its iterations in a reducer; what is no sum becomes a single iteration, which
all threads that hold the element run, and so does a loop whose elements follow no digits (``total[x[i]] += 1``).
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from typing import Any, NamedTuple

import tvm_ffi

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, difference, float_constant
from tilelang.ir.facts import Facts
from tilelang.ir.memory import FRAGMENT, is_fragment
from tilelang.ir.region import Region
from tilelang.ir.visit import (
    children,
    computed_from,
    expressions,
    is_parallel,
    mentions,
    parallel_loops,
    reads_its_place,
    walk,
    with_children,
)
from tilelang.layout.fragment import FragmentLayout
from tilelang.tileop.carried import accumulated
from tilelang.tileop.reduce import FinalizeReducer
from tilelang.transform.disjoint_stores import Store, are_disjoint
from tilelang.transform.substitute import substitute

WITHIN_THREAD = "tl.within_thread"
"""The note of a loop of a ``T.Parallel`` whose iterations, for fixed values of the other loops, one thread runs."""

_LAYOUT = "tl.loop_layout"

_ZERO = ir.IntImm("int32", 0)


def accumulate_in_order(body: Any) -> Any:
    """A kernel's statements in which such loops have a note."""
    allocated = (stmt for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer))
    # Each thread has its own part of a reducer, so its iterations may be anywhere.
    reducers = {stmt.buffer for stmt in allocated if "tl.reducer_op" in (stmt.annotations or {})}

    def ordered(stmt: Any) -> Any:
        if is_parallel(stmt):
            return _ordered(stmt, reducers)
        return with_children(stmt, ordered)

    return ordered(body)


def _ordered(loop: Any, reducers: set[Any]) -> Any:
    axes = parallel_loops(loop)
    body = axes[-1].body
    carried = accumulated(body)
    stores = list(_stores(body, carried, reducers))
    if not stores:  # most loops
        return loop
    if _LAYOUT in loop.annotations:
        if _fits(str(loop.annotations[_LAYOUT]), stores, axes):
            return loop
        notes = {name: value for name, value in loop.annotations.items() if name != _LAYOUT}
        loop = ir.For(loop.loop_var, loop.min, loop.extent, loop.kind, loop.body, annotations=notes, span=loop.span)
    digits = {axis: _digits(stores, axis, body) for axis in axes}
    if not any(digit.summed for found in digits.values() for digit in found):
        if are_disjoint(stores, axes, [False] * len(axes)):
            return loop
    loops, body = _by_digits(digits, body)
    parts, within = zip(*loops)
    if not are_disjoint(_stores(body, carried, reducers), parts, within):
        loops, body = [(axis, True) for axis in axes], axes[-1].body
    if all(summed or as_int(part.extent) == 1 for part, summed in loops):
        reduced = _reduced(loop, carried, reducers)
        if reduced is not None:
            return reduced
        loops.insert(0, (_once(body), False))
    return _nested(loops, body, loop.annotations)


def _by_digits(digits: Mapping[Any, list[_Digit]], body: Any) -> tuple[list[tuple[Any, bool]], Any]:
    """Loops over the digits of axes, each with whether its iterations accumulate, and the body in terms of them."""
    loops = []
    for axis, found in digits.items():
        parts, index = _split(axis, found)
        body = body if parts == [axis] else substitute(body, {axis.loop_var: index})
        loops += [(part, digit.summed) for part, digit in zip(reversed(parts), reversed(found))]
    return loops, body


def _nested(loops: list[tuple[Any, bool]], body: Any, annotations: Mapping[str, Any]) -> Any:
    """A ``T.Parallel`` of these loops, some of them within a thread."""
    for number, (part, summed) in reversed(list(enumerate(loops))):
        notes = {**annotations, "tl.parallel": len(loops)} if number == 0 else {}
        if summed:
            notes[WITHIN_THREAD] = True
        body = ir.For(part.loop_var, part.min, part.extent, ir.ForKind.PARALLEL, body, annotations=notes, span=part.span)
    return body


def _fits(layout: str, stores: list[Store], axes: list[Any]) -> bool:
    """Whether a ``loop_layout`` gives iterations that update one element to one thread. Another shape is an error later on."""
    given = FragmentLayout.from_text(layout)
    if given.shape != tuple(as_int(axis.extent) for axis in axes):
        return True
    return are_disjoint(stores, axes, [False] * len(axes), given)


def _reduced(loop: Any, carried: Container[Any], reducers: set[Any]) -> Any | None:
    """A loop whose iterations all add to the same elements, as one that adds to reducers; None where they do more with these."""
    body = parallel_loops(loop)[-1].body
    inside = {
        stmt.var if isinstance(stmt, ir.Bind) else stmt.loop_var for stmt in walk(loop) if isinstance(stmt, (ir.Bind, ir.For))
    }
    parts: dict[Any, Any] = {}  # store -> the reducer that it adds to
    for store in (each.stmt for each in _stores(body, carried, reducers)):
        buffer = store.buffer
        uses = sum(part.same_as(buffer) for part in expressions(body))
        # The two uses are the store and the load in its value: any other would see what one thread has summed so far.
        if uses != 2 or not _is_sum(store) or any(mentions(index, inside) for index in store.indices):
            return None
        parts[store] = ir.decl_buffer(
            [1], str(buffer.dtype), f"{buffer.name}_part", scope=FRAGMENT, layout=None, data_alignment=1
        )
    summed = tvm_ffi.structural_map(loop, [(ir.BufferStore, lambda each: _to(parts[each], each) if each in parts else each)])
    before = [stmt for part in parts.values() for stmt in _begun(part, loop.span)]
    return ir.SeqStmt([*before, summed, *(stmt for store, part in parts.items() for stmt in _added(store, part))])


def _is_sum(store: Any) -> bool:
    """Whether a store adds to its element, or subtracts from it, once."""
    value = _without_cast(store.value)
    if not _adds_alike(str(store.buffer.dtype), str(value.ty)):
        return False
    terms = [value.a, value.b] if isinstance(value, ir.Add) else [value.a] if isinstance(value, ir.Sub) else []
    return any(isinstance(term, ir.TensorLoad) and term.source.same_as(store.buffer) for term in map(_without_cast, terms))


def _adds_alike(element: str, sum_: str) -> bool:
    """Whether elements of one type, which are added as another, may be added in parts: no conversion loses more than digits."""
    # An int32 to which 0.5 is added as a float drops the fraction each time, and an int32 added as an int8 wraps around.
    element, sum_ = canonical(element), canonical(sum_)
    floats, integers = (all(getattr(each, kind) for each in (element, sum_)) for kind in ("is_float", "is_integer"))
    return element == sum_ or ((floats or integers) and sum_.bits >= element.bits)


def _without_cast(expr: Any) -> Any:
    return expr.value if isinstance(expr, ir.Cast) else expr


def _to(part: Any, store: Any) -> Any:
    """A store that adds to a reducer instead of its own element."""
    load = lambda each: ir.BufferLoad(part, [_ZERO]) if each.source.same_as(store.buffer) else each  # noqa: E731
    return ir.BufferStore(part, tvm_ffi.structural_map(store.value, [(ir.TensorLoad, load)]), [_ZERO], store.span)


def _begun(part: Any, span: Any) -> list[Any]:
    dtype = str(part.dtype)
    zero = constant(0, dtype) if dtype.startswith(("int", "uint")) else float_constant(0.0, dtype)
    notes = {"tl.reducer_op": "sum", "tl.reducer_replication": "none"}
    return [ir.AllocBuffer(part, notes, span), _once(ir.BufferStore(part, zero, [_ZERO], span))]


def _added(store: Any, part: Any) -> list[Any]:
    """What all threads have added to a reducer is added to the element that it stands for."""
    total = ir.BufferLoad(store.buffer, list(store.indices)) + ir.BufferLoad(part, [_ZERO])
    added = ir.BufferStore(store.buffer, total, list(store.indices), store.span)
    return [FinalizeReducer(Region.whole(part), op="sum").to_stmt(store.span), _once(added)]


def _once(body: Any, notes: Any = None) -> Any:
    """A statement as the only iteration of a ``T.Parallel``."""
    notes = {"tl.parallel": 1} if notes is None else notes
    return ir.For(ir.Var("once", "int32"), _ZERO, constant(1), ir.ForKind.PARALLEL, body, annotations=notes, span=body.span)


def _stores(body: Any, carried: Container[Any], reducers: set[Any]) -> Iterator[Store]:
    """The accumulations into fragments in the body of a loop.

    Args:
        body: the statements.
        carried: fragments that the loop accumulates in more than one statement.
        reducers: fragments that are none of these.
    """
    named = {stmt.var for stmt in walk(body) if isinstance(stmt, ir.Bind)}

    def inside(stmt: Any, guards: tuple[Any, ...], loops: tuple[Any, ...]) -> Iterator[Store]:
        if isinstance(stmt, ir.BufferStore) and is_fragment(stmt.buffer) and stmt.buffer not in reducers:
            if stmt.buffer in carried or reads_its_place(stmt):
                yield Store(stmt, guards, loops, named)
        for child in children(stmt):
            if isinstance(stmt, ir.IfThenElse):
                condition = stmt.condition if child.same_as(stmt.then_case) else ir.Not(stmt.condition)
                yield from inside(child, (*guards, condition), loops)
            else:
                yield from inside(child, guards, (*loops, stmt) if isinstance(stmt, ir.For) else loops)

    return inside(body, (), ())


class _Digit(NamedTuple):
    """A digit of an axis in mixed radix: so many values, and whether iterations along it store to one element."""

    extent: int
    summed: bool


def _digits(stores: list[Store], axis: Any, body: Any) -> list[_Digit]:
    """An axis as digits, minor first, as far as the indices of the stores show; one digit where its extent is not known."""
    extent = as_int(axis.extent)
    distances = {distance for store in stores for distance in _distances(store, axis, body)}
    if not isinstance(extent, int):
        return [_Digit(0, bool(distances))]
    weights = [weight for weight in range(1, extent + 1) if extent % weight == 0]

    def following(weight: int) -> list[int]:
        return [each for each in weights if each > weight and each % weight == 0]

    def kept_until(weight: int) -> int:
        # Iterations that store to one element have the same digit: a distance between them moves the digits below at most.
        ends = (end for end in following(weight) if all(distance % end < weight for distance in distances))
        return max(ends, default=weight)

    found, weight = [], 1
    while weight < extent:
        end = kept_until(weight)
        summed = end == weight
        if summed:
            end = next((each for each in following(weight) if kept_until(each) > each), extent)
        found.append(_Digit(end // weight, summed))
        weight = end
    return found or [_Digit(1, False)]


def _split(axis: Any, digits: list[_Digit]) -> tuple[list[Any], Any]:
    """The loops over the digits of an axis, minor first, and the axis' value in terms of theirs."""
    if len(digits) == 1:
        return [axis], axis.loop_var
    loops, index, weight = [], axis.min, 1
    for number, digit in enumerate(digits):
        var = ir.Var(f"{axis.loop_var.name}_{number}", "int32")
        loops.append(ir.For(var, _ZERO, constant(digit.extent), axis.kind, axis.body, span=axis.span))
        index, weight = index + var * weight, weight * digit.extent
    return loops, index


def _distances(store: Store, axis: Any, body: Any) -> Iterator[int]:
    """How far apart along ``axis`` iterations are that store to one element, as far as the indices show.

    Looked at are neighbours, powers of two, and divisors of the extent.
    """
    moved = computed_from([axis.loop_var], body)
    if any(_is_single(part, axis) for part in store.guards):
        return
    indices = [index for index in store.stmt.indices if mentions(index, moved)]
    if any(index.same_as(axis.loop_var) or mentions(index, moved - {axis.loop_var}) for index in indices):
        return
    extent = as_int(axis.extent)
    others = range(2, extent) if isinstance(extent, int) else ()
    candidates = (1, *(each for each in others if extent % each == 0 or each & (each - 1) == 0))
    yield from (distance for distance in candidates if _agree(indices, axis, distance))


def _is_single(condition: Any, axis: Any) -> bool:
    """Whether a condition such as ``i == j`` holds in one iteration of ``axis`` at most."""
    if not isinstance(condition, ir.EQ):
        return False
    here = difference(condition.a, condition.b)
    step = Facts().simplify(difference(substitute(here, {axis.loop_var: axis.loop_var + 1}), here))
    return as_int(step) not in (0, None)


def _agree(indices: list[Any], axis: Any, distance: int) -> bool:
    """Whether the first iteration of ``axis`` and the one so far after it have the same indices."""
    facts = Facts()
    first, second = ([substitute(index, {axis.loop_var: axis.min + offset}) for index in indices] for offset in (0, distance))
    return all(facts.simplify(difference(one, other)) == 0 for one, other in zip(first, second, strict=True))
