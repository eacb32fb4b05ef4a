"""Step ``check_bounds``: an access that is out of bounds for all arguments is an error.

Before and after: the same tile IR. Two kinds of access are refused:

- of any buffer, one whose every index lies outside (``A[N + i]`` of a buffer of N elements);
- of a buffer on the chip (shared, fragment, local), one of whose indices lies outside for some iteration of the loops around it,
  where the access is executed in every iteration.

Accesses of global tensors may leave them at the edge of a tile: they are guarded, not refused. Ranges are computed exactly, by
interval arithmetic over sums of distinct variables with known ranges; an index of any other form is not checked. Unreachable
code, whose conditions contradict the ranges or each other, is not checked either; ``and`` and ``or`` evaluate their second
operand under their first.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.errors import IndexRangeError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.interval import Interval, interval_of, is_exact
from tilelang.ir.memory import is_global
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.ir.visit import any_statement, children, flattened, is_choice, operands, statement_exprs
from tilelang.tileop import record_of
from tilelang.tileop.thread import intrinsic_name

_WARP_GROUPS = "tl.warp_group"
"""The attribute of code that only some of the threads run."""

_SECOND_WHERE = {ir.And: (True,), ir.Or: (False,)}
"""Operator -> the value of the first operand for which the second one is evaluated."""

_CHOICE = (True, False)
"""The same for the two values of a conditional expression."""


def check_bounds(func: Any, context: Any) -> Any:
    """The program itself.

    Raises:
        IndexRangeError: at the first access that is out of bounds.
    """
    _Checker(lambda buffer: True).stmt(func.body, conditional=False)
    return func


def check_tensors(func: Any) -> None:
    """The same for tensors alone, for the interpreter, which itself finds what leaves a tile.

    Raises:
        IndexRangeError: at the first access that is outside for all arguments.
    """
    _Checker(is_global).stmt(func.body, conditional=False)


class _Checker:
    """Walks a program with what is known about its variables.

    ``conditional`` says whether an access may not be executed in some iteration of the loops around it; then one that is outside
    in some iterations is not refused, since it may be executed in the others only.

    Attributes:
        checked: whether a buffer's accesses are checked.
        ranges: the exact ranges of variables of loops and threads.
        facts: the same for proofs, with the conditions around the statement.
        span: of the last statement that has one.
    """

    def __init__(self, checked: Callable[[Any], bool]) -> None:
        self.checked = checked
        self.ranges: dict[Any, Interval] = {}
        self.facts = Facts()
        self.span: Any = None

    def stmt(self, node: Any, conditional: bool) -> None:
        if node.span is not None:
            self.span = node.span
        record = record_of(node)
        if record is not None:
            self._operator(record, conditional)
            return
        for expr in statement_exprs(node):
            self._expr(expr, conditional)
        if isinstance(node, ir.BufferStore):
            self._access(node.buffer, node.indices, conditional)
        self._inside(node, conditional)

    def _operator(self, op: Any, conditional: bool) -> None:
        for region, _ in op.regions():
            self._region(region, conditional)
        for value in op.scalars():
            self._expr(value, conditional)

    def _inside(self, node: Any, conditional: bool) -> None:
        """Checks the statements inside of a statement, under the conditions and ranges that it gives."""
        if isinstance(node, ir.IfThenElse):
            self._under(node.condition, True, lambda guarded: self.stmt(node.then_case, guarded), conditional)
            if node.else_case is not None:
                self._under(node.condition, False, lambda guarded: self.stmt(node.else_case, guarded), conditional)
            return
        if isinstance(node, ir.For):
            low, extent = as_int(node.min), as_int(node.extent)
            if extent == 0:
                return
            # A loop that may have no iterations, or is left early, need not reach the access at the ends of its range.
            conditional = not self._ranges_over(node, low, extent) or conditional or _leaves_early(node.body)
        elif isinstance(node, ir.AttrStmt) and isinstance(node.node, ir.IterVar):
            self._bind_range(node.node.var, 0, as_int(node.value))
        elif isinstance(node, ir.While) or (isinstance(node, ir.AttrStmt) and node.attr_key == _WARP_GROUPS):
            conditional = True
        self._sequence(children(node), conditional)

    def _sequence(self, stmts: list[Any], conditional: bool) -> None:
        """Checks statements in order; those after a thread's return run only where it did not."""
        for position, stmt in enumerate(stmts):
            self.stmt(stmt, conditional)
            if not any_statement(stmt, _is_return):
                continue
            rest = stmts[position + 1 :]
            if isinstance(stmt, ir.IfThenElse) and stmt.else_case is None and _is_return(flattened(stmt.then_case)[-1]):
                self._under(stmt.condition, False, lambda guarded, rest=rest: self._sequence(rest, guarded), conditional)
            else:
                self._sequence(rest, True)
            return

    def _ranges_over(self, loop: Any, low: Any, extent: Any) -> bool:
        """Notes the range of a loop's variable; whether the loop takes every value of it."""
        return loop.step is None and self._bind_range(loop.loop_var, low, extent)

    def _bind_range(self, var: Any, low: Any, extent: Any) -> bool:
        if not (isinstance(low, int) and isinstance(extent, int)):
            return False
        self.ranges[var] = low, low + extent - 1
        self.facts.bind_range(var, extent, low)
        return True

    def _under(self, condition: Any, holds: bool, judge: Callable[[bool], None], conditional: bool) -> None:
        """Checks the code that runs where ``condition`` holds (or does not), unless it is unreachable."""
        if self.facts.holds(ir.Not(condition) if holds else condition):
            return
        always = self.facts.holds(condition if holds else ir.Not(condition))
        with self.facts.assuming(condition, holds):
            judge(conditional or not always)

    def _expr(self, expr: Any, conditional: bool) -> None:
        if isinstance(expr, (ir.Var, ir.IntImm, ir.FloatImm)):
            return
        if isinstance(expr, ir.TensorLoad):
            self._access(expr.source, expr.indices, conditional)
        first, *rest = operands(expr) or [None]
        if first is not None:
            self._expr(first, conditional)
        for part, holds in zip(rest, _evaluated_where(expr) or [None] * len(rest)):
            if holds is None:
                self._expr(part, conditional)
            else:
                self._under(first, holds, lambda guarded, part=part: self._expr(part, guarded), conditional)

    def _access(self, buffer: Any, indices: Any, conditional: bool) -> None:
        for axis, (index, size) in enumerate(zip(indices, buffer.shape)):
            found = self._exact(index)
            if found is not None:
                self._judge(buffer, axis, *found, as_int(size), conditional)

    def _region(self, region: Region, conditional: bool) -> None:
        for low in filter(lambda low: isinstance(low, ir.PrimExpr), region.mins):
            self._expr(low, conditional)
        for axis, (low, extent, size) in enumerate(zip(region.mins, region.extents, region.buffer.shape)):
            found = self._exact(low)
            if found is not None and isinstance(extent, int) and extent > 0:
                self._judge(region.buffer, axis, found[0], found[1] + extent - 1, as_int(size), conditional)

    def _judge(self, buffer: Any, axis: int, low: int, high: int, size: Any, conditional: bool) -> None:
        """Refuses an index that takes all values from ``low`` to ``high``, if it certainly leaves the axis."""
        if not isinstance(size, int) or (0 <= low and high < size) or not self.checked(buffer):
            return
        # A guarded access is skipped wherever it is outside, so it is a mistake only if it is outside for every value of its
        # variables.
        nowhere_inside = low >= size or high < 0
        guarded = conditional or is_global(buffer)
        if guarded and not nowhere_inside:
            return
        outside = low if nowhere_inside or low < 0 else high
        raise IndexRangeError(str(buffer.name), axis, outside, size).at(location_of(self.span))

    def _exact(self, expr: Any) -> tuple[int, int] | None:
        """The minimum and maximum of an index, or None where they are not known exactly."""
        low, high = interval_of(expr, self.ranges)
        return None if low is None or high is None or not is_exact(expr, self.ranges) else (low, high)


def _evaluated_where(expr: Any) -> tuple[bool, ...]:
    """For each operand after the first, the value of the first for which it is evaluated; empty if all are evaluated always."""
    return _CHOICE if is_choice(expr) else _SECOND_WHERE.get(type(expr), ())


def _is_return(stmt: Any) -> bool:
    """Whether a statement ends the thread."""
    return isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "thread_return"


def _leaves_early(body: Any) -> bool:
    """Whether some iterations may end early."""
    return any_statement(body, lambda node: isinstance(node, (ir.Break, ir.Continue)))
