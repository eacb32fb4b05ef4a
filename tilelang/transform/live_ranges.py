"""Live-range splitting: a variable of threads that holds several values in turn, none of which meets another, becomes several.

Before: one thread asks for the next tile in ``tile``, which all threads then use for what it handed on:

    if tx == 0:
        tile[0] = atomic_add(next[0], 1)      # differs between threads, as far as the text says
        shared[0] = tile[0]
    sync_threads()
    tile[0] = shared[0]                       # is the same in all threads
    ... tile[0] ...

After: the two are different variables, and what the text says of the first does not hold of the second.

The live ranges are the webs of the definition-use chains (Muchnick, Advanced Compiler Design and Implementation, 1997, section
16.3.3): stores that one read may get its value from belong together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_local
from tilelang.ir.visit import children, flattened, operands, statement_exprs, walk, with_children
from tilelang.tileop.thread import intrinsic_name
from tilelang.transform.substitute import substitute
from tilelang.transform.writes import may_write

Reaching = Mapping[Any, frozenset[int]]
"""Variable -> the numbers of the stores that its value may be from; there is one for what it held at first."""

_WARP_GROUPS = "tl.warp_group"


def split_live_ranges(body: Any) -> Any:
    """A program in which values of variables that never meet have variables of their own."""
    stores = Counter(stmt.buffer for stmt in walk(body) if isinstance(stmt, ir.BufferStore) and is_local(stmt.buffer))
    several = {buffer for buffer, count in stores.items() if count > 1 and all(as_int(size) == 1 for size in buffer.shape)}
    if not several:
        return body
    webs = _Webs(*_plain_uses(body, several))
    webs.statement(body, webs.at_first())
    names = webs.names()
    if not names:
        return body
    allocated: dict[Any, list[Any]] = {}
    for web, buffer in names.items():
        allocated.setdefault(webs.variable_of[web], []).append(buffer)
    renamed = _renamed(body, webs, names)
    return tvm_ffi.structural_map(
        renamed, [(ir.AllocBuffer, lambda stmt: _with_allocations(stmt, allocated.get(stmt.buffer, ())))]
    )


def _with_allocations(stmt: Any, buffers: Iterable[Any]) -> Any:
    """An allocation with those of other variables behind it."""
    others = [ir.AllocBuffer(buffer, stmt.annotations, stmt.span) for buffer in buffers]
    return ir.SeqStmt([stmt, *others]) if others else stmt


# Which stores belong together ------------------------------------------------------------------------------------------


class _Webs:
    """A walk in program order with the stores that reach each place; those that reach one read are joined.

    Args:
        variables: that may be split.
        reads: which of them a statement itself reads.

    Attributes:
        variable_of: the variable of each store, by its number.
    """

    def __init__(self, variables: set[Any], reads: Mapping[Any, set[Any]]):
        self.variables, self._reads = variables, reads
        self.variable_of: list[Any] = []
        self._numbers: dict[Any, int] = {}
        self._parents: list[int] = []
        self._read: dict[tuple[Any, Any], int] = {}
        self._loops: list[dict[type, list[Reaching]]] = []

    def at_first(self) -> Reaching:
        """What reaches the start of the program."""
        return {variable: self._from(variable, variable) for variable in self.variables}

    def _from(self, store: Any, variable: Any) -> frozenset[int]:
        """A store alone, which gets a number where it has none."""
        if store not in self._numbers:
            self._numbers[store] = len(self._parents)
            self._parents.append(len(self._parents))
            self.variable_of.append(variable)
        return frozenset([self._numbers[store]])

    def statement(self, stmt: Any, before: Reaching | None) -> Reaching | None:
        """What reaches the end of a statement; None where control does not come there."""
        if before is None:
            return None
        self._join(stmt, before)
        step = _STEPS.get(type(stmt))
        return before if step is None else step(self, stmt, before)

    def _sequence(self, stmt: Any, before: Reaching) -> Reaching | None:
        end: Reaching | None = before
        for part in flattened(stmt):
            end = self.statement(part, end)
        return end

    def _store(self, stmt: Any, before: Reaching) -> Reaching:
        if stmt.buffer not in self.variables:
            return before
        return {**before, stmt.buffer: self._from(stmt, stmt.buffer)}

    def _branch(self, stmt: Any, before: Reaching) -> Reaching | None:
        ends = [self.statement(side, before) for side in children(stmt)]
        return _meet(*ends, *([before] if stmt.else_case is None else []))

    def _attribute(self, stmt: Any, before: Reaching) -> Reaching | None:
        end = self.statement(stmt.body, before)
        return _meet(end, before) if stmt.attr_key == _WARP_GROUPS else end

    def _loop(self, stmt: Any, before: Reaching) -> Reaching | None:
        start: Reaching = before
        while True:
            self._loops.append({ir.Break: [], ir.Continue: []})
            end = self.statement(stmt.body, start)
            jumps = self._loops.pop()
            again = _meet(start, end, *jumps[ir.Continue])
            assert again is not None
            if again == start:
                # The condition of a `while` is evaluated at the start of each iteration.
                self._join(stmt, start)
                return _meet(start, *jumps[ir.Break])
            start = again

    def _jump(self, stmt: Any, before: Reaching) -> None:
        if self._loops:
            self._loops[-1][type(stmt)].append(before)

    def _evaluate(self, stmt: Any, before: Reaching) -> Reaching | None:
        return None if intrinsic_name(stmt.value) == "thread_return" else before

    # Joined stores -----------------------------------------------------------------------------------------------------

    def _join(self, stmt: Any, reaching: Reaching) -> None:
        """Joins the stores that reach what a statement itself reads."""
        for variable in self._reads.get(stmt, ()):
            first = self._read.setdefault((stmt, variable), min(reaching[variable]))
            for store in reaching[variable]:
                self._parents[self._web(store)] = self._web(first)

    def _web(self, store: int) -> int:
        while self._parents[store] != store:
            store = self._parents[store]
        return store

    def names(self) -> dict[int, Any]:
        """The new variables of webs; one web of each variable keeps it, as do stores that nothing reads."""
        webs: dict[Any, list[int]] = {}
        for web in dict.fromkeys(map(self._web, self._read.values())):
            webs.setdefault(self.variable_of[web], []).append(web)
        return {web: _like(variable) for variable, several in webs.items() for web in several[1:]}

    def stored(self, stmt: Any, names: Mapping[int, Any]) -> Any:
        """The variable that a store is to."""
        number = self._numbers.get(stmt)
        return stmt.buffer if number is None else names.get(self._web(number), stmt.buffer)

    def read(self, stmt: Any, names: Mapping[int, Any]) -> dict[Any, Any]:
        """The variables that a statement itself reads in place of others."""
        # What control does not come to reads nothing.
        read = (variable for variable in self._reads.get(stmt, ()) if (stmt, variable) in self._read)
        webs = {variable: self._web(self._read[stmt, variable]) for variable in read}
        return {variable: names[web] for variable, web in webs.items() if web in names}


_STEPS: Mapping[type, Callable[[_Webs, Any, Reaching], Reaching | None]] = {
    ir.SeqStmt: _Webs._sequence,
    ir.BufferStore: _Webs._store,
    ir.IfThenElse: _Webs._branch,
    ir.AttrStmt: _Webs._attribute,
    ir.For: _Webs._loop,
    ir.While: _Webs._loop,
    ir.Break: _Webs._jump,
    ir.Continue: _Webs._jump,
    ir.Evaluate: _Webs._evaluate,
}


def _meet(*ends: Reaching | None) -> Reaching | None:
    """What reaches a place that control comes to from several others."""
    found = [end for end in ends if end is not None]
    return {buffer: frozenset().union(*(end[buffer] for end in found)) for buffer in found[0]} if found else None


# Which variables may be split -------------------------------------------------------------------------------------------


def _plain_uses(body: Any, variables: set[Any]) -> tuple[set[Any], dict[Any, set[Any]]]:
    """Those of the variables that are used by loads and stores alone, and which of them each statement itself reads.

    Views, tile operators, and calls that may store to what they are given use a variable by its address.
    """
    reads: dict[Any, set[Any]] = {}
    given: set[Any] = set()
    for stmt in walk(body):
        exprs = [stmt.data] if isinstance(stmt, ir.DeclBuffer) else statement_exprs(stmt)
        for expr in exprs[1:] if isinstance(stmt, ir.BufferStore) else exprs:
            for variable, is_loaded in _named(expr):
                if variable in variables:
                    (reads.setdefault(stmt, set()) if is_loaded else given).add(variable)
    return variables - given, {stmt: read - given for stmt, read in reads.items()}


def _named(expr: Any) -> Iterator[tuple[Any, bool]]:
    """The variables in an expression, and whether their value is loaded there."""
    stack, seen = [(expr, False)], set()
    while stack:
        part, is_given = stack.pop()
        if (part, is_given) in seen:
            continue
        seen.add((part, is_given))
        if isinstance(part, ir.TensorLoad):
            yield part.source, not is_given
            stack += [(index, False) for index in part.indices]
            continue
        if isinstance(part, ir.Var):
            yield part, False
        gives = isinstance(part, ir.Call) and may_write(part)
        stack += [(each, gives) for each in operands(part)]


# The program with other names -------------------------------------------------------------------------------------------


def _renamed(stmt: Any, webs: _Webs, names: Mapping[Any, Any]) -> Any:
    inner = with_children(stmt, lambda child: _renamed(child, webs, names))
    values = webs.read(stmt, names)
    if isinstance(stmt, ir.BufferStore):
        buffer = webs.stored(stmt, names)
        if not values and buffer is stmt.buffer:
            return stmt
        return ir.BufferStore(
            buffer, substitute(stmt.value, values), [substitute(i, values) for i in stmt.indices], span=stmt.span
        )
    if not values:
        return inner
    rebuild = _WITH_VALUES.get(type(stmt))
    return substitute(stmt, values) if rebuild is None else rebuild(inner, lambda expr: substitute(expr, values))


_WITH_VALUES: Mapping[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    ir.IfThenElse: lambda stmt, new: ir.IfThenElse(new(stmt.condition), stmt.then_case, stmt.else_case, stmt.span),
    ir.While: lambda stmt, new: ir.While(new(stmt.condition), stmt.body, stmt.span),
    ir.For: lambda stmt, new: ir.For(
        stmt.loop_var, new(stmt.min), new(stmt.extent), stmt.kind, stmt.body, annotations=stmt.annotations, step=stmt.step,
        span=stmt.span,
    ),
    ir.AttrStmt: lambda stmt, new: ir.AttrStmt(stmt.node, stmt.attr_key, new(stmt.value), stmt.body, stmt.span),
}  # fmt: skip


def _like(buffer: Any) -> Any:
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), buffer.name, scope=buffer.scope(), layout=None)
