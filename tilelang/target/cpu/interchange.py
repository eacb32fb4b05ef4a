"""Step ``interchange``: the loops of a ``T.Parallel`` in the order of memory (loop interchange).

Before: tile IR. After: the same, in which the innermost loop of each ``T.Parallel`` is the one along which most of the elements
that an iteration loads and stores are neighbours. Iterations are unordered, so that every order of the loops is right. The
threads of a GPU share them out as suits memory; a CPU runs the loops as they are nested, and ``for j, i in T.Parallel(64, 64)``
over ``A[i, j]`` loads one element of each cache line at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import is_parallel, parallel_loops, statement_exprs, walk, walk_expr
from tilelang.target.cpu.elementwise import runs_along
from tilelang.target.cpu.lower import Scope
from tilelang.target.cpu.rewriter import StmtRewriter


def interchange(func: Any, context: Any) -> Any:
    """The program with the loops of its ``T.Parallel`` in the order of memory."""
    return func.with_body(_Interchange(Scope(context)).stmt(func.body))


class _Interchange(StmtRewriter):
    """Rewrites nests of parallel loops."""

    def __init__(self, scope: Scope):
        self.scope = scope

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


def _neighbours(variable: Any, body: Any, scope: Scope) -> int:
    """The accesses of an iteration that run along a row with a variable; stores count twice, as a line is read and written."""
    loads = (node.indices for stmt in walk(body) for expr in statement_exprs(stmt) for node in _loads(expr))
    stores = (stmt.indices for stmt in walk(body) if isinstance(stmt, ir.BufferStore))
    along = lambda accesses: sum(runs_along(indices, variable, scope) for indices in accesses)  # noqa: E731
    return along(loads) + 2 * along(stores)


def _loads(expr: Any) -> Iterator[Any]:
    return (node for node in walk_expr(expr) if isinstance(node, ir.TensorLoad))
