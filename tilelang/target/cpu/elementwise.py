"""Loop nests whose iterations store elements, taken apart: ``T.Parallel`` over stores, and copies inside of their tensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant, is_pure
from tilelang.ir.visit import flattened, is_parallel, own_expressions, parallel_loops, variables, walk_expr
from tilelang.target.cpu.copy import box_condition, copied
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.lower import INDEPENDENT, Scope
from tilelang.tileop import record_of
from tilelang.tileop.copy import Copy
from tilelang.transform.substitute import substitute


@dataclass(frozen=True)
class Elementwise:
    """A loop nest whose iterations each store to an element.

    Attributes:
        variables: those of the loops, the innermost last.
        extents: their lengths.
        stores: the statements of an iteration.
    """

    variables: tuple[Any, ...]
    extents: tuple[int, ...]
    stores: tuple[Any, ...]

    @property
    def stored(self) -> set[int]:
        """The buffers stored to, by hash."""
        return {hash(store.buffer) for store in self.stores}

    def piece(self, outer: Sequence[Any], first: Any, count: int, into: Any = None) -> Any:
        """The ``count`` iterations of the line at ``outer`` from ``first`` on, as a loop that is not lowered yet.

        Where ``into`` is given, a buffer of so many elements, the only store goes there.

        Args:
            outer: values of the outer loop variables.
            first: the first iteration.
            count: how many iterations.
            into: a buffer of ``count`` elements for the results, in place of the nest's own destination.
        """
        inner = ir.Var("l", self.variables[-1].ty)
        stores = [substitute(store, self._values(outer, first + inner)) for store in self.stores]
        if into is not None:
            stores = [ir.BufferStore(into, store.value, [inner]) for store in stores]
        body = seq(stores)
        low, extent = (ir.IntImm(inner.ty, number) for number in (0, count))
        return ir.For(inner, low, extent, ir.ForKind.SERIAL, body, annotations={INDEPENDENT: constant(1)})

    def place(self, outer: Sequence[Any], at: Any) -> Any:
        """The load of the element that the only store of an iteration goes to."""
        (store,) = self.stores
        values = self._values(outer, at)
        return ir.BufferLoad(store.buffer, [substitute(constant(index), values) for index in store.indices])

    def _values(self, outer: Sequence[Any], at: Any) -> dict[Any, Any]:
        return {var: constant(value) for var, value in zip(self.variables, [*outer, at])}


def elementwise(stmt: Any, scope: Scope, own: frozenset[int] = frozenset()) -> Elementwise | None:
    """A statement as a loop nest that stores elements; None for any other.

    Where iterations store to buffers (by hash) of ``own`` alone, which have no other name, they may also name values.

    Args:
        stmt: the statement.
        scope: what is known of the program here.
        own: buffers (by hash) of the block that have no other name.
    """
    record = record_of(stmt)
    if isinstance(record, Copy):
        return _of_copy(record, scope)
    return _of_loops(stmt, own) if is_parallel(stmt) else None


def runs_along(indices: Sequence[Any], inner: Any, scope: Scope) -> bool:
    """Whether neighbouring values of ``inner`` give neighbouring elements of a row.

    Args:
        indices: of an access.
        inner: the innermost loop variable.
        scope: what is known of the program here.
    """
    if not indices:
        return False
    *outer, last = indices
    if any(var.same_as(inner) for index in outer for var in variables(constant(index))):
        return False
    step = change(last, inner, scope)
    return isinstance(step, int) and step == 1


def change(index: Any, variable: Any, scope: Scope) -> Any:
    """By how much an index grows from one value of a variable to the next.

    Args:
        index: a number or an expression.
        variable: the variable.
        scope: what is known of the program here.
    """
    later = substitute(constant(index), {variable: variable + 1})
    return scope.facts.simplify(later - constant(index))


def _of_copy(record: Copy, scope: Scope) -> Elementwise | None:
    src, dst = record.src, record.dst
    extents = tuple(map(as_int, dst.extents))
    # A copy that may leave its tensor has a guard for each element, and the stores of this form have none.
    inside = box_condition(src, scope) is None and box_condition(dst, scope) is None
    if not inside or not all(isinstance(extent, int) for extent in extents):
        return None
    variables = tuple(ir.Var(f"i{axis}", "int32") for axis in range(len(extents)))
    offsets = [var for var, extent in zip(variables, extents) if extent != 1]
    store = copied(src, dst, offsets)
    if dst.is_whole:
        indices = [var if extent != 1 else ir.IntImm("int32", 0) for var, extent in zip(variables, extents)]
        store = ir.BufferStore(store.buffer, store.value, indices)
    return Elementwise(variables, extents, (store,))


def _of_loops(loop: Any, own: frozenset[int]) -> Elementwise | None:
    loops = parallel_loops(loop)
    extents = tuple(as_int(each.extent) for each in loops)
    stores = _without_names(flattened(loops[-1].body), own)
    plain = all(as_int(each.min) == 0 and each.step is None for each in loops) and all(isinstance(e, int) for e in extents)
    if not plain or not all(isinstance(stmt, ir.BufferStore) for stmt in stores):
        return None
    calls = (part for stmt in stores for part in own_expressions(stmt) if isinstance(part, ir.Call))
    return Elementwise(tuple(each.loop_var for each in loops), extents, tuple(stores)) if all(map(is_pure, calls)) else None


def _without_names(statements: Sequence[Any], own: frozenset[int]) -> list[Any]:
    """The statements with the values that they name in place of the names, if no value reads what they store to."""
    values: dict[Any, Any] = {}
    for stmt in statements:
        if isinstance(stmt, ir.Bind):
            values[stmt.var] = substitute(stmt.value, values)
    if not values:
        return list(statements)
    # In place of its name a value is computed where it is used, which may be after stores of the iteration: it must not read the
    # buffers that these change.
    others = [stmt for stmt in statements if not isinstance(stmt, ir.Bind)]
    stored = {hash(stmt.buffer) for stmt in others if isinstance(stmt, ir.BufferStore)}
    read = {hash(node.source) for value in values.values() for node in walk_expr(value) if isinstance(node, ir.TensorLoad)}
    return [substitute(stmt, values) for stmt in others] if stored <= own - read else list(statements)
