"""Step ``decide_conditions``: a condition that has one value for all blocks and iterations is that value.

Before and after: the same tile IR. ``if bx * 256 + i < 1024`` of four blocks of 256 elements holds always, and so does a part of
``i < 256 and flag[i] != 0``. What is left needs no guard, may be moved as vectors, and does not keep threads apart.

The values of a comparison are those of interval arithmetic over the numbers of blocks and iterations, whose ranges are known, so
that nothing is assumed about overflow. What names a thread is left as it is, whatever its value: with it, a statement is each
thread's own, and not the block's. So are the statements of a loop whose schedule refers to them by number, and a ``T.Parallel``
whose text says, by a fragment in what goes for example, that threads share out the iterations that they carry a sum over.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.interval import UNKNOWN, Interval, interval_of
from tilelang.ir.visit import computed_from, is_choice, is_parallel, own_expressions, walk, walk_expr, with_children
from tilelang.tileop.carried import carried_by, carried_partially

_SCHEDULE = ("order", "stage", "group")
_LEAVES = (ir.BufferStore, ir.Bind, ir.Evaluate)
_NOTHING = ir.Evaluate(ir.IntImm("int32", 0))


def decide_conditions(func: Any, context: Any) -> Any:
    """The program without the conditions that its ranges decide."""
    return func.with_body(_Decider(func.body).stmt(func.body))


class _Decider:
    """Walks a program with the ranges of the blocks' and the loops' variables, and of what is computed from these alone."""

    def __init__(self, body: Any) -> None:
        self._body = body
        self._ranges: dict[Any, Interval] = {}

    @cached_property
    def _of_threads(self) -> set[Any]:
        """The numbers of threads, and the variables that are computed from them."""
        axes = (stmt.node for stmt in walk(self._body) if isinstance(stmt, ir.AttrStmt) and isinstance(stmt.node, ir.IterVar))
        return computed_from((axis.var for axis in axes if str(axis.thread_tag).startswith("threadIdx")), self._body)

    def stmt(self, node: Any) -> Any:
        """A statement without conditions that are decided."""
        if isinstance(node, ir.For) and any(str(note).endswith(_SCHEDULE) for note in node.annotations):
            return node
        if isinstance(node, ir.IfThenElse):
            return self._branch(node)
        if is_parallel(node):
            decided = self._inside(node)
            return decided if decided is node or _carries(decided) == _carries(node) else node
        return self._inside(node)

    def _inside(self, node: Any) -> Any:
        """A statement, if it is no branch, without the decided conditions in it."""
        if isinstance(node, _LEAVES) and any(isinstance(part, ir.Select) or is_choice(part) for part in own_expressions(node)):
            node = tvm_ffi.structural_map(node, [(ir.Select, self._choice), (ir.Call, self._choice)])
        self._note(node)
        return with_children(node, self.stmt)

    def _note(self, node: Any) -> None:
        """Notes the range of the variable that a statement defines."""
        if isinstance(node, ir.For):
            self._bind(node.loop_var, as_int(node.min), as_int(node.extent))
        elif isinstance(node, ir.AttrStmt) and isinstance(node.node, ir.IterVar):
            if str(node.node.thread_tag).startswith("blockIdx"):
                self._bind(node.node.var, 0, as_int(node.value))
        elif isinstance(node, ir.Bind) and self._is_known(node.value):
            self._ranges[node.var] = interval_of(node.value, self._ranges)

    def _bind(self, var: Any, low: Any, extent: Any) -> None:
        if isinstance(low, int) and isinstance(extent, int) and extent > 0:
            self._ranges[var] = low, low + extent - 1

    def _branch(self, node: Any) -> Any:
        old = node.condition
        condition = self._decided(old)
        if condition is True:
            return self.stmt(node.then_case)
        if condition is False:
            return _NOTHING if node.else_case is None else self.stmt(node.else_case)
        if condition is not old:
            node = ir.IfThenElse(condition, node.then_case, node.else_case, node.span)
        return with_children(node, self.stmt)

    def _choice(self, expr: Any) -> Any:
        """A choice between two values, or any other call."""
        if isinstance(expr, ir.Call) and not is_choice(expr):
            return expr
        selects = isinstance(expr, ir.Select)
        old, *values = (expr.condition, expr.true_value, expr.false_value) if selects else expr.args
        condition = self._decided(old)
        if isinstance(condition, bool) and self._may_go(values[condition]):
            return values[not condition]
        if isinstance(condition, bool) or condition is old:
            return expr
        return ir.Select(condition, *values) if selects else ir.Call(expr.op, [condition, *values], ret_ty=expr.ty)

    # Conditions ---------------------------------------------------------------------------------------------------------

    def _decided(self, condition: Any) -> Any:
        """The value of a condition, or a condition for the rest; the condition itself if nothing of it is decided."""
        absorbing = _ABSORBING.get(type(condition))
        if absorbing is not None:
            return self._joined(condition, absorbing)
        if isinstance(condition, ir.Not):
            old = condition.a
            inner = self._decided(old)
            return not inner if isinstance(inner, bool) else condition if inner is old else ir.Not(inner)
        low, high = interval_of(condition, self._ranges) if self._is_known(condition) else UNKNOWN
        return bool(low) if low is not None and low == high else condition

    def _joined(self, condition: Any, absorbing: bool) -> Any:
        """An ``and`` or ``or``; ``absorbing`` is the value of an operand that decides it."""
        left, right = condition.a, condition.b
        first, second = self._decided(left), self._decided(right)
        if isinstance(first, bool):
            return second if first is not absorbing else first if self._may_go(right) else condition
        if isinstance(second, bool):
            return first if second is not absorbing else second if self._may_go(left) else condition
        return condition if first is left and second is right else type(condition)(first, second)

    def _may_go(self, expr: Any) -> bool:
        """Whether nothing is lost with an expression: it has no effect, and names no thread."""
        parts = list(walk_expr(expr))
        if any(type(part) is ir.Call and not is_choice(part) for part in parts):
            return False
        return self._of_threads.isdisjoint(part for part in parts if isinstance(part, ir.Var))

    def _is_known(self, expr: Any) -> bool:
        """Whether an expression is computed from numbers of blocks and iterations alone."""
        # What is loaded mentions its buffer, which has no range.
        return all(part in self._ranges if isinstance(part, ir.Var) else type(part) is not ir.Call for part in walk_expr(expr))


def _carries(loop: Any) -> tuple[set[Any], set[Any]]:
    """What the iterations of a ``T.Parallel`` carry, and of what each thread then holds the result of its own ones."""
    return carried_by(loop), carried_partially(loop)


_ABSORBING: Mapping[type, bool] = {ir.And: False, ir.Or: True}
"""Operator -> the value of an operand for which the other one does not matter."""
