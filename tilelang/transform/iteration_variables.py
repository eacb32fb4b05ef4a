"""Privatisation of variables that iterations of a ``T.Parallel`` store to: each has its own, with the variable's old value.

Before: a program in which ``T.Parallel`` loops store to variables (``T.alloc_var``) that other statements use too.
After: no statement outside of such a loop uses the variable that its iterations store to:

    for i in T.Parallel(n):             for i in T.Parallel(n):
        if c[i]:                            own = v; stored = False
            v = x[i]              =>        if c[i]:
        y[i] = v                                own = x[i]; stored = True
                                            y[i] = own
                                            if stored: last = own; any = True
                                        if any: v = last

Dead copies are left out: of the first value where the iteration stores before it reads, of the last one where nothing reads the
variable before it is stored to again. Where iterations leave different values in ``last``, the variable is undefined afterwards
(docs/semantics.md), so that the order of their stores does not matter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import children, flattened, statement_exprs, walk, walk_expr
from tilelang.transform.substitute import substitute

VARIABLE = "local.var"
_ZERO = ir.IntImm("int32", 0)


def separate_iterations(func: Any, context: Any = None) -> Any:
    """The function with variables of their own for the iterations of its ``T.Parallel`` loops."""
    body, _ = with_own_variables(func.body)
    return func if body is func.body else func.with_body(body)


def with_own_variables(body: Any) -> tuple[Any, list[Any]]:
    """Statements with private variables for the iterations of ``T.Parallel`` loops.

    Returns:
        The statements, and the variables that carry values out of the loops.
    """
    views = {stmt.data.args[0] for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer) and isinstance(stmt.data, ir.Call)}
    stored = {loop: [var for var in _stored_variables(loop) if var not in views] for loop in _parallel_loops(body)}
    outside = list(_statements_outside(body))
    used = {loop: [var for var in found if _is_used(var, loop, outside, stored)] for loop, found in stored.items()}
    if not any(used.values()):
        return body, []
    live = _Liveness({var for found in used.values() for var in found}).after_loops(body)
    made: dict[Any, Any] = {}
    allocations: dict[Any, list[Any]] = {}
    results: list[Any] = []
    for loop, found in used.items():
        if found:
            separated = _Separated(loop)
            for var in found:
                allocations.setdefault(var, []).extend(separated.add(var, var in live[loop]))
            made[loop] = separated.code()
            results += separated.results
    return _replaced(body, made, allocations), results


def _replaced(body: Any, made: dict[Any, Any], allocations: dict[Any, list[Any]]) -> Any:
    def allocate(stmt: Any) -> Any:
        new = [ir.AllocBuffer(buffer, {}, stmt.span) for buffer in allocations.get(stmt.buffer, ())]
        return ir.SeqStmt([stmt, *new]) if new else stmt

    body = tvm_ffi.structural_map(body, [(ir.For, lambda loop: made.get(loop, loop))])
    return tvm_ffi.structural_map(body, [(ir.AllocBuffer, allocate)])


# What a program does with its variables --------------------------------------------------------------------------------


def _is_parallel(stmt: Any) -> bool:
    return isinstance(stmt, ir.For) and "tl.parallel" in stmt.annotations


def _parallel_loops(stmt: Any) -> Iterator[Any]:
    """The outermost ``T.Parallel`` loops."""
    if _is_parallel(stmt):
        yield stmt
        return
    for child in children(stmt):
        yield from _parallel_loops(child)


def _statements_outside(stmt: Any) -> Iterator[Any]:
    """The statements that stand in no ``T.Parallel``."""
    if _is_parallel(stmt):
        return
    yield stmt
    for child in children(stmt):
        yield from _statements_outside(child)


def _stored_variables(loop: Any) -> list[Any]:
    within = {stmt.buffer for stmt in walk(loop) if isinstance(stmt, ir.AllocBuffer)}
    stores = (stmt.buffer for stmt in walk(loop) if isinstance(stmt, ir.BufferStore) and stmt.buffer.scope() == VARIABLE)
    return [var for var in dict.fromkeys(stores) if var not in within]


def _is_used(var: Any, loop: Any, outside: list[Any], loops: Any) -> bool:
    """Whether a statement that is not in the loop names a variable."""
    others = (stmt for other in loops if other is not loop for stmt in walk(other))
    return any(_reads(stmt, var) or _stores(stmt, var) for stmts in (outside, others) for stmt in stmts)


def _stores(stmt: Any, var: Any) -> bool:
    return isinstance(stmt, ir.BufferStore) and stmt.buffer.same_as(var)


def _reads(stmt: Any, var: Any) -> bool:
    """Whether a statement itself reads a variable."""
    exprs = (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)
    return any(isinstance(node, ir.Var) and node.same_as(var) for expr in exprs for node in walk_expr(expr))


class _Liveness:
    """Which variables are read after a ``T.Parallel`` before they are stored to: statements are walked backwards."""

    def __init__(self, variables: set[Any]):
        self.variables = variables
        self._after: dict[Any, set[Any]] = {}

    def after_loops(self, body: Any) -> dict[Any, set[Any]]:
        """``T.Parallel`` -> the variables whose values are needed after it."""
        self.before(body, set())
        return self._after

    def before(self, stmt: Any, after: set[Any]) -> set[Any]:
        """The variables whose values are needed before a statement, from those needed after it."""
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return set(self.variables)
        if isinstance(stmt, ir.SeqStmt):
            for part in reversed(flattened(stmt)):
                after = self.before(part, after)
            return after
        if _is_parallel(stmt):
            self._after[stmt] = self._after.get(stmt, set()) | after
            stored = {var for var in after if _leaves_value(stmt, var)}
            return (after - stored) | {var for var in self.variables if reads_first(stmt, var)}
        read = {var for var in self.variables if _reads(stmt, var)}
        if isinstance(stmt, ir.BufferStore):
            return (after - {stmt.buffer}) | read
        if isinstance(stmt, (ir.For, ir.While)):
            for _ in range(2):
                after = after | self.before(stmt.body, after)
            return after | read
        sides = children(stmt)
        passes = not sides or (isinstance(stmt, ir.IfThenElse) and stmt.else_case is None)
        return read.union(after if passes else (), *(self.before(side, after) for side in sides))


def reads_first(stmt: Any, var: Any) -> bool:
    """Whether a statement may read a variable before it has stored to it."""
    return _stored_after(stmt, var, False) is None


def _leaves_value(loop: Any, var: Any) -> bool:
    """Whether a ``T.Parallel`` has iterations, and every one of them stores to a variable."""
    loops = _nest(loop)
    counts = [as_int(each.extent) for each in loops]
    return all(isinstance(count, int) and count > 0 for count in counts) and bool(_stored_after(loops[-1].body, var, False))


def _nest(loop: Any) -> list[Any]:
    """The loops of a ``T.Parallel``."""
    loops = [loop]
    while len(loops) < as_int(loop.annotations["tl.parallel"]):
        loops.append(loops[-1].body)
    return loops


def _stored_after(stmt: Any, var: Any, stored: bool | None) -> bool | None:
    """Whether a variable is certainly stored to after a statement; None where it may have been read before.

    Args:
        stored: whether it is before the statement.
    """
    if not stored and _reads(stmt, var):
        return None
    if _stores(stmt, var):
        return True
    if isinstance(stmt, ir.SeqStmt):
        for part in stmt.seq:
            stored = _stored_after(part, var, stored)
            if stored is None:
                return None
        return stored
    ends = [_stored_after(child, var, stored) for child in children(stmt)]
    if None in ends:
        return None
    certain = isinstance(stmt, ir.AttrStmt) or (isinstance(stmt, ir.IfThenElse) and stmt.else_case is not None)
    return stored or (certain and all(ends))


# The loop with variables of its own --------------------------------------------------------------------------------------


class _Separated:
    """A ``T.Parallel`` whose variables become private.

    Attributes:
        results: the variables that carry values out of it.
    """

    def __init__(self, loop: Any):
        self.loop = loop
        self.results: list[Any] = []
        self.values: dict[Any, Any] = {}
        self.marks: dict[Any, Any] = {}
        self.first: list[Any] = []
        self.last: list[Any] = []
        self.before: list[Any] = []
        self.after: list[Any] = []

    def add(self, var: Any, is_needed: bool) -> list[Any]:
        """Gives the iterations a variable of their own for one that they store to.

        Args:
            is_needed: whether its value is read after the loop.

        Returns:
            The buffers to allocate.
        """
        span, dtype = self.loop.span, str(var.dtype)
        own = self.values[var] = _scalar(var.name, dtype, VARIABLE)
        if reads_first(self.loop, var):
            self.first.append(_store(own, _load(var), span))
        if not is_needed:
            return [own]
        mark = self.marks[var] = _scalar(f"{var.name}_is_stored", "bool", VARIABLE)
        last, some = _scalar(f"{var.name}_last", dtype, VARIABLE), _scalar(f"{var.name}_has_last", "bool", VARIABLE)
        self.results += [last, some]
        self.before.append(_store(some, _bool(False), span))
        self.first.append(_store(mark, _bool(False), span))
        kept = ir.SeqStmt([_store(last, _load(own), span), _store(some, _bool(True), span)])
        self.last.append(ir.IfThenElse(_load(mark), kept, None, span))
        self.after.append(ir.IfThenElse(_load(some), _store(var, _load(last), span), None, span))
        return [own, mark, last, some]

    def code(self) -> Any:
        """The loop, with the statements before and after it."""
        loops = _nest(self.loop)
        body = substitute(self._marked(loops[-1].body), self.values)
        if self.last and any(isinstance(stmt, ir.Continue) for stmt in walk(body)):
            once = ir.IntImm("int32", 1)  # what ends the iteration then ends this loop
            body = ir.For(ir.Var("once", "int32"), _ZERO, once, ir.ForKind.SERIAL, body, span=self.loop.span)
        new = _sequence([*self.first, body, *self.last])
        for loop in reversed(loops):
            new = ir.For(
                loop.loop_var, loop.min, loop.extent, loop.kind, new, annotations=loop.annotations, step=loop.step, span=loop.span
            )
        return _sequence([*self.before, new, *self.after])

    def _marked(self, body: Any) -> Any:
        """The body, which records by flags what it stores to."""

        def mark(stmt: Any) -> Any:
            if stmt.buffer not in self.marks:
                return stmt
            return ir.SeqStmt([stmt, _store(self.marks[stmt.buffer], _bool(True), stmt.span)])

        return tvm_ffi.structural_map(body, [(ir.BufferStore, mark)]) if self.marks else body


def _scalar(name: str, dtype: str, scope: str) -> Any:
    return ir.decl_buffer((1,), dtype, name, scope=scope, layout=None, data_alignment=1)


def _load(buffer: Any) -> Any:
    return ir.BufferLoad(buffer, [_ZERO])


def _store(buffer: Any, value: Any, span: Any) -> Any:
    return ir.BufferStore(buffer, value, [_ZERO], span)


def _bool(value: bool) -> Any:
    return ir.IntImm("bool", value)


def _sequence(stmts: list[Any]) -> Any:
    return stmts[0] if len(stmts) == 1 else ir.SeqStmt(stmts)
