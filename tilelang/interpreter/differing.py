"""Static analysis before a run: the values that differ between the threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

import numpy as np

from tilelang.interpreter.choices import ActiveThreads, ThreadNumbers
from tilelang.interpreter.state import WARP_GROUP as WARP_GROUP_THREADS
from tilelang.interpreter.survey import WARP_GROUP, element_stores, evaluated, is_private, loaded
from tilelang.ir import nodes as ir
from tilelang.ir.visit import children, conjuncts, flattened, is_parallel, operands, statement_exprs, walk, walk_expr
from tilelang.tileop.base import decode, is_tile_op
from tilelang.tileop.carried import carried_by, carried_partially
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_DRAWING = ("rng_rand", "rng_rand_float")
"""Draws of random numbers: each thread has a generator, and the iterations of a ``T.Parallel`` draw one after the other."""
_JUMPS = (ir.Break, ir.Continue)
_OF_THE_BLOCK = frozenset(
    "block_rank_in_cluster syncthreads_count syncthreads_and syncthreads_or create_tma_descriptor store_cluster".split()
)
"""Intrinsics that are the same for all threads of a block."""


def thread_names(body: Any) -> set[Any]:
    """The variables that are computed from a thread's number, and not from what threads have stored."""
    found: set[Any] = set()
    for stmt in walk(body):
        if isinstance(stmt, ir.AttrStmt) and _is_thread_index(stmt.node):
            found.add(stmt.node.var)
        elif isinstance(stmt, (ir.Bind, ir.For)) and any(may_differ(expr, found, _itself, ()) for expr in statement_exprs(stmt)):
            found.add(stmt.var if isinstance(stmt, ir.Bind) else stmt.loop_var)
    return found


def _itself(var: Any) -> Any:
    return var


def _is_thread_index(node: Any) -> bool:
    return isinstance(node, ir.IterVar) and str(node.thread_tag).startswith("threadIdx")


def may_differ(expr: Any, differing: set[Any], root: Callable[[Any], Any], drawing: tuple[str, ...] = _DRAWING) -> bool:
    """Whether an expression may differ between threads.

    Args:
        expr: the expression.
        differing: variables and memory of threads that may differ.
        root: the buffer whose memory a buffer is a view of.
        drawing: the intrinsics that give each thread another value without naming it.
    """
    for node in _outside_of_votes(expr):
        if isinstance(node, ir.Var) and root(node) in differing:
            return True
        name = intrinsic_name(node)
        if name is not None and (name in drawing or INTRINSICS[name].threads and name not in _OF_THE_BLOCK):
            return True
    return False


def _outside_of_votes(expr: Any) -> Iterator[Any]:
    """The expressions inside of one, itself included, without the operands of votes of the block: their result is the same in all
    threads, whatever they count."""
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        # As in `walk_expr`, shared parts come once.
        if node in seen:
            continue
        seen.add(node)
        yield node
        if not (intrinsic_name(node) or "").startswith("syncthreads_"):
            stack.extend(operands(node))


def may_leave(stmt: Any, differs: Callable[[Any], bool], jumps: tuple[type, ...] = _JUMPS, below: bool = False) -> bool:
    """Whether some threads may leave a statement before its end, and others not: it has an exit below a condition that differs.

    Args:
        stmt: the statement.
        differs: whether an expression may differ between threads.
        jumps: the jumps out of the loop around that count; ``return`` always does.
        below: whether the statement stands below such a condition.
    """
    if isinstance(stmt, jumps) or (isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return"):
        return below
    if isinstance(stmt, ir.AttrStmt):
        # A kernel is left by all: the next one begins with fresh threads.
        if stmt.attr_key == "thread_extent":
            return False
        below = below or stmt.attr_key == WARP_GROUP
    elif isinstance(stmt, (ir.For, ir.While)):
        # A jump inside means this loop; only a return leaves it.
        jumps = ()
        below = below or any(map(differs, statement_exprs(stmt)))
    elif isinstance(stmt, ir.IfThenElse):
        below = below or differs(stmt.condition)
    return any(may_leave(child, differs, jumps, below) for child in children(stmt))


def differing(body: Any, root: Callable[[Any], Any], views: Container[Any] = ()) -> set[Any]:
    """The variables, and the memory of threads, that may differ between the threads of a block.

    These are the threads' numbers, what is computed from them, what is stored, or returned by an atomic update, under
    divergent control flow (below a condition on them, or after an exit below one), and partial results of a ``T.Parallel``.
    What is stored below a condition that neighbouring threads meet by their numbers does not differ, if no others use it.

    Args:
        body: the program's.
        root: the buffer whose memory a buffer is a view of.
        views: buffers that share their memory with other buffers.
    """
    differences = _Differences(body, root, views)
    before = -1
    # A fixed point: a store at the end of a loop may make a condition at its start differ.
    while before != len(differences.found):
        before = len(differences.found)
        differences.statement(body, ActiveThreads())
        differences.compare()
    return differences.found


class _Differences:
    """Adds to what differs; the rule of a statement gives the threads that come to each statement directly inside it."""

    def __init__(self, body: Any, root: Callable[[Any], Any], views: Container[Any]):
        self.root, self.views, self.found = root, views, set[Any]()
        self.names, self.numbers = thread_names(body), ThreadNumbers()
        self._stored: dict[Any, set[ActiveThreads]] = {}
        self._read: dict[Any, set[ActiveThreads]] = {}

    def statement(self, stmt: Any, active: ActiveThreads) -> None:
        if isinstance(stmt, ir.SeqStmt):
            return self.sequence(stmt, active)
        exprs = evaluated(stmt) if is_parallel(stmt) or isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)
        for buffer in filter(is_private, loaded(exprs)):
            self._read.setdefault(self.root(buffer), set()).add(active)
        if is_parallel(stmt):
            return self.parallel(stmt, active)
        rule = _RULES.get(type(stmt))
        inside = [active] * len(children(stmt)) if rule is None else rule(self, stmt, active)
        for child, those in zip(children(stmt), inside):
            self.statement(child, those)

    def compare(self) -> None:
        """Adds what some threads store and others use, who have an older value."""
        for buffer, stores in self._stored.items():
            if any(read.use_beyond(store) for store in stores for read in self._read.get(buffer, ())):
                self.found.add(buffer)

    def sequence(self, stmt: Any, active: ActiveThreads) -> None:
        for part in flattened(stmt):
            self.statement(part, active)
            if may_leave(part, self.differ):
                active = self._sides(part, active)[1] if _ends_with_exit(part) else active.diverging()

    def parallel(self, stmt: Any, active: ActiveThreads) -> None:
        carried = carried_by(stmt, self.views)
        differs = any(may_differ(expr, self.found - carried, self.root) for expr in evaluated(stmt))
        self._store(element_stores(stmt), active, differs)
        self.found.update(carried_partially(stmt, self.views))

    def attribute(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        if _is_thread_index(stmt.node):
            self.found.add(stmt.node.var)
            count = self.numbers.enter(stmt.node, stmt.value)
            return [ActiveThreads(range(count))]
        if stmt.attr_key != WARP_GROUP:
            return [active]
        groups = np.arange(self.numbers.count) // WARP_GROUP_THREADS
        return [active.of(int(stmt.value.value) >> groups & 1 == 1)]

    def bind(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        self.numbers.bound[stmt.var] = stmt.value
        if self.differ(stmt.value) or (active.are_some and _has_effect(stmt.value)):
            self.found.add(stmt.var)
        return []

    def store(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        self._store([stmt.buffer], active, self.differ(*stmt.indices, stmt.value))
        return []

    def evaluate(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        call = stmt.value
        written = (region.buffer for region, access in decode(call).regions() if "w" in access) if is_tile_op(call) else ()
        self._store(written if is_tile_op(call) else element_stores(stmt), active, self.differ(call))
        return []

    def loop(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        if self.differ(stmt.min, stmt.extent):
            self.found.add(stmt.loop_var)
            return [active.diverging()]
        return [active.diverging(self._may_break(stmt))]

    def repeat(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        return [active.diverging(self.differ(stmt.condition) or self._may_break(stmt))]

    def branch(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        return self._sides(stmt, active)

    def _sides(self, stmt: Any, active: ActiveThreads) -> list[ActiveThreads]:
        """Who comes to the sides of a branch."""
        if not self.differ(stmt.condition):
            return [active, active]
        parts = conjuncts(stmt.condition)
        named = [part for part in parts if may_differ(part, self.names, _itself, ())]
        chosen = self.numbers.chosen(named) if named else None
        rest = [part for part in parts if part not in named]
        if chosen is None or self.differ(*rest):
            return [active.diverging(), active.diverging()]
        # Where another condition is in it, too, all may come to the other side.
        return [active.of(chosen), active.diverging() if rest else active.of(~chosen)]

    def differ(self, *exprs: Any) -> bool:
        """Whether one of these expressions may differ between threads."""
        return any(may_differ(expr, self.found, self.root) for expr in exprs)

    def _may_break(self, loop: Any) -> bool:
        """Whether threads may leave a loop early: then some threads only run its body, what stands before the break included."""
        return may_leave(loop.body, self.differ, (ir.Break,))

    def _store(self, buffers: Iterable[Any], active: ActiveThreads, differs: bool) -> None:
        private = [self.root(buffer) for buffer in buffers if is_private(buffer)]
        if differs or active.diverged:
            self.found.update(private)
        for buffer in private:
            self._stored.setdefault(buffer, set()).add(active)


_RULES: dict[type, Callable[[_Differences, Any, ActiveThreads], list[ActiveThreads]]] = {
    ir.AttrStmt: _Differences.attribute,
    ir.Bind: _Differences.bind,
    ir.BufferStore: _Differences.store,
    ir.Evaluate: _Differences.evaluate,
    ir.For: _Differences.loop,
    ir.While: _Differences.repeat,
    ir.IfThenElse: _Differences.branch,
}


def _ends_with_exit(stmt: Any) -> bool:
    """Whether a branch without other side is left at its end, and before it by no thread."""
    if not isinstance(stmt, ir.IfThenElse) or stmt.else_case is not None:
        return False
    *before, last = flattened(stmt.then_case)
    ends = isinstance(last, ir.Continue) or (isinstance(last, ir.Evaluate) and intrinsic_name(last.value) == "thread_return")
    return ends and not any(may_leave(part, lambda expr: True, below=True) for part in before)


def _has_effect(value: Any) -> bool:
    """Whether each evaluation of an expression gives another value, as an atomic update does."""
    names = (intrinsic_name(node) for node in walk_expr(value))
    return any(name is not None and not INTRINSICS[name].pure for name in names)
