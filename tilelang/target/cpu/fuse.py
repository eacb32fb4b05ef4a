"""Fusion of elementwise loops with a reduction of their result: a piece of a line is computed, then combined while in registers.

``T.copy(X[row, 0], x)`` or a ``T.Parallel`` over all of ``x``, followed by ``T.reduce_*(x, …)`` along the last axis, become one
loop over the line. This is legal if no piece depends on another: each buffer that the loops store to is accessed by them only at
the element of the iteration, they do not access the result, and none of these has another name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import walk_expr
from tilelang.target.cpu.elementwise import Elementwise, elementwise
from tilelang.target.cpu.forward_copies import is_call
from tilelang.target.cpu.reduce import in_registers
from tilelang.tileop import record_of
from tilelang.tileop.reduce import Reduce


def _independent(loops: Sequence[Elementwise], record: Reduce, own: frozenset[int]) -> bool:
    """Whether no piece needs another: what the loops store to is theirs alone, element by element."""
    stored = set[int]().union(*(made.stored for made in loops))
    result = hash(record.dst.buffer)
    # A tensor of the caller, or a buffer with two names, may be read by another piece under the other name: what the loops store
    # to, and the result of lines before.
    if not stored | {result} <= own or result in stored:
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
    for stmt in statements:
        loops = _loops_before(found, stmt, lowering) if is_call(stmt, Reduce) else []
        if loops:
            found[-len(loops) :] = [(stmt, loops)]
        else:
            found.append((stmt, None))
    return found


def _loops_before(found: Sequence[tuple[Any, Any]], reduction: Any, lowering: Any) -> list[Elementwise]:
    """The last statements that may run piece by piece with a reduction, as loops; none where that is for nothing."""
    record = record_of(reduction)
    loops: list[Elementwise] = []
    if not in_registers(record, lowering.scope):
        return loops
    extents = tuple(map(as_int, record.src.extents))
    for stmt, taken in reversed(found):
        made = elementwise(stmt, lowering.scope) if taken is None else None
        if made is None or made.extents != extents or not _independent([made, *loops], record, lowering.own):
            # Statements are taken from the reduction backwards, as long as each may run piece by piece with all after it.
            break
        loops.insert(0, made)
    return loops if loops and hash(record.src.buffer) in loops[-1].stored else []
