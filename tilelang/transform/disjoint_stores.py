"""Whether iterations of different threads store to different elements, found out by listing what each of them stores to.

What is the same in all iterations (``n`` in ``f[(i + n) // 8] += x[i]``) shifts the indices of all of them. Behind quotients and
remainders by constants it matters only modulo a *period*, here 8, so that as many values of it stand for all others. That holds
where each store has the same of it, as in ``f[i + n]`` and ``f[i + n + 1]``; stores that differ in it (``f[i + n]`` and
``f[i + m]``), and indices that it does more to than shift them (``f[i * n]``), are taken to meet.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import tvm_ffi

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, difference
from tilelang.ir.facts import Facts
from tilelang.ir.visit import conjuncts, variables, walk_expr
from tilelang.layout.fragment import FragmentLayout

_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ir.Add: operator.add, ir.Sub: operator.sub, ir.Mul: operator.mul, ir.FloorDiv: operator.floordiv, ir.FloorMod: operator.mod,
    ir.EQ: operator.eq, ir.NE: operator.ne, ir.LT: operator.lt, ir.LE: operator.le, ir.GT: operator.gt, ir.GE: operator.ge,
    ir.BitwiseAnd: operator.and_, ir.BitwiseOr: operator.or_, ir.BitwiseXor: operator.xor,
}  # fmt: skip
"""What indices and conditions on them are made of."""

_MOST = 1 << 20
"""Iterations that are listed, over all values of what is the same in them; more are taken to meet."""


class Store:
    """A store to an element.

    Attributes:
        stmt: the statement.
        guards: the conditions around it, of which all must hold.
        loops: those around it inside of the iteration.
        named: variables that are computed in the iteration.
    """

    def __init__(self, stmt: Any, guards: Iterable[Any], loops: Sequence[Any] = (), named: Iterable[Any] = ()):
        self.stmt, self.loops, self.named = stmt, tuple(loops), frozenset(named)
        self.guards = [part for guard in guards for part in conjuncts(guard)]

    @cached_property
    def indices(self) -> list[Any]:
        return list(self.stmt.indices)


def are_disjoint(
    stores: Iterable[Store], axes: Sequence[Any], within: Sequence[bool], layout: FragmentLayout | None = None
) -> bool:
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
    shared = [axis for axis, own in zip(axes, within) if not own]
    unclear = [found for found in by_buffer.values() if not _are_axes(found, shared)]
    return all(_Places(found, axes, shared, layout).are_each_of_one_thread() for found in unclear)


def _are_axes(stores: Sequence[Store], shared: Sequence[Any]) -> bool:
    """Whether each axis that is shared out is by itself one of the indices, the same in all stores, as in most programs."""
    positions = range(min(len(store.indices) for store in stores))
    return all(
        any(all(store.indices[place].same_as(axis.loop_var) for store in stores) for place in positions) for axis in shared
    )


class _Places:
    """The elements of a buffer that iterations store to.

    Attributes:
        stores: the statements that store to it.
        axes: the loops around them.
        shared: those of them that are shared out over threads.
        layout: as for :func:`are_disjoint`.
        moving: variables that are not the same in all iterations; inside: those of them that loops have.
        outside: the others that indices name.
    """

    def __init__(self, stores: Sequence[Store], axes: Sequence[Any], shared: Sequence[Any], layout: FragmentLayout | None):
        self.stores, self.axes, self.shared, self.layout = stores, axes, shared, layout
        self.inside = {loop.loop_var for loops in (axes, *(store.loops for store in stores)) for loop in loops}
        self.moving = self.inside.union(*(store.named for store in stores))
        used = {var for store in stores for index in store.indices for var in variables(index)}
        self.outside = used - self.moving

    def are_each_of_one_thread(self) -> bool:
        """Whether the iterations that store to an element are all of one thread."""
        if self.outside and not self._have_one_distance():
            return False
        try:
            period = math.lcm(*(self._period(index) for store in self.stores for index in store.indices))
            self._check_count(period ** len(self.outside))
            tried = product(range(period), repeat=len(self.outside))
            return all(self._holds_for(dict(zip(self.outside, values))) for values in tried)
        except (_NotKnown, ZeroDivisionError):
            return False

    def _period(self, index: Any) -> int:
        """How many values of what is the same in all iterations stand for all others in an index."""
        # (i + n) % 8 is equal in two iterations where i % 8 is, whatever n is. Another store's index may be greater by 1.
        is_remainder = isinstance(index, ir.FloorMod) and isinstance(as_int(index.b), int) and len(self.stores) == 1
        if is_remainder and _period(index.a, self.outside) == 1:
            return 1
        return _period(index, self.outside)

    def _check_count(self, tried: int) -> None:
        """Raises _NotKnown for more iterations, with so many values each, than are listed."""
        for store in self.stores:
            extents = [as_int(loop.extent) for loop in (*self.axes, *store.loops)]
            if not all(isinstance(extent, int) for extent in extents) or not 0 < math.prod(extents) * tried <= _MOST:
                raise _NotKnown

    def _have_one_distance(self) -> bool:
        """Whether what is the same in all iterations is so in all indices, too, so that it makes no difference between stores."""
        facts, first = Facts(), self.stores[0].indices
        distances = [facts.simplify(difference(one, other)) for store in self.stores for one, other in zip(store.indices, first)]
        return not any(var in self.outside for step in distances if not isinstance(step, int) for var in variables(step))

    def _holds_for(self, outside: Mapping[Any, int]) -> bool:
        import numpy as np  # few programs need it

        places, owners = zip(*(self._of(store, outside) for store in self.stores))
        place, owner = np.hstack(places), np.hstack(owners)
        return _different(place) == _different(np.vstack([place, owner]))

    def _of(self, store: Store, outside: Mapping[Any, int]) -> tuple[Any, Any]:
        """The elements that a store stores to, with the turns in which it does, and the threads: a column for each iteration."""
        import numpy as np

        loops, turns = (*self.axes, *store.loops), self._turns(store)
        extents = tuple(as_int(loop.extent) for loop in loops)
        numbers = np.indices(extents, dtype=np.int64).reshape(len(loops), -1)
        values = {**outside, **{loop.loop_var: _begun(loop, each) for loop, each in zip(loops, numbers)}}
        count = numbers.shape[1]
        rows = [*store.indices, *(_turn(turns, n) for n in self._common)]
        place = np.stack([np.broadcast_to(_value(row, values), count) for row in rows])
        if self.layout is None:
            threads = numbers[[number for number, axis in enumerate(self.axes) if axis in self.shared]]
        else:
            threads = self.layout.locate(tuple(numbers[: len(self.axes)]))[0][None]
        runs = np.ones(count, bool)
        for guard in store.guards:
            runs &= _may_hold(guard, values)
        return place[:, runs], threads[:, runs]

    def _turns(self, store: Store) -> list[tuple[Any, Any]]:
        """(n, expression of the axes) of the conditions ``expression == n``: of its values, one has a turn, whatever n is."""
        equalities = [guard for guard in store.guards if isinstance(guard, ir.EQ)]
        pairs = [pair for guard in equalities for pair in ((guard.a, guard.b), (guard.b, guard.a))]
        known = {loop.loop_var for loop in (*self.axes, *store.loops)}

        def is_same(n: Any) -> bool:
            # Memory may be changed by an iteration.
            reads = any(isinstance(part, (ir.TensorLoad, ir.Call)) for part in walk_expr(n))
            return not reads and self.moving.isdisjoint(variables(n))

        return [(n, turn) for n, turn in pairs if is_same(n) and known.issuperset(variables(turn))]

    @cached_property
    def _common(self) -> list[Any]:
        """Every n that decides which turns all of the stores have."""
        turns = [self._turns(store) for store in self.stores]
        return [n for n, _ in turns[0] if all(any(tvm_ffi.structural_equal(n, each) for each, _ in found) for found in turns)]


def _different(columns: Any) -> int:
    """How many different columns there are."""
    import numpy as np

    low = columns.min(axis=1, initial=0)
    spans = [int(span) for span in columns.max(axis=1, initial=0) - low + 1]
    if math.prod(spans) >= 1 << 63:
        return np.unique(columns, axis=1).shape[1]
    # As one number each they are sorted faster: a nest of 256 x 128 in 0.09 s in place of 0.31.
    numbers = np.zeros(columns.shape[1], np.int64)
    for row, start, span in zip(columns, low, spans):
        numbers = numbers * span + (row - start)
    return np.unique(numbers).size


def _turn(turns: Sequence[tuple[Any, Any]], n: Any) -> Any:
    return next(turn for each, turn in turns if tvm_ffi.structural_equal(n, each))


def _begun(loop: Any, numbers: Any) -> Any:
    """The values of a loop's variable by the numbers of its iterations."""
    low, step = as_int(loop.min), 1 if loop.step is None else as_int(loop.step)
    if not isinstance(low, int) or not isinstance(step, int):
        raise _NotKnown
    return low + step * numbers


def _may_hold(guard: Any, values: Mapping[Any, Any]) -> Any:
    """In which iterations a condition may hold; all of them where it is not computed from axes alone."""
    try:
        return _value(guard, {var: value for var, value in values.items() if not isinstance(value, int)})
    except (_NotKnown, ZeroDivisionError):
        return True


class _NotKnown(Exception):
    """An expression that is not computed from known variables alone."""


def _period(expr: Any, outside: set[Any], is_divided: bool = False) -> int:
    """The least number by which variables may change so that a value changes by the same in all iterations.

    Args:
        outside: the variables.
        is_divided: whether the value is divided, so that it matters which values it has.

    Raises:
        _NotKnown: they do more than shift it.
    """
    named = set(variables(expr))
    if isinstance(expr, ir.Var) or named.isdisjoint(outside) or (named <= outside and not is_divided):
        return 1
    if str(expr.ty) not in ("int32", "int64"):  # others may wrap around
        raise _NotKnown
    if isinstance(expr, ir.Cast):
        return _period(expr.value, outside, is_divided)
    if isinstance(expr, (ir.Add, ir.Sub)):
        return math.lcm(*(_period(side, outside, is_divided) for side in (expr.a, expr.b)))
    if isinstance(expr, ir.Mul) and isinstance(as_int(expr.a), int):
        return _period(expr.b, outside, is_divided)
    constant = as_int(expr.b) if isinstance(expr, (ir.Mul, ir.FloorDiv, ir.FloorMod)) else None
    if not isinstance(constant, int):
        raise _NotKnown
    if isinstance(expr, ir.Mul):
        return _period(expr.a, outside, is_divided)
    return _period(expr.a, outside, is_divided=True) * abs(constant)


def _value(expr: Any, values: Mapping[Any, Any]) -> Any:
    if isinstance(expr, ir.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Var) and expr in values:
        return values[expr]
    if isinstance(expr, ir.Cast):
        value = _value(expr.value, values)
    elif type(expr) in _OPERATORS:
        value = _OPERATORS[type(expr)](_value(expr.a, values), _value(expr.b, values))
    else:
        raise _NotKnown
    return _wrapped(value, canonical(str(expr.ty)))


def _wrapped(value: Any, dtype: Any) -> Any:
    """Integers as a type holds them that wraps around: narrow ones and unsigned ones."""
    import numpy as np

    name = str(dtype)
    if name == "uint64" and np.any(np.asarray(value) < 0):
        raise _NotKnown
    wraps = dtype.is_integer and (dtype.bits in (8, 16) or name == "uint32")
    return np.asarray(value).astype(name).astype(np.int64) if wraps else value
