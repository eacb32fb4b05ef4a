"""Elementwise loops before a reduction of what they make: pieces of a line are made, and combined while they are in registers.

``T.copy(X[row, 0], x)`` or a ``T.Parallel`` over all of ``x``, followed by ``T.reduce_*(x, …)`` along the last axis, are one loop
over the line in place of two. That is the same program where the pieces do not meet: each buffer that the loops store to is
accessed by them at the element of the iteration only, and has no other name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import flattened, statement_exprs, walk, walk_expr
from tilelang.target.cpu.copy import box_condition, copied
from tilelang.target.cpu.elide import is_pure, record_of
from tilelang.target.cpu.emit import seq
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.reduce import in_registers
from tilelang.tileop.copy import Copy
from tilelang.tileop.reduce import Reduce
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

    def piece(self, outer: Sequence[Any], first: Any, count: int) -> Any:
        """The ``count`` iterations of the line at ``outer`` from ``first`` on, as a loop that is not lowered yet."""
        inner = ir.Var("l", self.variables[-1].ty)
        values = dict(zip(self.variables, [*outer, first + inner]))
        body = seq([substitute(store, values) for store in self.stores])
        return ir.For(inner, ir.IntImm(inner.ty, 0), ir.IntImm(inner.ty, count), ir.ForKind.SERIAL, body)


def own_buffers(body: Any) -> frozenset[int]:
    """The buffers (by hash) that a program allocates and never views under another name."""
    named = {hash(node) for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer) for node in walk_expr(stmt.data)}
    return frozenset(hash(stmt.buffer) for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer)) - named


def elementwise(stmt: Any, scope: Scope) -> Elementwise | None:
    """A statement as a loop nest that stores elements; None for any other."""
    record = record_of(stmt)
    if isinstance(record, Copy):
        return _of_copy(record, scope)
    return _of_loops(stmt) if isinstance(stmt, ir.For) and "tl.parallel" in stmt.annotations else None


def _of_copy(record: Copy, scope: Scope) -> Elementwise | None:
    src, dst = record.src, record.dst
    extents = tuple(map(as_int, dst.extents))
    whole = dst.is_whole and all(isinstance(extent, int) for extent in extents)
    if not whole or box_condition(src, scope) is not None:
        return None
    variables = tuple(ir.Var(f"i{axis}", "int32") for axis in range(len(extents)))
    offsets = [var for var, extent in zip(variables, extents) if extent != 1]
    store = copied(src, dst, offsets)
    indices = [var if extent != 1 else ir.IntImm("int32", 0) for var, extent in zip(variables, extents)]
    return Elementwise(variables, extents, (ir.BufferStore(store.buffer, store.value, indices),))


def _of_loops(loop: Any) -> Elementwise | None:
    loops = [loop]
    while len(loops) < as_int(loop.annotations["tl.parallel"]):
        loops.append(loops[-1].body)
    extents = tuple(as_int(each.extent) for each in loops)
    stores = flattened(loops[-1].body)
    plain = all(as_int(each.min) == 0 and each.step is None for each in loops) and all(isinstance(e, int) for e in extents)
    if not plain or not all(isinstance(stmt, ir.BufferStore) for stmt in stores):
        return None
    calls = (node for stmt in stores for expr in statement_exprs(stmt) for node in walk_expr(expr) if isinstance(node, ir.Call))
    return Elementwise(tuple(each.loop_var for each in loops), extents, tuple(stores)) if all(map(is_pure, calls)) else None


def fusible(before: Sequence[Elementwise | None], record: Reduce, own: frozenset[int]) -> int:
    """How many of the last loops in ``before`` may run piece by piece with a reduction; 0 where that is for nothing."""
    extents = tuple(map(as_int, record.src.extents))
    count = 0
    for made in reversed(before):
        if made is None or made.extents != extents or not _apart([made, *before[len(before) - count :]], record, own):
            break
        count += 1
    last = before[-1].stored if count else set()
    return count if hash(record.src.buffer) in last else 0


def _apart(loops: Sequence[Any], record: Reduce, own: frozenset[int]) -> bool:
    """Whether no piece needs another: what the loops store to is theirs alone, element by element."""
    stored = set[int]().union(*(made.stored for made in loops))
    result = hash(record.dst.buffer)
    if not stored <= own or result in stored:
        return False
    for made in loops:
        for buffer, indices in _accesses(made.stores):
            if hash(buffer) == result or hash(buffer) in stored and not _is_element(made, indices):
                return False
    return True


def _accesses(stores: Sequence[Any]) -> Any:
    """The buffers and indices of all loads and stores."""
    for store in stores:
        yield store.buffer, store.indices
        for expr in (store.value, *store.indices):
            yield from ((node.source, node.indices) for node in walk_expr(expr) if isinstance(node, ir.TensorLoad))


def _is_element(made: Elementwise, indices: Sequence[Any]) -> bool:
    """Whether indices name the element of the iteration."""
    if len(indices) != len(made.variables):
        return False
    pairs = zip(indices, made.variables, made.extents)
    return all(isinstance(i, ir.Var) and i.same_as(var) or extent == 1 and as_int(i) == 0 for i, var, extent in pairs)


def groups(statements: Sequence[Any], lowering: Any) -> list[tuple[Any, Any]]:
    """The statements of a sequence; each reduction that takes the loops before it, with these, others with None."""
    found: list[tuple[Any, Any]] = []
    loops: list[Elementwise | None] = []
    for stmt in statements:
        record = record_of(stmt)
        reduces = isinstance(record, Reduce) and in_registers(record, lowering.scope)
        count = fusible(loops, record, lowering.own) if reduces else 0
        if count:
            found[-count:], loops[-count:] = [(stmt, loops[-count:])], [None]
        else:
            found.append((stmt, None))
            loops.append(elementwise(stmt, lowering.scope))
    return found
