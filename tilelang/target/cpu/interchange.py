"""Step ``interchange``: the loops of a ``T.Parallel``, and the blocks of a kernel, in the order of memory (loop interchange).

Before: tile IR. After: the same, in which the innermost loop of each ``T.Parallel`` is the one along which most of the elements
that an iteration loads and stores are neighbours, and the first axis of each grid, along which blocks follow each other, the one
along which most tiles are. Iterations and blocks are unordered, so that every order is right. The threads of a GPU share them out
as suits memory; a CPU runs the loops as they are nested, and ``for j, i in T.Parallel(64, 64)`` over ``A[i, j]`` loads one
element of each cache line at a time. Blocks that follow each other down the rows read a few lines of each.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant
from tilelang.ir.memory import is_global
from tilelang.ir.visit import is_parallel, parallel_loops, statement_exprs, variables, walk, walk_expr
from tilelang.target.cpu.elementwise import runs_along
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.random import draws
from tilelang.target.cpu.rewriter import StmtRewriter
from tilelang.tileop import record_of


def interchange(func: Any, context: Any) -> Any:
    """The program with the loops of its ``T.Parallel`` in the order of memory."""
    return func.with_body(_Interchange(Scope(context)).stmt(func.body))


class _Interchange(StmtRewriter):
    """Rewrites nests of parallel loops."""

    def __init__(self, scope: Scope):
        self.scope = scope

    def visit_AttrStmt(self, node: Any) -> Any:
        axes, body = [], node
        while isinstance(body, ir.AttrStmt) and body.attr_key == "thread_extent" and body.node.thread_tag.startswith("blockIdx"):
            axes.append(body)
            body = body.body
        if not axes:
            return super().visit_AttrStmt(node)
        # Random numbers depend on how the blocks are numbered.
        best = axes[0] if draws(body) else max(axes, key=lambda axis: _tiles(axis.node.var, body))
        body = self.stmt(body)
        for axis in reversed([best, *(axis for axis in axes if axis is not best)]):
            body = ir.AttrStmt(axis.node, axis.attr_key, axis.value, body, axis.span)
        return body

    def visit_For(self, node: Any) -> Any:
        if not is_parallel(node):
            return super().visit_For(node)
        loops = parallel_loops(node)
        # A loop inside of an iteration is the innermost one, whatever the order around it.
        if len(loops) == 1 or any(isinstance(stmt, ir.For) for stmt in walk(loops[-1].body)):
            return node
        best = max(reversed(loops), key=lambda loop: _neighbours(loop.loop_var, loops[-1].body, self.scope))
        if best is loops[-1]:
            return node
        return _nested(loops, [*(loop for loop in loops if loop is not best), best])


def _nested(loops: list[Any], order: list[Any]) -> Any:
    """The loops of a nest in another order; annotations stay with the place in the nest."""
    body = loops[-1].body
    for place, each in reversed(list(zip(loops, order))):
        notes = place.annotations
        body = ir.For(each.loop_var, each.min, each.extent, each.kind, body, annotations=notes, step=each.step, span=place.span)
    return body


def _tiles(variable: Any, body: Any) -> int:
    """The accesses of a block to tensors whose place along rows depends on a grid variable; stores count twice."""

    def along(index: Any) -> bool:
        return any(var.same_as(variable) for var in variables(constant(index)))

    return sum(weight for stmt in walk(body) for last, weight in _accesses(stmt) if along(last))


def _accesses(stmt: Any) -> Iterator[tuple[Any, int]]:
    """The last index of each access of a statement to a tensor, and its weight."""
    record = record_of(stmt)
    if record is not None:
        for region, access in record.regions():
            if is_global(region) and region.mins:
                yield region.mins[-1], 2 if "w" in access else 1
        return
    for load in (load for expr in statement_exprs(stmt) for load in _loads(expr) if is_global(load.source) and load.indices):
        yield load.indices[-1], 1
    if isinstance(stmt, ir.BufferStore) and is_global(stmt.buffer) and stmt.indices:
        yield stmt.indices[-1], 2


def _neighbours(variable: Any, body: Any, scope: Scope) -> int:
    """The accesses of an iteration that run along a row with a variable; stores count twice, as a line is read and written."""
    loads = (node.indices for stmt in walk(body) for expr in statement_exprs(stmt) for node in _loads(expr))
    stores = (stmt.indices for stmt in walk(body) if isinstance(stmt, ir.BufferStore))
    along = lambda accesses: sum(runs_along(indices, variable, scope) for indices in accesses)  # noqa: E731
    return along(loads) + 2 * along(stores)


def _loads(expr: Any) -> Iterator[Any]:
    return (node for node in walk_expr(expr) if isinstance(node, ir.TensorLoad))
