"""Aliasing of tensor parameters: a caller may pass one tensor for two parameters, to work in place.

``B[i] = A[i] + 1`` is right for ``A`` = ``B`` whatever a compiler reorders, since each element is read before it is written. But
where a tensor is read after another one was written, the read has to see the write if both are the same memory: such parameters
must not be declared ``restrict``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.memory import is_global
from tilelang.ir.visit import children, statement_exprs, walk, walk_expr
from tilelang.tileop import record_of

_ALIAS_SENSITIVE = "tl.alias_sensitive"
"""Attribute of a function in which a tensor is read after another one was written."""


def note_alias_sensitive(func: Any, context: Any = None) -> Any:
    """The function, marked where compilers have to assume that its tensors may alias."""
    return func.with_attr(_ALIAS_SENSITIVE, True) if alias_sensitive(func.body) else func


def are_distinct(func: Any) -> bool:
    """Whether compilers may assume that the tensors of a function, a result of :func:`note_alias_sensitive`, do not alias."""
    return not (func.attrs and _ALIAS_SENSITIVE in func.attrs)


def alias_sensitive(body: Any) -> set[Any]:
    """The tensors whose order of accesses matters if they are the same memory: one is read after another was written.

    Iterations of a ``T.Parallel`` have no order, so a loop of them does not count as one.
    """
    order = Order(sources_of(body))
    order.visit(body)
    return order.found


def sources_of(body: Any) -> dict[Any, Any]:
    """View of a tensor -> the tensor."""
    views = [stmt for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer) and not isinstance(stmt.data, ir.Var)]
    return {stmt.buffer: stmt.data.args[0] for stmt in views}


class Order:
    """Walks statements in program order.

    Attributes:
        sources: see :func:`sources_of`.
        written: the tensors that have been written so far; in a loop, also all that its body writes.
        read: the tensors that have been read so far.
        found: the result of :func:`alias_sensitive`.
    """

    def __init__(self, sources: Mapping[Any, Any]):
        self.sources = sources
        self.written: set[Any] = set()
        self.read: set[Any] = set()
        self.found: set[Any] = set()

    def visit(self, stmt: Any) -> None:
        """Follows a statement."""
        if isinstance(stmt, ir.While) or (isinstance(stmt, ir.For) and stmt.kind != ir.ForKind.PARALLEL):
            # From the second iteration on, all that the body writes has been written before what it reads.
            self.written |= {self.root(b) for each in walk(stmt) for b, kind in accesses(each) if kind == WRITE}
        for buffer, kind in accesses(stmt):
            self.access(self.root(buffer), kind)
        for child in children(stmt):
            self.visit(child)

    def root(self, buffer: Any) -> Any:
        """The tensor that a buffer is a view of; itself if it is none."""
        while buffer in self.sources:
            buffer = self.sources[buffer]
        return buffer

    def access(self, buffer: Any, kind: str) -> None:
        """Follows an access of a tensor."""
        if kind == WRITE:
            self.written.add(buffer)
            return
        self.read.add(buffer)
        if self.written - {buffer}:
            self.found |= self.written | {buffer}


def accesses(stmt: Any) -> Iterator[tuple[Any, str]]:
    """(tensor, read or write) of a statement's own accesses, reads first."""
    record = record_of(stmt)
    if record is not None:
        regions = [(region.buffer, access) for region, access in record.regions()]
        found = [(buffer, READ) for buffer, access in regions if "r" in access]
        found += [(buffer, WRITE) for buffer, access in regions if "w" in access]
    else:
        stored = [stmt.buffer] if isinstance(stmt, ir.BufferStore) else []
        exprs = [*stmt.indices, stmt.value] if stored else statement_exprs(stmt)
        found = [(part.source, READ) for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.TensorLoad)]
        found += [(buffer, WRITE) for buffer in (*_given(exprs), *stored)]
    return ((buffer, kind) for buffer, kind in found if is_global(buffer))


def _given(exprs: Iterable[Any]) -> Iterator[Any]:
    """The tensors that calls may write: the element that is the first argument of an atomic, all that foreign code is given."""
    calls = (part for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.Call) and isinstance(part.op, ir.Op))
    for call in calls:
        if call.op.name.startswith(_WRITE_FIRST) and isinstance(call.args[0], ir.TensorLoad):
            yield call.args[0].source
        elif call.op.name.startswith((*_WRITE_FIRST, "tirx.call_extern")):
            yield from (part.source for part in walk_expr(call) if isinstance(part, ir.TensorLoad))


_WRITE_FIRST = ("tl.atomic", "tirx.address_of")
"""Calls whose first argument is the element that is written; the others are values."""
