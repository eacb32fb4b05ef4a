"""Static analysis before a run: the values that differ between the threads of a block."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator
from typing import Any

from tilelang.interpreter.survey import WARP_GROUP, element_stores, evaluated, is_private
from tilelang.ir import nodes as ir
from tilelang.ir.visit import children, flattened, is_parallel, operands, statement_exprs, walk, walk_expr
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

    Args:
        body: the program's.
        root: the buffer whose memory a buffer is a view of.
        views: buffers that share their memory with other buffers.
    """
    differences = _Differences(root, views)
    before = -1
    # A fixed point: a store at the end of a loop may make a condition at its start differ.
    while before != len(differences.found):
        before = len(differences.found)
        differences.statement(body, below=False)
    return differences.found


class _Differences:
    """Adds to what differs; ``below`` says everywhere whether a statement is under a condition that differs.

    The rule of a statement says whether its parts are.
    """

    def __init__(self, root: Callable[[Any], Any], views: Container[Any]):
        self.root, self.views, self.found = root, views, set[Any]()

    def statement(self, stmt: Any, below: bool) -> None:
        if isinstance(stmt, ir.SeqStmt):
            self.sequence(stmt, below)
        elif is_parallel(stmt):
            self.parallel(stmt, below)
        else:
            rule = _RULES.get(type(stmt))
            below = below if rule is None else rule(self, stmt, below)
            for child in children(stmt):
                self.statement(child, below)

    def sequence(self, stmt: Any, below: bool) -> None:
        for part in flattened(stmt):
            self.statement(part, below)
            below = below or may_leave(part, self.differ)

    def parallel(self, stmt: Any, below: bool) -> None:
        carried = carried_by(stmt, self.views)
        if below or any(may_differ(expr, self.found - carried, self.root) for expr in evaluated(stmt)):
            self._add_private(element_stores(stmt))
        self.found.update(carried_partially(stmt, self.views))

    def attribute(self, stmt: Any, below: bool) -> bool:
        if _is_thread_index(stmt.node):
            self.found.add(stmt.node.var)
        return below or stmt.attr_key == WARP_GROUP

    def bind(self, stmt: Any, below: bool) -> bool:
        if self.differ(stmt.value) or (below and _has_effect(stmt.value)):
            self.found.add(stmt.var)
        return below

    def store(self, stmt: Any, below: bool) -> bool:
        if below or self.differ(*stmt.indices, stmt.value):
            self._add_private([stmt.buffer])
        return below

    def evaluate(self, stmt: Any, below: bool) -> bool:
        call = stmt.value
        if is_tile_op(call):
            if below or self.differ(call):
                self._add_private(region.buffer for region, access in decode(call).regions() if "w" in access)
        elif below or self.differ(call):
            self._add_private(element_stores(stmt))
        return below

    def loop(self, stmt: Any, below: bool) -> bool:
        if self.differ(stmt.min, stmt.extent):
            self.found.add(stmt.loop_var)
            return True
        return below or self._may_break(stmt)

    def repeat(self, stmt: Any, below: bool) -> bool:
        return below or self.differ(stmt.condition) or self._may_break(stmt)

    def branch(self, stmt: Any, below: bool) -> bool:
        return below or self.differ(stmt.condition)

    def differ(self, *exprs: Any) -> bool:
        """Whether one of these expressions may differ between threads."""
        return any(may_differ(expr, self.found, self.root) for expr in exprs)

    def _may_break(self, loop: Any) -> bool:
        """Whether threads may leave a loop early: then some threads only run its body, what stands before the break included."""
        return may_leave(loop.body, self.differ, (ir.Break,))

    def _add_private(self, buffers: Iterable[Any]) -> None:
        self.found.update(self.root(buffer) for buffer in buffers if is_private(buffer))


_RULES: dict[type, Callable[[_Differences, Any, bool], bool]] = {
    ir.AttrStmt: _Differences.attribute,
    ir.Bind: _Differences.bind,
    ir.BufferStore: _Differences.store,
    ir.Evaluate: _Differences.evaluate,
    ir.For: _Differences.loop,
    ir.While: _Differences.repeat,
    ir.IfThenElse: _Differences.branch,
}


def _has_effect(value: Any) -> bool:
    """Whether each evaluation of an expression gives another value, as an atomic update does."""
    names = (intrinsic_name(node) for node in walk_expr(value))
    return any(name is not None and not INTRINSICS[name].pure for name in names)
