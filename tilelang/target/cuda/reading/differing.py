"""What may differ between the threads of a block: values that speak of a thread, and all that is computed from them.

Everything else is the block's. A scalar of ``T.alloc_var`` that counts, sums what a reduction gave, or reads a tensor is the same
in every thread, so a statement over it means the block and not each of its threads. What some threads of those that read a
scalar store to it (``if tx == 0: v = 1``) makes it differ; what is stored and read by the same threads does not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.reading.nest import READ, Nest, is_memory, mentions
from tilelang.target.cuda.reading.tree import (
    FRAGMENT,
    Branch,
    Loop,
    Operator,
    Parallel,
    Repeat,
    Scalar,
    Scope,
    TileTree,
    inside,
    walk,
)
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

ARRAY = "local"


class Differing:
    """What may differ between the threads of a kernel.

    Attributes:
        values: variables, local arrays and scalars; fragments that a nest fills with values of threads.
        apart: the nodes that only some threads of the block run.
        disputed: those of them below a condition that threads may disagree on, or in a loop that they leave at different times.
    """

    def __init__(self, tree: TileTree, thread_vars: Iterable[Any]):
        self.tree = tree
        self.values: set[Any] = set(thread_vars)
        self.apart: set[Any] = set()
        self.disputed: set[Any] = set()
        self._moving = {node: _moved(node.nest) for node in walk(tree.root) if isinstance(node, Parallel)}
        self._stored: dict[Any, set[range]] = {}
        self._read: dict[Any, set[range]] = {}
        self._users = Counter(local for node in walk(tree.root) for local in self._named(node))
        before = -1
        while before != len(self.values):
            before = len(self.values)
            self._visit(tree.root, _WHOLE, False)
            self.values.update(var for var, stores in self._stored.items() if self._is_partial(var, stores))

    def _is_partial(self, var: Any, stores: set[range]) -> bool:
        """Whether some threads, but not all, of those that read a local variable somewhere store to it somewhere."""
        return any(_meet(store, read) and not _covers(store, read) for store in stores for read in self._read.get(var, ()))

    def mentioned(self, exprs: Iterable[Any], arrays: bool = True) -> bool:
        """Whether a value may differ between threads; without ``arrays``, for another reason than that local memory does."""
        return any(
            self.tree.root_of(part) in self.values and (arrays or not _is_local(part))
            if isinstance(part, ir.Var)
            else intrinsic_name(part) is not None and INTRINSICS[intrinsic_name(part)].threads
            for expr in exprs
            for part in walk_expr(expr)
        )

    def concerns_memory_alone(self, nest: Nest) -> bool:
        """Whether threads that do not run a nest lack nothing afterwards: it stores to no local memory that other statements
        use, and no instruction in it needs all threads."""
        stored = {self.tree.root_of(access.buffer) for access in nest.accesses if access.kind != READ}
        if any(not is_memory(buffer) and not (_is_local(buffer) and self._users[buffer] == 1) for buffer in stored):
            return False
        names = (intrinsic_name(part) for expr in evaluated(nest.body) for part in walk_expr(expr))
        return not any(name is not None and INTRINSICS[name].threads for name in names)

    def moves(self, node: Parallel, access: Any) -> bool:
        """Whether the axes of a nest move an access of it."""
        return any(mentions(index, self._moving[node]) for index in access.indices)

    def _visit(self, node: Any, threads: range, disputed: bool) -> None:
        """Adds to the values what a node stores; ``threads`` run it, some of them perhaps where it is ``disputed``."""
        if threads != _WHOLE or disputed:
            self.apart.add(node)
        if isinstance(node, Parallel):
            self._visit_nest(node, threads, disputed)
        elif isinstance(node, Scalar):
            self._visit_scalar(node.stmt, threads, disputed)
        elif isinstance(node, Operator):
            self.values.update(buffer for buffer in operands(node) if _is_local(buffer))
        elif isinstance(node, Scope) and node.threads is not None:
            threads = range(node.threads[0], sum(node.threads))
        elif isinstance(node, (Branch, Loop, Repeat)):
            exprs = statement_exprs(node.stmt)
            self._note_reads(exprs, threads)
            disputed = disputed or self.mentioned(exprs)
            if disputed and isinstance(node, Loop):
                self.values.add(node.stmt.loop_var)
        if disputed:
            self.disputed.add(node)
        for child in inside(node):
            self._visit(child, threads, disputed)

    def _visit_nest(self, node: Parallel, threads: range, disputed: bool) -> None:
        named = self.mentioned(evaluated(node.nest.body))
        self._note_reads(evaluated(node.nest.body), threads)
        for access in node.nest.accesses:
            buffer = self.tree.root_of(access.buffer)
            if access.kind == READ:
                continue
            if _is_local(access.buffer):
                self._stored.setdefault(buffer, set()).add(threads)
                if disputed or named or not self.moves(node, access):
                    self.values.add(buffer)
            elif named and access.buffer.scope() == FRAGMENT:
                self.values.add(buffer)

    def _visit_scalar(self, stmt: Any, threads: range, disputed: bool) -> None:
        self._note_reads(evaluated(stmt), threads)
        differs = disputed or self.mentioned(evaluated(stmt))
        if isinstance(stmt, ir.Bind) and differs:
            self.values.add(stmt.var)
        elif isinstance(stmt, ir.BufferStore) and _is_local(stmt.buffer):
            buffer = self.tree.root_of(stmt.buffer)
            self._stored.setdefault(buffer, set()).add(threads)
            self.values.update([buffer] if differs else [])
        elif isinstance(stmt, ir.Evaluate):  # foreign code and instructions may store to what they are given
            self.values.update(self._locals(_place(stmt.value)))

    def _note_reads(self, exprs: Iterable[Any], threads: range) -> None:
        for expr in exprs:
            for var in self._locals(expr):
                self._read.setdefault(var, set()).add(threads)

    def _named(self, node: Any) -> set[Any]:
        """The local memory that a node itself names."""
        if isinstance(node, Operator):
            return {self.tree.root_of(buffer) for buffer in operands(node) if _is_local(buffer)}
        if isinstance(node, Parallel):
            return {self.tree.root_of(access.buffer) for access in node.nest.accesses if _is_local(access.buffer)}
        stmt = getattr(node, "stmt", None)
        stored = [stmt.buffer] if isinstance(stmt, ir.BufferStore) else []
        return {local for expr in (*stored, *statement_exprs(stmt)) for local in self._locals(expr)}

    def _locals(self, expr: Any) -> Iterator[Any]:
        return (self.tree.root_of(var) for var in walk_expr(expr) if isinstance(var, ir.Var) and _is_local(var))


_WHOLE = range(1 << 16)
"""The threads of a block, however many they are."""


def _meet(a: range, b: range) -> bool:
    return a.start < b.stop and b.start < a.stop


def _covers(a: range, b: range) -> bool:
    return a.start <= b.start and b.stop <= a.stop


def evaluated(stmt: Any) -> Iterator[Any]:
    """Every expression that a statement and those inside it evaluate, without the places that they store to."""
    for each in walk_statements(stmt):
        yield from (*each.indices, each.value) if isinstance(each, ir.BufferStore) else statement_exprs(each)


def operands(node: Operator) -> set[Any]:
    """The buffers that an operator works on."""
    return {region.buffer for region, _ in node.op.regions()} if hasattr(node.op, "regions") else set()


def is_atomic(value: Any) -> bool:
    """Whether an expression is an atomic access."""
    return (intrinsic_name(value) or "").startswith("atomic_")


def computes_once(stmt: Any) -> bool:
    """Whether a nest's body uses what a call with an effect gives (the value before an atomic update, a random number): threads
    that run an iteration alike would each get another."""
    calls = (intrinsic_name(each.value) for each in walk_statements(stmt) if isinstance(each, ir.Bind))
    return any(name is not None and not INTRINSICS[name].pure and not INTRINSICS[name].threads for name in calls)


def replaces_what_it_reads(nest: Nest, root: Callable[[Any], Any]) -> bool:
    """Whether a nest reads memory that it writes: one thread stores, while others that run the iteration may still read.

    Args:
        root: gives the buffer whose memory a buffer names.
    """
    memory = [access for access in nest.accesses if is_memory(access.buffer)]
    read = {root(access.buffer) for access in memory if access.kind == READ}
    return any(root(access.buffer) in read for access in memory if access.kind != READ)


def _place(call: Any) -> Any:
    """The part of a call that may be stored to; of an atomic access it is the first argument."""
    return call.args[0] if is_atomic(call) else call


def _is_local(var: Any) -> bool:
    return ir.is_buffer_var(var) and var.scope() in (ARRAY, "local.var")


def _moved(nest: Nest) -> set[Any]:
    """The variables of a nest's body, and the local scalars, that follow its axes."""
    found = {axis.var for axis in nest.axes if axis.extent != 1}
    for stmt in walk_statements(nest.body):
        target = None
        if isinstance(stmt, ir.Bind):
            target = stmt.var
        elif isinstance(stmt, ir.For):
            target = stmt.loop_var
        elif isinstance(stmt, ir.BufferStore) and stmt.buffer.scope() == "local.var":
            target = stmt.buffer
        if target is not None and any(mentions(expr, found) for expr in statement_exprs(stmt)):
            found.add(target)
    return found
