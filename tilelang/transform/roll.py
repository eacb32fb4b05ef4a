"""Step ``roll``: loop rerolling, which turns repeated statements of a long kernel into loops.

Before and after: the same tile IR. Statements that a Python loop wrote out one by one differ in integers only, by the same step
from one repetition to the next: ``A[0, 0]``, ``A[16, 0]``, ``A[32, 0]``. In a kernel of :data:`LONG` statements or more they
become the ``for`` that the program could have had, and every later step sees one repetition. Compilers of machine code take at
least linear time in a function's length, and 1,000 unrolled products of 64 x 64 x 64 are half a million instructions.

An integer may vary only where generated code may have a variable: in an index of memory, a condition, a stored value. Integers
that must be constants (an index of registers, an extent, an argument of an intrinsic) have to be the same in each repetition. The
statements of a pipelined loop are not rolled, because its schedule refers to them by number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_memory
from tilelang.ir.visit import expressions, rebuilt, walk, with_children

LONG = 200
"""Smallest number of statements of a kernel that is rerolled."""

REPETITIONS = 8
"""Smallest number of repetitions that become a loop."""

LONGEST = 64
"""Largest number of statements of one repetition."""

_PIPELINE = ("num_stages", "order", "stage", "group")


def roll(func: Any, context: Any) -> Any:
    """The program with its long kernels rerolled."""
    if sum(not isinstance(node, (ir.SeqStmt, ir.AttrStmt)) for node in walk(func.body)) < LONG:
        return func
    return func.with_body(_kernels(func.body))


def _kernels(stmt: Any) -> Any:
    """The host's statements, with each kernel rerolled."""
    if isinstance(stmt, ir.SeqStmt):
        return ir.SeqStmt([_kernels(child) for child in stmt.seq], stmt.span)
    if isinstance(stmt, ir.AttrStmt):
        inside = _inside if stmt.attr_key == "thread_extent" else _kernels
        return ir.AttrStmt(stmt.node, stmt.attr_key, stmt.value, inside(stmt.body), stmt.span)
    return stmt


def _inside(stmt: Any) -> Any:
    """A statement of a kernel with the sequences in it rerolled."""
    if isinstance(stmt, ir.SeqStmt):
        return _sequence(_rolled([_inside(child) for child in stmt.seq]))
    if isinstance(stmt, ir.While) or (isinstance(stmt, ir.For) and _is_numbered(stmt)):
        return stmt
    return with_children(stmt, _inside)


def _is_numbered(loop: Any) -> bool:
    """Whether a loop is a ``T.Parallel``, or a pipeline whose schedule refers to statements by number."""
    return any(str(note) == "tl.parallel" or str(note).endswith(_PIPELINE) for note in loop.annotations)


def _sequence(items: list[Any]) -> Any:
    return items[0] if len(items) == 1 else ir.SeqStmt(items)


# Runs ----------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Form:
    """A statement without the integers that may vary.

    Attributes:
        number: equal for statements that differ in those integers only; None for one that may not be moved into a loop.
        integers: their values, in order.
    """

    number: int | None
    integers: tuple[int, ...] = ()

    def step(self, other: _Form) -> tuple[int, ...] | None:
        """The difference of each integer to that in ``other``; None where the statements differ in anything else."""
        if self.number is None or self.number != other.number:
            return None
        return tuple(b - a for a, b in zip(self.integers, other.integers))


def _rolled(items: list[Any]) -> list[Any]:
    """Statements in order with their repetitions as loops, loops that repeat among them too."""
    # A loop of loops appears only when the inner ones have been made: 4 rows of 16 statements become 4 loops, and then one.
    while True:
        found = _once(items)
        if len(found) == len(items):
            return items
        items = found


def _once(items: list[Any]) -> list[Any]:
    """Statements in order; from left to right, the repetition that saves most becomes a loop."""
    forms = _Forms()
    known = [forms.of(item) for item in items]
    found: list[Any] = []
    at = 0
    while at < len(items):
        counts = {period: _repetitions(known, at, period) for period in range(1, LONGEST + 1)}
        enough = [period for period, count in counts.items() if count >= REPETITIONS]
        if not enough:
            found.append(items[at])
            at += 1
            continue
        # The period that saves most statements; of several the shortest, since every multiple of a period is a period, too.
        period = max(enough, key=lambda period: ((counts[period] - 1) * period, -period))
        count = counts[period]
        steps = [cast("tuple[int, ...]", known[at + place].step(known[at + period + place])) for place in range(period)]
        found.append(_loop(items[at : at + period], steps, count))
        at += count * period
    return found


def _repetitions(forms: list[_Form], start: int, period: int) -> int:
    """How often the ``period`` statements from ``start`` on follow each other, with the same steps."""
    steps: list[tuple[int, ...]] = []
    at = start + period
    while at < len(forms):
        step = forms[at - period].step(forms[at])
        if step is None:
            break
        if len(steps) < period:
            steps.append(step)
        # The first repetition fixes the step of each integer. If a later one has another step, the integer is no linear function
        # of the repetition's number.
        elif step != steps[(at - start) % period]:
            break
        at += 1
    return (at - start) // period


def _loop(items: list[Any], steps: list[tuple[int, ...]], count: int) -> Any:
    """The loop whose iteration ``n`` is ``items`` with ``n`` steps added."""
    var = ir.Var("repetition", "int32")
    body = [_stepping(item, step, var) for item, step in zip(items, steps)]
    zero, extent = ir.IntImm("int32", 0), ir.IntImm("int32", count)
    return ir.For(var, zero, extent, ir.ForKind.SERIAL, _sequence(_rolled(body)), span=items[0].span)


def _stepping(item: Any, step: tuple[int, ...], var: Any) -> Any:
    remaining = iter(step)
    return _Integers(lambda value: _moved(value, var, next(remaining))).stmt(item)


def _moved(value: Any, var: Any, step: int) -> Any:
    """``value`` with ``step`` added in each iteration."""
    if not step:
        return value
    dtype = str(value.ty)
    number = var if dtype == "int32" else ir.Cast(value.ty, var)
    part = number if step == 1 else ir.Mul(number, ir.IntImm(dtype, step))
    return part if not int(value.value) else ir.Add(part, value)


# Forms ---------------------------------------------------------------------------------------------------------------


@dataclass
class _Forms:
    """The forms of some statements: numbered, so that they are compared once."""

    known: dict[tuple[int, tuple[Any, ...]], list[tuple[Any, int]]] = field(default_factory=dict)
    count: int = 0

    def of(self, stmt: Any) -> _Form:
        """The form of a statement."""
        integers: list[int] = []

        def take(value: Any) -> Any:
            integers.append(int(value.value))
            return ir.IntImm(value.ty, 0)

        try:
            bare = _Integers(take).stmt(stmt)
        except KeyError:  # a kind of statement that no table here has
            return _Form(None)
        # Only statements of the same hash are compared: comparing all pairs would take quadratic time.
        alike = self.known.setdefault((tvm_ffi.structural_hash(bare), _names(bare)), [])
        for other, number in alike:
            if tvm_ffi.structural_equal(bare, other):
                return _Form(number, tuple(integers))
        self.count += 1
        alike.append((bare, self.count))
        return _Form(self.count, tuple(integers))


def _names(stmt: Any) -> tuple[Any, ...]:
    """The buffers and variables that a statement takes from outside; structural equality holds for others in their place, too."""
    # `A[0] = B[0]` and `C[0] = D[0]` are structurally equal: free variables may be renamed there.
    bound = {node.loop_var for node in walk(stmt) if isinstance(node, ir.For)}
    return tuple(part for part in expressions(stmt) if isinstance(part, ir.Var) and part not in bound)


@dataclass(frozen=True)
class _Integers:
    """Rewrites a statement: each integer that may vary becomes what ``put`` gives for it, in order."""

    put: Callable[[Any], Any]

    def stmt(self, node: Any) -> Any:
        """The rewritten statement; KeyError where a loop around it could change its meaning."""
        return _STATEMENTS[type(node)](self, node)

    def free(self, expr: Any) -> Any:
        """An expression of which any part may vary."""
        if isinstance(expr, ir.IntImm):
            return self.put(expr) if str(expr.ty) in ("int32", "int64") else expr
        return rebuilt(expr, self.free) if type(expr) in _ARITHMETIC else self.fixed(expr)

    def fixed(self, expr: Any) -> Any:
        """An expression of which nothing may vary but what is inside of indices."""
        if isinstance(expr, (ir.Var, ir.IntImm)):
            return expr
        if isinstance(expr, ir.TensorLoad):
            return ir.BufferLoad(expr.source, self.indices(expr.source, expr.indices), expr.span)
        if isinstance(expr, ir.TensorRegion):
            mins = self.indices(expr.source, [r.min for r in expr.region])
            return ir.BufferRegion(expr.source, [ir.Range.from_min_extent(m, r.extent) for m, r in zip(mins, expr.region)])
        return rebuilt(expr, self.fixed)

    def indices(self, buffer: Any, indices: Any) -> list[Any]:
        """The indices of an element, which are free in memory."""
        return [self.free(index) if is_memory(buffer) else self.fixed(index) for index in indices]

    def store(self, node: Any) -> Any:
        indices = self.indices(node.buffer, node.indices)
        return ir.BufferStore(node.buffer, self.free(node.value), indices, node.span)

    def branch(self, node: Any) -> Any:
        condition, then = self.free(node.condition), self.stmt(node.then_case)
        return ir.IfThenElse(condition, then, None if node.else_case is None else self.stmt(node.else_case), node.span)


_ARITHMETIC = (
    ir.Add, ir.Sub, ir.Mul, ir.Min, ir.Max, ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or, ir.Not, ir.Cast,
)  # fmt: skip
"""Operators that cost the same with a variable as with a constant; division does not, as that by a constant is cheaper."""

_STATEMENTS: Mapping[type, Callable[[_Integers, Any], Any]] = {
    ir.Evaluate: lambda self, node: ir.Evaluate(self.fixed(node.value), node.span),
    ir.BufferStore: _Integers.store,
    ir.IfThenElse: _Integers.branch,
    ir.For: lambda self, node: with_children(node, self.stmt),
    ir.AttrStmt: lambda self, node: ir.AttrStmt(node.node, node.attr_key, node.value, self.stmt(node.body), node.span),
    ir.SeqStmt: lambda self, node: ir.SeqStmt([self.stmt(child) for child in node.seq], node.span),
}
"""Statements that mean the same in a loop: neither bindings and allocations, which define names, nor jumps."""
