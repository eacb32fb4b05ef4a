"""Large expressions: parts that they use several times, and long ones, are bound to variables before the statement.

Python code may build an expression out of one that it uses twice, and do so again: ``for _ in range(20): x = x * x % 64``. It is
small as long as its parts are shared, but walks over expressions, TVM's among them, see a tree of a million nodes. A sum that a
loop over thousands of terms writes is as deep as it has terms, and these walks recurse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from tilelang.errors import OperandError
from tilelang.frontend.builder import sequence
from tilelang.ir import nodes as ir
from tilelang.ir.expr import float_constant, is_pure
from tilelang.ir.floats import is_float
from tilelang.ir.span import location_of
from tilelang.ir.visit import (
    BINARY,
    any_statement,
    flattened,
    is_large,
    operands,
    reads_memory,
    rebuilt,
    statement_exprs,
    walk_expr,
    with_children,
)

_REPEATED = 24
"""Largest number of nodes of a part that is repeated where it is used."""

_LONG = 128
"""Number of nodes from which on a part of a large expression is bound."""

_DEEPEST = 200
"""Largest depth of an expression; walks take up to four calls of Python, which allows 1000, for each level."""

_BOUND = frozenset({*BINARY, ir.Not, ir.BitwiseNot, ir.Cast, ir.Select, ir.Call})
"""What is bound to a variable; elements of memory may be operands that stand for their address."""


def with_shared_parts_bound(body: Any, take_name: Callable[[str], str]) -> Any:
    """A program none of whose expressions is deep, or a large tree for its shared parts; ``take_name`` makes names unique.

    Raises:
        OperandError: an expression is too deep, and its parts cannot be computed before the statement.
    """
    return _rewritten(body, take_name) if any_statement(body, _has_large) else body


def _has_large(stmt: Any) -> bool:
    return any(map(is_large, statement_exprs(stmt)))


def _rewritten(stmt: Any, take_name: Callable[[str], str]) -> Any:
    if isinstance(stmt, ir.SeqStmt):
        return ir.SeqStmt([part for child in stmt.seq for part in flattened(_rewritten(child, take_name))], stmt.span)
    stmt = with_children(stmt, lambda child: _rewritten(child, take_name))
    if not _has_large(stmt):
        return stmt
    parts, rebuild = _Parts(statement_exprs(stmt), take_name), _WITH_EXPRS.get(type(stmt))
    changed = stmt if rebuild is None else rebuild(stmt, parts.bound)
    if any(_depth(expr) > _DEEPEST for expr in (*statement_exprs(changed), *(value for _, value in parts.values))):
        raise OperandError(
            f"an expression of more than {_DEEPEST} nested operations, which cannot be computed in parts",
            location_of(stmt.span),
            hint="compute it by several statements: collect the value in a T.alloc_var",
        )
    return sequence([*(ir.Bind(var, value, stmt.span) for var, value in parts.values), changed])


class _Parts:
    """The parts of a statement's expressions that are bound before it.

    Attributes:
        values: each variable and its value, in an order in which they can be computed.
    """

    def __init__(self, exprs: list[Any], take_name: Callable[[str], str]) -> None:
        nodes = list(dict.fromkeys(node for expr in exprs for node in walk_expr(expr)))
        self.values: list[tuple[Any, Any]] = []
        self._take_name = take_name
        self._uses = Counter(operand for node in nodes for operand in operands(node))
        # Moving an expression before the statement evaluates it always: one that reads memory may be moved only if it was
        # anyway.
        self._always = _evaluated_always(exprs)
        self._local = {node.var for node in nodes if isinstance(node, ir.Let)}
        self._done: dict[Any, Any] = {}
        self._size: dict[Any, int] = {}

    def bound(self, expr: Any) -> Any:
        """An expression with variables in place of parts."""
        waiting = [expr]
        while waiting:  # operands first, without recursion: a sum may be thousands of terms deep
            node = waiting[-1]
            inside = [part for part in operands(node) if operands(part) and part not in self._done]
            if inside:
                waiting += reversed(inside)
                continue
            waiting.pop()
            if operands(node) and node not in self._done:
                self._done[node] = self._once(node)
        return self._done.get(expr, expr)

    def _once(self, expr: Any) -> Any:
        guarded = self._guarded(expr) if _evaluated(expr) else {}
        inner = _with_operands(expr, lambda part: guarded[part] if part in guarded else self.bound(part))
        self._size[inner] = size = 1 + sum(self._size.get(part, 1) for part in operands(inner))
        most = _REPEATED if self._uses[expr] > 1 else _LONG
        return self._variable(inner) if size > most and self._is_movable(expr, inner) else inner

    def _guarded(self, expr: Any) -> dict[Any, Any]:
        """The operands that a condition guards: their parts are bound before the statement if the condition holds."""
        test, *others = operands(expr)
        found = {}
        for position, other in enumerate(others):
            found[other] = self.bound(other)
            if is_large(found[other]) and self._is_pure(found[other]):
                holds = self._variable(self.bound(test))
                inner = _Parts([found[other]], self._take_name)
                # Still large: its parts are bound in front of the statement too, and there need a value for the case that the
                # condition does not hold. Nothing reads that value.
                found[other] = inner.bound(found[other])
                takes = ir.Not(holds) if position or isinstance(expr, ir.Or) else holds
                self.values += [(var, ir.tirx.if_then_else(takes, value, _zero(value))) for var, value in inner.values]
        return found

    def _variable(self, value: Any) -> Any:
        var = ir.Var(self._take_name("part"), value.ty)
        self.values.append((var, value))
        return var

    def _is_movable(self, expr: Any, inner: Any) -> bool:
        """Whether an expression, with its parts bound ``inner``, has the same value before the statement."""
        if type(expr) not in _BOUND or not str(expr.ty).startswith(_SCALARS) or "x" in str(expr.ty):
            return False
        # What a condition guards, such as an index, may read outside of its tensor where the condition does not hold.
        return self._is_pure(inner) and (expr in self._always or not reads_memory(inner))

    def _is_pure(self, expr: Any) -> bool:
        """Whether nothing but memory decides the value of an expression."""
        return not any(part in self._local or isinstance(part, ir.Call) and not is_pure(part) for part in walk_expr(expr))


_SCALARS = ("int", "uint", "float", "bfloat", "bool")


def _depth(expr: Any) -> int:
    """The number of nested operations of an expression."""
    depths: dict[Any, int] = {}
    waiting = [expr]
    while waiting:
        inside = operands(waiting[-1])
        unknown = [part for part in inside if part not in depths]
        if unknown:
            waiting += unknown
        else:
            depths[waiting.pop()] = 1 + max((depths[part] for part in inside), default=0)
    return depths[expr]


def _zero(value: Any) -> Any:
    return float_constant(0.0, str(value.ty)) if is_float(value.ty) else ir.IntImm(value.ty, 0)


def _evaluated_always(exprs: list[Any]) -> set[Any]:
    """The parts of expressions whose evaluation depends on no condition."""
    waiting, found = list(exprs), set[Any]()
    while waiting:
        expr = waiting.pop()
        if expr in found:
            continue
        found.add(expr)
        waiting += operands(expr)[: _evaluated(expr)]
    return found


def _evaluated(expr: Any) -> int | None:
    """How many operands, from the first, an expression always evaluates; None if all."""
    if type(expr) is ir.Call:
        return 1 if isinstance(expr.op, ir.Op) and expr.op.name == "prim.if_then_else" else None
    return 1 if type(expr) in (ir.And, ir.Or) else None


def _with_operands(expr: Any, new: Callable[[Any], Any]) -> Any:
    if not operands(expr):
        return expr
    if isinstance(expr, ir.TensorRegion):
        return ir.BufferRegion(expr.source, [ir.Range.from_min_extent(new(r.min), new(r.extent)) for r in expr.region])
    return rebuilt(expr, new)


_WITH_EXPRS: Mapping[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    ir.BufferStore: lambda stmt, new: ir.BufferStore(stmt.buffer, new(stmt.value), list(map(new, stmt.indices)), stmt.span),
    ir.Bind: lambda stmt, new: ir.Bind(stmt.var, new(stmt.value), stmt.span),
    ir.Evaluate: lambda stmt, new: ir.Evaluate(new(stmt.value), stmt.span),
    ir.IfThenElse: lambda stmt, new: ir.IfThenElse(new(stmt.condition), stmt.then_case, stmt.else_case, stmt.span),
}
"""Statements that may have others before them, with ``new`` applied to their expressions."""
