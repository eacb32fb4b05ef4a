"""Conditions on the thread's number around tile operators: ``if tx < 128: T.gemm(...)`` is work of those 128 threads.

A tile operator is shared out among the threads that run it. Below a condition that only some threads of the block meet these are
not all, so that such a branch becomes a :class:`~tilelang.target.cuda.reading.tree.Scope` of its threads. The condition is simply
evaluated for every thread.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.errors import CompileError, LayoutConflictError
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of
from tilelang.ir.visit import walk_expr
from tilelang.layout.fragment import REGISTER
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.reading.program import Kernel
from tilelang.target.cuda.reading.tree import (
    FRAGMENT,
    Branch,
    Loop,
    Operator,
    Parallel,
    Repeat,
    Scalar,
    Scope,
    Sequence,
    span_of,
    walk,
)
from tilelang.tileop.thread import intrinsic_name

WARP = 32

_BINARY: Mapping[Any, Callable[[Any, Any], Any]] = {
    ir.Add: operator.add,
    ir.Sub: operator.sub,
    ir.Mul: operator.mul,
    ir.FloorDiv: operator.floordiv,
    ir.FloorMod: operator.mod,
    ir.LShift: operator.lshift,
    ir.RShift: operator.rshift,
    ir.BitwiseAnd: operator.and_,
    ir.Min: min,
    ir.Max: max,
    ir.LT: operator.lt,
    ir.LE: operator.le,
    ir.GT: operator.gt,
    ir.GE: operator.ge,
    ir.EQ: operator.eq,
    ir.NE: operator.ne,
    ir.And: lambda a, b: a and b,
    ir.Or: lambda a, b: a or b,
}
_INTRINSICS: Mapping[str, Callable[[int], int]] = {
    "lane_idx": lambda thread: thread % WARP,
    "warp_idx": lambda thread: thread // WARP,
    "warp_idx_sync": lambda thread: thread // WARP,
    "warp_group_idx": lambda thread: thread // 128,
}


class _Unknown(Exception):
    """The condition depends on more than the thread's number."""


def split_threads(root: Sequence, kernel: Kernel) -> None:
    """Makes the branches of threads in a tree scopes, in place.

    Raises:
        CompileError: the threads of a tile operator are no neighbours, or no whole warps where it needs them.
    """
    _Splitter(kernel).sequence(root, (0, kernel.thread_count))


class ThreadConditions:
    """Conditions on the thread's number, evaluated for each thread.

    Args:
        threads: the variables of the thread's index with their extents.
        definitions: what the program binds names to.
    """

    def __init__(self, threads: Any, definitions: Mapping[Any, Any]):
        self.places: dict[Any, tuple[int, int]] = {}
        step = 1
        for var, extent in threads:
            self.places[var] = (step, extent)
            step *= extent
        self.values = definitions

    def members(self, condition: Any, threads: tuple[int, int]) -> tuple[list[bool] | None, Any]:
        """Which threads meet the part of a condition that is about threads (None if none is), and the rest of it."""
        mine, rest = [], None
        for part in _conjuncts(condition):
            if self.names_thread(part):
                mine.append(part)
            else:
                rest = part if rest is None else ir.And(rest, part)
        if not mine:
            return None, None
        try:
            return [all(self.value(part, thread) for part in mine) for thread in range(threads[0], sum(threads))], rest
        except _Unknown:
            return None, None

    def names_thread(self, expr: Any) -> bool:
        return any(
            (isinstance(part, ir.Var) and (part in self.places or (part in self.values and self.names_thread(self.values[part]))))
            or intrinsic_name(part) in _INTRINSICS
            for part in walk_expr(expr)
        )

    def value(self, expr: Any, thread: int) -> Any:
        """The value of an expression in one thread."""
        if isinstance(expr, ir.IntImm):
            return int(expr.value)
        if isinstance(expr, ir.Var) and expr in self.places:
            step, extent = self.places[expr]
            return thread // step % extent
        if isinstance(expr, ir.Var) and expr in self.values:
            return self.value(self.values[expr], thread)
        if type(expr) in _BINARY:
            return _BINARY[type(expr)](self.value(expr.a, thread), self.value(expr.b, thread))
        if isinstance(expr, ir.Not):
            return not self.value(expr.a, thread)
        if isinstance(expr, ir.Cast) and str(expr.ty) in ("int32", "int64", "uint32", "uint64", "bool"):
            return self.value(expr.value, thread)
        number = _INTRINSICS.get(intrinsic_name(expr) or "")
        if number is None:
            raise _Unknown
        return number(thread)


class _Splitter:
    """Walks a tree with the threads, as (first, count), that run each part of it."""

    def __init__(self, kernel: Kernel):
        self.values: dict[Any, Any] = {}
        self.conditions = ThreadConditions(kernel.threads, self.values)

    # The tree ----------------------------------------------------------------------------------------------------------

    def sequence(self, sequence: Sequence, threads: tuple[int, int]) -> None:
        sequence.items = [new for node in sequence.items for new in self.node(node, threads)]

    def node(self, node: Any, threads: tuple[int, int]) -> list[Any]:
        """What a node becomes."""
        if isinstance(node, Branch):
            return self.branch(node, threads)
        if isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind):
            self.values[node.stmt.var] = node.stmt.value
        elif isinstance(node, Loop) and node.parts is not None:
            node.parts = [(stmt, [new for each in nodes for new in self.node(each, threads)]) for stmt, nodes in node.parts]
            node.body = Sequence([each for _, nodes in node.parts for each in nodes])
        elif isinstance(node, (Loop, Repeat)):
            self.sequence(node.body, threads)
        elif isinstance(node, Scope):
            self.sequence(node.body, node.threads or threads)
        return [node]

    def branch(self, node: Branch, threads: tuple[int, int]) -> list[Any]:
        """The scopes that a branch becomes; the branch itself where its condition or its contents do not ask for any."""
        members = rest = None
        if any(_is_shared_out(inner) for inner in walk(node)):
            members, rest = self.conditions.members(node.stmt.condition, threads)
        if members is None or (rest is not None and node.otherwise is not None):
            self.sequence(node.then, threads)
            if node.otherwise is not None:
                self.sequence(node.otherwise, threads)
            return [node]
        then = node.then
        if rest is not None:
            then = Sequence([Branch(ir.IfThenElse(rest, node.stmt.then_case, None, node.stmt.span), then, None)])
        made = self.scope(node, then, members, threads)
        if node.otherwise is not None:
            made += self.scope(node, node.otherwise, [not each for each in members], threads)
        return made

    def scope(self, node: Branch, body: Sequence, members: list[bool], threads: tuple[int, int]) -> list[Any]:
        """The statements of one side of a branch as work of the threads that take it."""
        chosen = [threads[0] + place for place, each in enumerate(members) if each]
        if not chosen or not body.items:
            return []
        first, count = chosen[0], len(chosen)
        _check(node, body, first, count, chosen[-1])
        self.sequence(body, (first, count))
        if all(isinstance(each, Scope) and each.threads for each in body.items):
            return body.items
        if count < threads[1]:
            return [Scope(node.stmt, body, (first, count), by_thread=True)]
        own = any(isinstance(inner, Scalar) for inner in walk(body))
        return [Scope(node.stmt, body, by_thread=True)] if own else body.items


def _conjuncts(condition: Any) -> list[Any]:
    if isinstance(condition, ir.And):
        return [*_conjuncts(condition.a), *_conjuncts(condition.b)]
    return [condition]


def _is_shared_out(node: Any) -> bool:
    """Whether the threads that run a node share its work."""
    return isinstance(node, Parallel) or (isinstance(node, Operator) and rule_of(node.op).scoped)


def _check(node: Branch, body: Sequence, first: int, count: int, last: int) -> None:
    shared = [inner for inner in walk(body) if _is_shared_out(inner)]
    if not shared:
        return
    if last - first + 1 != count:
        raise CompileError("a tile operator below a condition that only some threads between others meet").at(
            location_of(node.stmt.span)
        )
    whole = first % WARP == 0 and count % WARP == 0
    if not whole and (first // WARP != last // WARP or any(isinstance(n, Operator) and rule_of(n.op).in_warps for n in shared)):
        raise CompileError(
            f"a tile operator below a condition that threads {first} to {last} meet", hint="give it whole warps of 32 threads"
        ).at(location_of(node.stmt.span))


# Fragments -----------------------------------------------------------------------------------------------------------


def check_fragments(root: Sequence, layouts: Any) -> None:
    """Checks that the threads of every statement are those that hold the elements of its fragments.

    Threads with numbers of their own, as two warp groups that run the same code, have a copy each.

    Raises:
        LayoutConflictError: some elements are in threads that do not run the statement.
    """
    homes: dict[Any, tuple[Any, Any]] = {}
    for node in sorted(walk(root), key=lambda node: layouts.scopes[node].count if node in layouts.scopes else 0):
        for buffer in _fragments(node):
            layout, scope = layouts.fragments.get(buffer), layouts.scopes[node]
            if layout is None or all(mode.unit == REGISTER for axis in layout.modes for mode in axis):
                continue
            home, origin = homes.setdefault(buffer, (scope, node))
            if layout.threads > scope.count or (scope.count != home.count and scope.first != home.first):
                reason = f"{_spoken(scope)} run this, and its elements are in {_spoken(home)}"
                error = LayoutConflictError(buffer.name, location_of(span_of(origin)), reason)
                raise error.at(location_of(span_of(node)))


def _fragments(node: Any) -> set[Any]:
    buffers = {access.buffer for access in node.nest.accesses} if isinstance(node, Parallel) else set()
    if isinstance(node, Operator) and hasattr(node.op, "regions"):
        buffers = {region.buffer for region, _ in node.op.regions()}
    return {buffer for buffer in buffers if buffer.scope() == FRAGMENT}


def _spoken(scope: Any) -> str:
    return f"threads {scope.first} to {scope.first + scope.count - 1}"
