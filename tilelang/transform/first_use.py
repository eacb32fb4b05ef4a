"""Which elements of memory of threads (``T.alloc_var``, ``T.alloc_local``) a statement stores to, and reads before it has.

An element is a tuple of indices. If the bounds of the loops around an access are known, its index is evaluated for every
iteration, which gives the set of elements that it touches. Otherwise two accesses are known to touch the same element only if
they have the same index in the same iteration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from math import prod
from operator import add, floordiv, mod, mul, sub
from typing import Any, NamedTuple

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import children, operands, statement_exprs, variables, walk, walk_expr
from tilelang.tileop import record_of

Element = tuple[int, ...]
Ranges = Mapping[Any, range]

_LIMIT = 1 << 14
"""Largest number of elements, or of iterations, that are enumerated."""

_OPERATORS: Mapping[type, Callable[[int, int], int]] = {
    ir.Add: add, ir.Sub: sub, ir.Mul: mul, ir.FloorDiv: floordiv, ir.FloorMod: mod, ir.Min: min, ir.Max: max,
}  # fmt: skip


class Use(NamedTuple):
    """One access of a buffer by a statement itself; ``indices`` is None for the whole buffer, or for unknown elements."""

    buffer: Any
    indices: tuple[Any, ...] | None
    stores: bool


def uses(stmt: Any) -> list[Use]:
    """What a statement itself accesses, in order."""
    if isinstance(stmt, ir.BufferStore):
        read = [use for expr in (*stmt.indices, stmt.value) for use in _reads(expr)]
        return [*read, Use(stmt.buffer, tuple(stmt.indices), True)]
    record = record_of(stmt)
    if record is not None:
        filled = [region.buffer for region, access in record.regions() if access == "w" and region.is_whole]
        read = [use for use in _reads(stmt.value) if not any(use.buffer.same_as(buffer) for buffer in filled)]
        return [*read, *(Use(buffer, None, True) for buffer in filled)]
    return [use for expr in statement_exprs(stmt) for use in _reads(expr)]


def _reads(expr: Any) -> Iterator[Use]:
    if isinstance(expr, ir.Var):
        if ir.is_buffer_var(expr):
            yield Use(expr, None, False)
        return
    parts = operands(expr)
    if isinstance(expr, ir.TensorLoad):
        yield Use(expr.source, tuple(expr.indices), False)
        parts = parts[1:]
    for part in parts:
        yield from _reads(part)


# Elements ----------------------------------------------------------------------------------------------------------------


def loop_range(loop: Any) -> range | None:
    """The values of a loop's variable, where they are known."""
    low, count, step = as_int(loop.min), as_int(loop.extent), 1 if loop.step is None else as_int(loop.step)
    if not all(isinstance(number, int) for number in (low, count, step)):
        return None
    return range(low, low + count, step)


class Memory:
    """Memory of threads.

    Attributes:
        root: the buffer that was allocated.
        views: other buffers over the same memory; their elements are not told apart.
        buffers: the root and its views.
        elements: of the root. If they are not known, or too many, there is one element ``()``, which stands for all of them.
    """

    def __init__(self, root: Any, views: Iterable[Any] = ()):
        self.root = root
        self.views = list(views)
        self.buffers = {root, *self.views}
        shape = [as_int(extent) for extent in root.shape]
        known = all(isinstance(extent, int) for extent in shape) and prod(shape) <= _LIMIT
        self.elements: frozenset[Element] = frozenset(product(*map(range, shape)) if known else [()])


def elements(indices: Iterable[Any], ranges: Ranges) -> frozenset[Element] | None:
    """The elements that an access touches in all iterations of loops; None where that is not known."""
    found = by_iteration(indices, ranges)
    return None if found is None else frozenset(element for element, _ in found)


def by_iteration(indices: Iterable[Any], ranges: Ranges) -> list[tuple[Element, dict[Any, int]]] | None:
    """The element that an access touches in each iteration of loops, and the values of their variables."""
    indices = list(indices)
    names = {var for index in indices for var in variables(index)}
    if not names <= set(ranges) or prod(len(ranges[var]) for var in names) > _LIMIT:
        return None
    iterations = [dict(zip(names, values)) for values in product(*(ranges[var] for var in names))]
    found = [(tuple(_value(index, values) for index in indices), values) for values in iterations]
    return None if any(None in element for element, _ in found) else found


def _value(expr: Any, values: Mapping[Any, int]) -> Any:
    """The value of an index for given values of its variables; None where it is anything but arithmetic."""
    if isinstance(expr, ir.Var):
        return values[expr]
    if isinstance(expr, ir.IntImm):
        return int(expr.value)
    if isinstance(expr, ir.Cast):
        return _value(expr.value, values)
    operator = _OPERATORS.get(type(expr))
    if operator is None:
        return None
    left, right = _value(expr.a, values), _value(expr.b, values)
    if left is None or right is None or (right == 0 and operator in (floordiv, mod)):
        return None
    return operator(left, right)


# What is stored ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Place:
    """An index that was stored to; with ``over``, for all values of these variables of loops."""

    indices: tuple[Any, ...]
    over: Ranges = field(default_factory=dict)


@dataclass(frozen=True)
class _Stored:
    """What has certainly been stored to: known elements, and places whose element is not known."""

    elements: frozenset[Element] = frozenset()
    places: tuple[_Place, ...] = ()

    def meet(self, other: _Stored) -> _Stored:
        """What has been stored to on both of two paths."""
        # A place over loops is many elements; the other path would have to store to all of them, which is not checked.
        places = (place for place in self.places if not place.over and other.holds(place.indices, {}))
        return _Stored(self.elements & other.elements, tuple(places))

    def at(self, indices: tuple[Any, ...]) -> _Stored:
        """After one more store."""
        found = elements(indices, {})
        if found is not None:
            return _Stored(self.elements | found, self.places)
        if any(isinstance(part, (ir.TensorLoad, ir.Call)) for index in indices for part in walk_expr(index)):
            return self  # the index may have another value the next time that it is evaluated
        return _Stored(self.elements, (*self.places, _Place(indices)))

    def after(self, loop: Any, values: range) -> _Stored:
        """What has been stored to after a loop, if this is what has been after one of its iterations.

        Args:
            loop: the loop.
            values: of its variable.
        """
        within = {stmt.var for stmt in walk(loop.body) if isinstance(stmt, ir.Bind)}
        found, left = set(self.elements), []
        for place in self.places:
            names = {var for index in place.indices for var in variables(index)}
            over = {**place.over, loop.loop_var: values} if loop.loop_var in names else place.over
            touched = elements(place.indices, over)
            if touched is not None:
                found |= touched
            # An index that uses a value bound in the body is a different one in each iteration.
            elif not names & within:
                left.append(_Place(place.indices, over))
        return _Stored(frozenset(found), tuple(left))

    def holds(self, indices: tuple[Any, ...], ranges: Ranges) -> bool:
        """Whether all elements that an access touches have been stored to."""
        touched = elements(indices, ranges)
        if touched is not None and touched <= self.elements:
            return True
        return any(not place.over and _alike(place.indices, indices) for place in self.places)


def _alike(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(tvm_ffi.structural_equal(left, right) for left, right in zip(one, other))


class FirstUse:
    """What a statement does first with each element of some memory of threads.

    Attributes:
        read: the elements that it may read before it has stored to them.
        stored: the elements that it certainly stores to.
    """

    def __init__(self, memory: Memory, stmt: Any):
        self.memory = memory
        self.read: set[Element] = set()
        self._ranges: dict[Any, range] = {}
        self.stored = self._after(stmt, _Stored()).elements

    def _after(self, stmt: Any, before: _Stored) -> _Stored:
        for use in uses(stmt):
            if use.buffer in self.memory.buffers:
                before = self._used(use, before)
        if isinstance(stmt, ir.SeqStmt):
            for part in stmt.seq:
                before = self._after(part, before)
            return before
        if isinstance(stmt, ir.For):
            return self._after_loop(stmt, before)
        ends = [self._after(child, before) for child in children(stmt)]
        if isinstance(stmt, ir.IfThenElse) and stmt.else_case is not None:
            return ends[0].meet(ends[1])
        # A branch without an else may not run: what it stores is not certain to be stored.
        return ends[0] if isinstance(stmt, ir.AttrStmt) else before

    def _used(self, use: Use, before: _Stored) -> _Stored:
        is_root = use.buffer.same_as(self.memory.root)
        if use.stores:
            # A view may have another element type, so it is not known which elements of the root a store through it fills.
            if not is_root:
                return before
            return _Stored(self.memory.elements, before.places) if use.indices is None else before.at(use.indices)
        if not is_root or use.indices is None:
            self.read |= self.memory.elements - before.elements
        elif not before.holds(use.indices, self._ranges):
            touched = elements(use.indices, self._ranges)
            self.read |= (self.memory.elements if touched is None else touched) - before.elements
        return before

    def _after_loop(self, loop: Any, before: _Stored) -> _Stored:
        values = loop_range(loop)
        if values is not None:
            self._ranges[loop.loop_var] = values
        end = self._after(loop.body, before)
        self._ranges.pop(loop.loop_var, None)
        # A loop that may have no iteration, or that a jump may leave early, may have stored to nothing.
        if not values or any(isinstance(stmt, (ir.Break, ir.Continue)) for stmt in walk(loop.body)):
            return before
        return end.after(loop, values)
