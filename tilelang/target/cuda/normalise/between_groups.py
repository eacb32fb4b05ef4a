"""Branches for different threads stand together: what each thread computes for itself between them comes before them.

    if tx < 32: load()                   phase = 0
    phase = 0                      ->    if tx < 32: load()
    if tx >= 32: use(phase)              if tx >= 32: use(phase)

Branches that follow each other run side by side (codegen/roles.py), and the first one may wait for what the second one does. The
statement between them is no barrier in the program, so that none may be there in the code.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, groupby
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_fragment, lies_in_registers
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.target.cuda.intrinsics.table import digit_of
from tilelang.target.cuda.tile.tree import Branch, Scalar, ThreadGroup, walk
from tilelang.tileop.thread import is_jump


def with_groups_together(nodes: Iterable[Any]) -> list[Any]:
    """Statements in which those between branches that need not be there come before these."""
    runs = groupby(nodes, key=lambda node: _is_passed(node) or _is_own(node))
    return [*chain.from_iterable(_reordered([*run]) if movable else run for movable, run in runs)]


def _reordered(run: list[Any]) -> list[Any]:
    """Branches, and statements of each thread's own between them."""
    places = [place for place, node in enumerate(run) if _is_branch(node)]
    if len(places) < 2:
        return run
    first, last = places[0], places[-1]
    moved: list[Any] = []
    kept: list[Any] = []
    for node in run[first:last]:
        independent = not _is_branch(node) and all(_are_independent(node, other) for other in kept)
        (moved if independent else kept).append(node)
    return [*run[:first], *moved, *kept, *run[last:]]


def _is_branch(node: Any) -> bool:
    return isinstance(node, (Branch, ThreadGroup))


def _is_passed(node: Any) -> bool:
    """Whether a statement is a branch behind which its threads go on in any case."""
    return _is_branch(node) and not any(isinstance(each, Scalar) and is_jump(each.stmt) for each in walk(node))


def _is_own(node: Any) -> bool:
    """Whether a statement computes a value for a variable of each thread, and nothing else."""
    if not isinstance(node, Scalar) or not isinstance(node.stmt, (ir.Bind, ir.BufferStore)):
        return False
    calls = (part for expr in statement_exprs(node.stmt) for part in walk_expr(expr) if isinstance(part, ir.Call))
    in_registers = all(lies_in_registers(a.buffer) and not is_fragment(a.buffer) for a in node.touched)
    return in_registers and all(digit_of(call) is not None for call in calls)


def _are_independent(node: Scalar, other: Any) -> bool:
    """Whether a statement and another one, with what is inside of it, may change places."""
    inner = [*walk(other)]
    mine, theirs = {a.buffer for a in node.touched}, {a.buffer for each in inner for a in each.touched}
    bound = {each.stmt.var for each in inner if isinstance(each, Scalar) and isinstance(each.stmt, ir.Bind)}
    used = {part for expr in statement_exprs(node.stmt) for part in walk_expr(expr) if isinstance(part, ir.Var)}
    return mine.isdisjoint(theirs) and used.isdisjoint(bound)
