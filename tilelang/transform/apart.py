"""Whether iterations of different threads store to different elements, found out by listing what each of them stores to."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import conjuncts, variables
from tilelang.layout.fragment import FragmentLayout

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ir.Add: operator.add, ir.Sub: operator.sub, ir.Mul: operator.mul, ir.FloorDiv: operator.floordiv, ir.FloorMod: operator.mod,
    ir.EQ: operator.eq, ir.NE: operator.ne, ir.LT: operator.lt, ir.LE: operator.le, ir.GT: operator.gt, ir.GE: operator.ge,
    ir.BitwiseAnd: operator.and_, ir.BitwiseOr: operator.or_, ir.BitwiseXor: operator.xor,
}  # fmt: skip
"""What indices and conditions on them are made of."""

_OUTSIDE = (0, 1_000_003)
"""Values for what is the same in all iterations: what holds for both of them does not depend on it, but for contrived indices."""


class Store:
    """A store to an element.

    Attributes:
        stmt: the statement.
        guards: the conditions around it, of which all must hold.
    """

    def __init__(self, stmt: Any, guards: Iterable[Any]):
        self.stmt = stmt
        self.guards = [part for guard in guards for part in conjuncts(guard)]


def are_apart(stores: Iterable[Store], axes: Sequence[Any], within: Sequence[bool], layout: FragmentLayout | None = None) -> bool:
    """Whether no two iterations that may be different threads' store to one element; False where that is not known.

    Args:
        stores: the statements.
        axes: the loops around them.
        within: for each axis whether the iterations along it are one thread's.
        layout: says which thread runs an iteration, if it is known; the axes have its shape.
    """
    by_buffer: dict[Any, list[Store]] = {}
    for store in stores:
        by_buffer.setdefault(store.stmt.buffer, []).append(store)
    unclear = [found for found in by_buffer.values() if not _are_axes(found, axes, within)]
    extents = [as_int(axis.extent) for axis in axes]
    if not unclear or not all(isinstance(extent, int) for extent in extents):
        return not unclear
    import numpy as np  # few programs need it

    numbers = np.indices(tuple(extents), dtype=np.int64).reshape(len(axes), -1)
    values = {axis.loop_var: each for axis, each in zip(axes, numbers)}
    if layout is None:
        threads = numbers[[number for number, own in enumerate(within) if not own]]
    else:
        threads = layout.locate(tuple(numbers))[0][None]
    return all(_is_each_of_one_thread(found, values, threads, outside) for found in unclear for outside in _OUTSIDE)


def _is_each_of_one_thread(stores: Sequence[Store], values: Mapping[Any, Any], threads: Any, outside: int) -> bool:
    """Whether the iterations that store to an element are all of one thread.

    Args:
        stores: the statements that store to the buffer.
        values: of the axes, in each iteration.
        threads: the values of those that are shared out, a column for each iteration.
        outside: the value of what is the same in all iterations.
    """
    import numpy as np

    places, owners = [], []
    for store in stores:
        count = threads.shape[1]
        try:
            place = np.stack([np.broadcast_to(_value(index, values, outside), count) for index in store.stmt.indices])
        except (_NotKnown, ZeroDivisionError):
            return False
        runs = np.ones(count, bool)
        for guard in store.guards:
            runs &= _may_hold(guard, values, outside)
        places.append(place[:, runs])
        owners.append(threads[:, runs])
    place, owner = np.hstack(places), np.hstack(owners)
    return np.unique(place, axis=1).shape[1] == np.unique(np.vstack([place, owner]), axis=1).shape[1]


def _may_hold(guard: Any, values: Mapping[Any, Any], outside: int) -> Any:
    """In which iterations a condition may hold."""
    # `j == n` holds once at most, whatever n is; of other conditions on what is not known, either side may be taken.
    if not isinstance(guard, ir.EQ) and any(var not in values for var in variables(guard)):
        return True
    try:
        return _value(guard, values, outside)
    except (_NotKnown, ZeroDivisionError):
        return True


def _are_axes(stores: Sequence[Store], axes: Sequence[Any], within: Sequence[bool]) -> bool:
    """Whether all store to one place, of which each axis that is shared out is an index by itself, as in most programs."""
    indices = list(stores[0].stmt.indices)
    if not all(tvm_ffi.structural_equal(indices, list(store.stmt.indices)) for store in stores[1:]):
        return False
    return all(own or any(index.same_as(axis.loop_var) for index in indices) for axis, own in zip(axes, within))


class _NotKnown(Exception):
    """An expression that is not computed from axes alone."""


def _value(expr: Any, values: Mapping[Any, Any], outside: int) -> Any:
    if isinstance(expr, ir.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Var):
        return values.get(expr, outside)
    if isinstance(expr, ir.Cast):
        return _value(expr.value, values, outside)
    if type(expr) not in _OPERATORS:
        raise _NotKnown
    return _OPERATORS[type(expr)](_value(expr.a, values, outside), _value(expr.b, values, outside))
