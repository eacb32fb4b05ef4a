"""Privatisation: the iterations of a ``T.Parallel`` get copies of their own of the variables and arrays that they store to.

Before: a program in which ``T.Parallel`` loops store to variables and arrays (``T.alloc_var``, ``T.alloc_local``) that other
statements use too.
After: no statement outside of such a loop uses the memory that its iterations store to:

    for i in T.Parallel(n):             for i in T.Parallel(n):
        if c[i]:                            own = v; stored = False
            v = x[i]              =>        if c[i]:
        y[i] = v                                own = x[i]; stored = True
                                            y[i] = own
                                            if stored: last = own; any = True
                                        if any: v = last

Copies that are not needed are left out: the copy in, if an iteration stores to the element before it reads it; the copy out, if
nothing reads the element after the loop before it is stored to again. If iterations leave different values, the element is
undefined afterwards (docs/semantics.md), so the order of their stores to ``last`` does not matter.

An array is not privatised if no two iterations touch one element (``l[i] = l[i] + 1``). Neither is one of which each iteration
reads only what it has stored itself, at indices that depend on the loop's variables: the target decides where the elements of
such an array are. What iterations carry (``tileop/carried.py``) stays the thread's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import tvm_ffi

from tilelang.errors import CompileError, UnsupportedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, difference, index_variables, same, simplify
from tilelang.ir.memory import is_array, is_local
from tilelang.ir.span import location_of
from tilelang.ir.visit import children, is_parallel, parallel_loops, statement_exprs, variables, walk
from tilelang.tileop.carried import carried_by
from tilelang.transform.first_use import Element, FirstUse, Memory, Use, by_iteration, elements, loop_range, uses
from tilelang.transform.needed_later import NeededLater
from tilelang.transform.substitute import substitute

_ZERO = ir.IntImm("int32", 0)
_FEW = 8
"""Largest number of elements that are moved by single statements; more are moved by a loop."""
_WHOLE_BYTES = {"int4": "int8", "uint4": "uint8", "float4_e2m1fn": "float16"}
"""The types of ``last`` for elements of which two share a byte: threads that store to neighbours would overwrite each other's."""


def separate_iterations(func: Any, context: Any = None) -> Any:
    """The function with memory of their own for the iterations of its ``T.Parallel`` loops."""
    body, _ = with_own_variables(func.body)
    return func if body is func.body else func.with_body(body)


def with_own_variables(body: Any) -> tuple[Any, list[Any]]:
    """Statements with private memory for the iterations of ``T.Parallel`` loops.

    Returns:
        The statements, and the variables and arrays that carry values out of the loops.
    """
    shared = _shared_by_iterations(body)
    if not any(shared.values()):
        return body, []
    needed = NeededLater({memory for found in shared.values() for memory in found}, body)
    made: dict[Any, Any] = {}
    declared = _Declared()
    results: list[Any] = []
    for loop, found in shared.items():
        separated = _Separated(loop)
        for memory in found:
            separated.add(memory, needed.after(loop, memory), declared)
        made[loop] = separated.code() if found else loop
        results += separated.results
    body = tvm_ffi.structural_map(body, [(ir.For, lambda loop: made.get(loop, loop))])
    return declared.into(body), results


# What iterations share -----------------------------------------------------------------------------------------------------


def _shared_by_iterations(body: Any) -> dict[Any, list[Memory]]:
    """The memory that the iterations of each ``T.Parallel`` must have of their own."""
    loops = list(_parallel_loops(body))
    stored = {loop: _stored_buffers(loop) for loop in loops}
    if not any(stored.values()):
        return {}
    memories = _memories(body)
    views = {buffer for memory in memories.values() if memory.views for buffer in memory.buffers}
    for loop in loops:
        own = carried_by(loop, views)
        stored[loop] = [buffer for buffer in stored[loop] if buffer not in own]
    within = {loop: [use for stmt in walk(loop) for use in uses(stmt)] for loop in loops}
    outside = {memories[use.buffer] for stmt in _statements_outside(body) for use in uses(stmt) if use.buffer in memories}
    found = {}
    for loop in loops:
        # What other loops or statements use as well has to be copied out when the loop ends.
        others = outside.union(
            memories[use.buffer] for other in loops if other is not loop for use in within[other] if use.buffer in memories
        )
        candidates = dict.fromkeys(memories[buffer] for buffer in stored[loop] if buffer in memories)
        found[loop] = [memory for memory in candidates if _needs_copies(memory, loop, within[loop], memory in others)]
    return found


def _memories(body: Any) -> dict[Any, Memory]:
    """The memory behind each variable and array of threads."""
    parents = {
        stmt.buffer: stmt.data.args[0]
        for stmt in walk(body)
        if isinstance(stmt, ir.DeclBuffer) and isinstance(stmt.data, ir.Call)
    }
    roots = [stmt.buffer for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer) and is_local(stmt.buffer)]
    views: dict[Any, list[Any]] = {root: [] for root in roots}
    for view, root in parents.items():
        while root in parents:
            root = parents[root]
        if root in views:
            views[root].append(view)
    memories = [Memory(root, found) for root, found in views.items()]
    return {buffer: memory for memory in memories for buffer in memory.buffers}


def _parallel_loops(stmt: Any) -> Iterator[Any]:
    """The outermost ``T.Parallel`` loops."""
    if is_parallel(stmt):
        yield stmt
        return
    for child in children(stmt):
        yield from _parallel_loops(child)


def _statements_outside(stmt: Any) -> Iterator[Any]:
    """The statements that stand in no ``T.Parallel``."""
    if is_parallel(stmt):
        return
    yield stmt
    for child in children(stmt):
        yield from _statements_outside(child)


def _stored_buffers(loop: Any) -> list[Any]:
    """The variables and arrays of threads from outside of a loop that it stores to."""
    within = {stmt.buffer for stmt in walk(loop) if isinstance(stmt, ir.AllocBuffer)}
    stores = (stmt.buffer for stmt in walk(loop) if isinstance(stmt, ir.BufferStore) and is_local(stmt.buffer))
    return [buffer for buffer in dict.fromkeys(stores) if buffer not in within]


def _needs_copies(memory: Memory, loop: Any, within: list[Use], used_elsewhere: bool) -> bool:
    """Whether the iterations of a ``T.Parallel`` need copies of their own of some memory.

    Args:
        memory: variables or an array that the loop stores to.
        loop: the loop.
        within: the accesses of the loop.
        used_elsewhere: whether other statements access the memory.
    """
    mine = [use for use in within if use.buffer in memory.buffers]
    if any(use.indices is None for use in mine) or _are_disjoint(loop, mine):
        return False
    # An iteration reads what it has not stored: the value from before the loop, or, without copies, another iteration's.
    if FirstUse(memory, parallel_loops(loop)[-1].body).read:
        return True
    # No iteration reads what another one has stored, so only the values after the loop matter. In an array whose index depends on
    # the loop's variables, each iteration leaves them in elements of its own.
    return used_elsewhere and not (is_array(memory.root) and all(_index_depends_on(use, loop) for use in mine if use.stores))


def _index_depends_on(use: Use, loop: Any) -> bool:
    """Whether the index of an access depends on the variables of a ``T.Parallel``."""
    dependent = {each.loop_var for each in parallel_loops(loop)}
    for stmt in walk(loop):
        target = stmt.var if isinstance(stmt, ir.Bind) else stmt.loop_var if isinstance(stmt, ir.For) else None
        if target is not None and any(var in dependent for expr in statement_exprs(stmt) for var in variables(expr)):
            dependent.add(target)
    return any(var in dependent for index in use.indices or () for var in variables(index))


def _are_disjoint(loop: Any, mine: list[Use]) -> bool:
    """Whether no two iterations touch one element: the indices along some axes already differ between any two iterations."""
    if any(not use.buffer.same_as(mine[0].buffer) for use in mine):
        return False
    ranges = _known_ranges(loop)
    variables_that_vary = [each.loop_var for each in parallel_loops(loop) if as_int(each.extent) != 1]
    # A term that all accesses share (an outer loop's variable, a block index) shifts all elements by the same distance.
    columns = [_unshifted(column, loop) for column in zip(*(use.indices for use in mine))]
    # Axes whose index is not known are left out: if two iterations differ along another axis, their elements differ in any case.
    columns = [column for column in columns if all(var in ranges for index in column for var in variables(index))]
    owner: dict[Element, Any] = {}
    for indices in zip(*columns):
        found = by_iteration(indices, ranges)
        if found is None:
            return False
        for element, values in found:
            # Each element has one owner, the first iteration that touches it; a second one is another iteration's access of the
            # same element. An index without one of the variables is the same element for all of its values.
            iteration = [values.get(var) for var in variables_that_vary]
            if None in iteration or owner.setdefault(element, iteration) != iteration:
                return False
    return bool(columns) or not variables_that_vary


def _unshifted(column: tuple[Any, ...], loop: Any) -> tuple[Any, ...]:
    """The indices along an axis without the term that all of them add, if it does not change in the loop."""
    inner = {
        stmt.loop_var if isinstance(stmt, ir.For) else stmt.var for stmt in walk(loop) if isinstance(stmt, (ir.For, ir.Bind))
    }
    outer = {var for index in column for var in variables(index) if var not in inner}
    if not outer or any(map(ir.is_buffer_var, outer)):
        return column
    # k * 8 + i and k * 8 + i + 1, with k of an outer loop: without k they are i and i + 1, and the difference is k * 8 in both.
    zeros = {var: ir.IntImm(str(var.ty), 0) for var in outer}
    rest = tuple(substitute(index, zeros) for index in column)
    shifts = [simplify(difference(index, without)) for index, without in zip(column, rest)]
    is_common = all(same(shift, shifts[0]) and not any(var in inner for var in variables(shift)) for shift in shifts)
    return rest if is_common else column


def _known_ranges(loop: Any) -> dict[Any, range]:
    """The values of the variables of a loop and those in it, where they are known."""
    ranges = {stmt.loop_var: loop_range(stmt) for stmt in walk(loop) if isinstance(stmt, ir.For)}
    return {var: values for var, values in ranges.items() if values is not None}


# The loop with memory of its own -------------------------------------------------------------------------------------------


class _Declared:
    """New buffers, which are allocated next to the buffers that they copy, and new views of them."""

    def __init__(self) -> None:
        self._buffers: dict[Any, list[Any]] = {}
        self._views: dict[Any, list[dict[Any, Any]]] = {}

    def beside(self, buffer: Any, new: Iterable[Any]) -> None:
        """Allocates buffers where another one is."""
        self._buffers.setdefault(buffer, []).extend(new)

    def views(self, memory: Memory, own: Any) -> dict[Any, Any]:
        """The buffers of a memory -> their like over another root."""
        twins = {memory.root: own, **{view: _like(view, str(view.name), str(view.dtype)) for view in memory.views}}
        for view in memory.views:
            self._views.setdefault(view, []).append(twins)
        return twins

    def into(self, body: Any) -> Any:
        """Statements with the allocations and views."""
        body = tvm_ffi.structural_map(body, [(ir.AllocBuffer, self._allocated)])
        return tvm_ffi.structural_map(body, [(ir.DeclBuffer, self._viewed)]) if self._views else body

    def _allocated(self, stmt: Any) -> Any:
        # Without a place in the program, as none of its lines has them.
        return _sequence([stmt, *(ir.AllocBuffer(buffer, {}) for buffer in self._buffers.get(stmt.buffer, ()))])

    def _viewed(self, stmt: Any) -> Any:
        twins = self._views.get(stmt.buffer, ())
        return _sequence(
            [stmt, *(ir.DeclBuffer(each[stmt.buffer], data=substitute(stmt.data, each), span=stmt.span) for each in twins)]
        )


class _Separated:
    """A ``T.Parallel`` whose variables and arrays become private.

    Attributes:
        loop: as it is in the program.
        results: the variables and arrays that carry values out of it.
        values: buffer of the program -> an iteration's own copy.
        marks: buffer of the program -> flags: which elements the iteration has stored to.
        before, after: statements around the loop.
        first, last: statements at the start and at the end of an iteration.
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

    def add(self, memory: Memory, needed: set[Element], declared: _Declared) -> None:
        """Gives the iterations memory of their own for some that they store to.

        Args:
            needed: the elements of which the values are read after the loop.
            declared: gets the new buffers.

        Raises:
            CompileError: a view was stored to, and what it leaves is read afterwards.
        """
        var, span, dtype = memory.root, self.loop.span, str(memory.root.dtype)
        own = _like(var, var.name, dtype)
        declared.beside(var, [own])
        self.values |= declared.views(memory, own)
        read = FirstUse(memory, parallel_loops(self.loop)[-1].body).read
        # Only elements that an iteration may read before it stores to them need the old value.
        self.first += _each(memory, read, lambda at: _store(own, ir.BufferLoad(var, at), at, span))
        needed = needed & self._stored(memory) if needed else needed
        if not needed:
            return
        mark = self.marks[var] = _like(var, f"{var.name}_is_stored", "bool")
        last, some = _like(var, f"{var.name}_last", _WHOLE_BYTES.get(dtype, dtype)), _like(var, f"{var.name}_has_last", "bool")
        declared.beside(var, [mark, last, some])
        self.results += [last, some]
        self.before += _each(memory, needed, lambda at: _store(some, _bool(False), at, span))
        # The flags of all elements: the body may set any of them.
        self.first += _each(memory, memory.elements, lambda at: _store(mark, _bool(False), at, span))
        self.last += _each(
            memory,
            needed,
            lambda at: _if(mark, at, [_store(last, ir.BufferLoad(own, at), at, span), _store(some, _bool(True), at, span)]),
        )
        self.after += _each(memory, needed, lambda at: _if(some, at, [_store(var, ir.BufferLoad(last, at), at, span)]))

    def _stored(self, memory: Memory) -> set[Element]:
        """The elements that the loop may store to."""
        known = _known_ranges(self.loop)
        found: set[Element] = set()
        for stmt in walk(self.loop):
            if isinstance(stmt, ir.BufferStore) and stmt.buffer in memory.buffers:
                if not stmt.buffer.same_as(memory.root):
                    raise _of_view(stmt, memory)
                touched = elements(stmt.indices, known)
                found |= memory.elements if touched is None else touched
        return found

    def code(self) -> Any:
        """The loop, with the statements before and after it."""
        loops = parallel_loops(self.loop)
        body = substitute(self._marked(loops[-1].body), self.values)
        if self.last and any(isinstance(stmt, ir.Continue) for stmt in walk(body)):
            # `continue` would skip the copies out. In a loop of one iteration it ends that loop only.
            once = ir.IntImm("int32", 1)
            body = ir.For(ir.Var("once", "int32"), _ZERO, once, ir.ForKind.SERIAL, body, span=self.loop.span)
        new = _sequence([*self.first, body, *self.last])
        for loop in reversed(loops):
            new = ir.For(
                loop.loop_var, loop.min, loop.extent, loop.kind, new, annotations=loop.annotations, step=loop.step, span=loop.span
            )
        return _sequence([*self.before, new, *self.after])

    def _marked(self, body: Any) -> Any:
        """The body, which also sets the flags of the elements that it stores to."""

        def mark(stmt: Any) -> Any:
            if stmt.buffer not in self.marks:
                return stmt
            return ir.SeqStmt([_store(self.marks[stmt.buffer], _bool(True), stmt.indices, stmt.span), stmt])

        return tvm_ffi.structural_map(body, [(ir.BufferStore, mark)]) if self.marks else body


def _each(memory: Memory, which: Iterable[Element], statement: Callable[[list[Any]], Any]) -> list[Any]:
    """A statement for each of some elements; a loop over all elements if they are many, or not known."""
    which = sorted(which)
    if len(which) <= _FEW and () not in which:
        return [statement([ir.IntImm("int32", index) for index in element]) for element in which]
    at = index_variables(len(memory.root.shape))
    stmt = statement(at)
    for var, extent in reversed(list(zip(at, memory.root.shape))):
        stmt = ir.For(var, _ZERO, extent, ir.ForKind.SERIAL, stmt, span=stmt.span)
    return [stmt]


def _of_view(stmt: Any, memory: Memory) -> CompileError:
    return UnsupportedError(
        f"iterations of a T.Parallel store to {stmt.buffer.name!r}, a view of {memory.root.name!r}, which is read after the loop",
        location_of(stmt.span),
        f"store to {memory.root.name!r} itself, or to a fragment",
    )


def _like(buffer: Any, name: str, dtype: str) -> Any:
    return ir.decl_buffer(list(buffer.shape), dtype, name, scope=buffer.scope(), layout=None, data_alignment=1)


def _store(buffer: Any, value: Any, at: Any, span: Any) -> Any:
    value = value if str(value.ty) == str(buffer.dtype) else ir.Cast(str(buffer.dtype), value)
    return ir.BufferStore(buffer, value, list(at), span)


def _if(mark: Any, at: list[Any], stmts: list[Any]) -> Any:
    return ir.IfThenElse(ir.BufferLoad(mark, at), _sequence(stmts), None, stmts[0].span)


def _bool(value: bool) -> Any:
    return ir.IntImm("bool", value)


def _sequence(stmts: list[Any]) -> Any:
    return stmts[0] if len(stmts) == 1 else ir.SeqStmt(stmts)
