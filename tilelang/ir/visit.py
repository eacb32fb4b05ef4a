"""Walking statements and expressions.

Written over plain attribute access: TVM's Python visitors cost a callback through the FFI for every node, while most walks here
only look at statements.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilelang.ir import nodes as ir

_BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max,
    ir.BitwiseAnd, ir.BitwiseOr, ir.BitwiseXor, ir.LShift, ir.RShift,
    ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip


def children(stmt: Any) -> list[Any]:
    """The statements directly inside ``stmt``."""
    if isinstance(stmt, ir.SeqStmt):
        return list(stmt.seq)
    if isinstance(stmt, ir.IfThenElse):
        return [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else [])
    body = getattr(stmt, "body", None)
    return [body] if body is not None else []


def statement_exprs(stmt: Any) -> list[Any]:
    """The expressions that ``stmt`` itself evaluates (not those of statements inside it)."""
    if isinstance(stmt, ir.Evaluate):
        return [stmt.value]
    if isinstance(stmt, ir.BufferStore):
        return [stmt.buffer, *stmt.indices, stmt.value]
    if isinstance(stmt, ir.Bind):
        return [stmt.value]
    if isinstance(stmt, ir.For):
        return [stmt.min, stmt.extent]
    if isinstance(stmt, (ir.While, ir.IfThenElse, ir.AssertStmt)):
        return [stmt.condition]
    if isinstance(stmt, ir.AttrStmt):
        return [stmt.value] if isinstance(stmt.value, ir.PrimExpr) else []
    return []


def operands(expr: Any) -> list[Any]:
    """The expressions directly inside ``expr``."""
    if isinstance(expr, _BINARY):
        return [expr.a, expr.b]
    if isinstance(expr, ir.TensorLoad):
        return [expr.source, *expr.indices]
    if isinstance(expr, ir.TensorRegion):
        return [expr.source, *(part for r in expr.region for part in (r.min, r.extent))]
    if isinstance(expr, ir.Call):
        return [arg for arg in expr.args if isinstance(arg, ir.PrimExpr)]
    if isinstance(expr, (ir.Cast, ir.Broadcast)):
        return [expr.value]
    if isinstance(expr, (ir.Not, ir.BitwiseNot)):
        return [expr.a]
    if isinstance(expr, ir.Select):
        return [expr.condition, expr.true_value, expr.false_value]
    if isinstance(expr, ir.Ramp):
        return [expr.base, expr.stride]
    if isinstance(expr, ir.Let):
        return [expr.value, expr.body]
    if isinstance(expr, ir.Shuffle):
        return [*expr.vectors, *expr.indices]
    return []


def walk_expr(expr: Any) -> Iterator[Any]:
    """``expr`` and every expression inside it, each shared one once."""
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        if isinstance(node, ir.Var):
            yield node
            continue
        if node in seen:
            continue
        seen.add(node)
        yield node
        stack.extend(reversed(operands(node)))


def variables(expr: Any) -> Iterator[Any]:
    """The variables (buffers too) that ``expr`` uses."""
    return (node for node in walk_expr(expr) if isinstance(node, ir.Var))


def walk(stmt: Any) -> Iterator[Any]:
    """``stmt`` and every statement inside it, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def any_statement(stmt: Any, test: Callable[[Any], bool]) -> bool:
    """Whether ``test`` holds for ``stmt`` or a statement inside it."""
    return any(test(node) for node in walk(stmt))
