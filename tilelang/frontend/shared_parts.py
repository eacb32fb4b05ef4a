"""Large expressions: parts that they use several times, and long ones, are bound to variables before the statement.

Python code may build an expression out of one that it uses twice, and do so again: ``for _ in range(20): x = x * x % 64``. It is
small as long as its parts are shared, but walks over expressions, TVM's among them, see a tree of a million nodes. A sum that a
loop over thousands of terms writes is as deep as it has terms, and these walks recurse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from functools import reduce
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
    is_guarded,
    is_large,
    operands,
    statement_exprs,
    variables,
    walk_expr,
    with_children,
    with_operands,
)

_REPEATED = 24
"""Largest number of nodes of a part that is repeated where it is used."""

_LONG = 128
"""Number of nodes from which on a part of a large expression is bound."""

_DEEPEST = 200
"""Largest depth of an expression; walks take up to four calls of Python, which allows 1000, for each level."""

_CONJUNCTS = 32
"""Largest number of conditions, each inside of the one before, that are tested at once."""

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
    bindings = _in_order(dict(parts.bindings()))
    if bindings is None or any(_depth(expr) > _DEEPEST for expr in (*statement_exprs(changed), *bindings.values())):
        raise OperandError(
            f"an expression of more than {_DEEPEST} nested operations, which cannot be computed in parts",
            location_of(stmt.span),
            hint="compute it by several statements: collect the value in a T.alloc_var",
        )
    return sequence([*(ir.Bind(var, value, stmt.span) for var, value in bindings.items()), changed])


class _Parts:
    """The parts of a statement's expressions that are bound before it."""

    def __init__(self, exprs: list[Any], take_name: Callable[[str], str]) -> None:
        nodes = list(dict.fromkeys(node for expr in exprs for node in walk_expr(expr)))
        self._take_name = take_name
        self._uses = Counter(operand for node in nodes for operand in operands(node))
        # Moving an expression before the statement evaluates it always: one that may fail where a condition does not hold
        # may be moved only if it is evaluated anyway, or together with its conditions.
        self._guards = _guards(exprs, self._uses)
        self._local = {node.var for node in nodes if isinstance(node, ir.Let)}
        self._done: dict[Any, Any] = {}
        self._size: dict[Any, int] = {}
        self._impure = set[Any]()
        for node in reversed(self._guards):  # operands first
            if self._has_effects(node) or not self._impure.isdisjoint(operands(node)):
                self._impure.add(node)
        self._failing = set[Any]()
        self._bindings: list[tuple[Any, Any]] = []
        self._taken: dict[_Branch, Any] = {}

    def bindings(self) -> list[tuple[Any, Any]]:
        """Each variable and its value, in any order; asked for once, when all expressions are bound."""
        done = 0
        while done < len(self._taken):  # the condition of a branch is evaluated where those around it hold: they are added
            branch, var = list(self._taken.items())[done]
            self._bindings.append((var, self._holds(branch)))
            done += 1
        return self._bindings

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
        parts = iter([self._operand(expr, position) for position in range(len(operands(expr)))])
        inner = with_operands(expr, lambda _: next(parts))
        self._size[inner] = size = 1 + sum(self._size.get(part, 1) for part in operands(inner))
        if _may_fail(inner) or not self._failing.isdisjoint(operands(inner)):
            self._failing.add(inner)
        most = _REPEATED if self._uses[expr] > 1 else _LONG
        return self._variable(inner) if size > most and self._is_movable(expr, inner) else inner

    def _operand(self, expr: Any, position: int) -> Any:
        """An operand in its parts; those of a large one that a condition guards are bound if the conditions around it hold."""
        found = self.bound(operands(expr)[position])
        if not is_guarded(expr, position) or operands(expr)[position] in self._impure or not is_large(found):
            return found
        if (takes := self._takes(expr, position)) is None:
            return found
        inner = _Parts([found], self._take_name)
        small = inner.bound(found)
        # Nothing reads the value for the case that the conditions do not hold.
        self._bindings += [(var, ir.tirx.if_then_else(takes, value, _zero(value))) for var, value in inner.bindings()]
        return small

    def _takes(self, expr: Any, position: int) -> Any:
        """A variable that says whether an operand is evaluated; None where the conditions have effects of their own."""
        around, waiting = set[_Branch](), [(expr, position)]
        while waiting:
            branch = waiting.pop()
            if branch not in around:
                around.add(branch)
                waiting += self._guards[branch[0]] or ()
        return None if any(operands(condition)[0] in self._impure for condition, _ in around) else self._branch((expr, position))

    def _branch(self, branch: _Branch) -> Any:
        if branch not in self._taken:
            self._taken[branch] = ir.Var(self._take_name("part"), "bool")
        return self._taken[branch]

    def _holds(self, branch: _Branch) -> Any:
        """The conjunction of the conditions of a branch and of those around it, the outermost first."""
        tests = []
        while True:
            expr, position = branch
            test = self.bound(operands(expr)[0])
            tests.append(ir.Not(test) if position == 2 or isinstance(expr, ir.Or) else test)
            around = self._guards[expr]
            if around is None:
                break
            branch, *others = around
            if others or branch in self._taken or len(tests) == _CONJUNCTS:
                tests.append(reduce(ir.Or, map(self._branch, around)))
                break
        return reduce(ir.And, reversed(tests))

    def _variable(self, value: Any) -> Any:
        var = ir.Var(self._take_name("part"), value.ty)
        self._bindings.append((var, value))
        return var

    def _is_movable(self, expr: Any, inner: Any) -> bool:
        """Whether an expression, with its parts bound ``inner``, has the same value before the statement."""
        if type(expr) not in _BOUND or not str(expr.ty).startswith(_SCALARS) or "x" in str(expr.ty):
            return False
        return expr not in self._impure and (self._guards[expr] is None or inner not in self._failing)

    def _has_effects(self, expr: Any) -> bool:
        """Whether more than its operands and memory decides the value of an expression."""
        return expr in self._local or isinstance(expr, ir.Call) and not is_pure(expr)


_Branch = tuple[Any, int]
"""An expression with a condition, and the position of an operand that the condition guards."""

_Branches = dict[_Branch, None]
"""A set of branches, in the order in which they were found."""

_Guards = dict[Any, _Branches | None]

_DIVISIONS = (ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod)

_SCALARS = ("int", "uint", "float", "bfloat", "bool")


def _in_order(bindings: Mapping[Any, Any]) -> dict[Any, Any] | None:
    """Variables and their values, each after those that it is computed from; None where there is no such order."""
    order: dict[Any, Any] = {}
    started = set[Any]()
    for first in bindings:
        waiting = [first]
        while waiting:
            var = waiting[-1]
            inside = [other for other in variables(bindings[var]) if other in bindings and other not in order]
            if inside and var in started:
                return None
            started.add(var)
            waiting += inside
            if not inside:
                order[waiting.pop()] = bindings[var]
    return order


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


def _may_fail(expr: Any) -> bool:
    """Whether an operation must not be evaluated where a condition excludes it: it may read outside of a tensor, divide by 0."""
    if isinstance(expr, _DIVISIONS):
        return not is_float(expr.ty) and not isinstance(expr.b, ir.IntImm)
    return isinstance(expr, ir.TensorLoad)


def _guards(exprs: list[Any], uses: Mapping[Any, int]) -> _Guards:
    """The branches of conditions in one of which each part of expressions is evaluated; None for one that always is.

    Each part comes after all that use it.

    Args:
        exprs: the expressions.
        uses: how often each part is an operand of another.
    """
    found: _Guards = {}
    below: _Guards = dict.fromkeys(exprs)
    left = dict(uses)
    waiting = [expr for expr in below if not left.get(expr)]
    while waiting:
        expr = waiting.pop()
        found[expr] = _without_implied(below[expr], found)
        for position, part in enumerate(operands(expr)):
            own = {(expr, position): None} if is_guarded(expr, position) else found[expr]
            before = below.setdefault(part, {})
            below[part] = None if own is None or before is None else before | own
            left[part] -= 1
            if not left[part]:
                waiting.append(part)
    return found


def _without_implied(branches: _Branches | None, guards: _Guards) -> _Branches | None:
    """Branches without those inside of others: what is in one is evaluated there."""
    if branches is None or len(branches) == 1:
        return branches
    kept = branches
    for expr, _ in branches:
        both = ((expr, 1), (expr, 2))
        if all(branch in kept for branch in both):  # of ``if_then_else``: evaluated wherever the condition is
            around = guards[expr]
            if around is None:
                return None
            kept = {branch: None for branch in kept if branch not in both} | around
    return {branch: None for branch in kept if not _is_inside(branch, kept, guards)}


def _is_inside(branch: _Branch, others: _Branches, guards: _Guards) -> bool:
    """Whether all paths to a branch lead through others."""
    waiting, seen = [branch], set[_Branch]()
    while waiting:
        around = guards[waiting.pop()[0]]
        if around is None:
            return False
        new = [outer for outer in around if outer not in others and outer not in seen]
        seen.update(new)
        waiting += new
    return True


_WITH_EXPRS: Mapping[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    ir.BufferStore: lambda stmt, new: ir.BufferStore(stmt.buffer, new(stmt.value), list(map(new, stmt.indices)), stmt.span),
    ir.Bind: lambda stmt, new: ir.Bind(stmt.var, new(stmt.value), stmt.span),
    ir.Evaluate: lambda stmt, new: ir.Evaluate(new(stmt.value), stmt.span),
    ir.IfThenElse: lambda stmt, new: ir.IfThenElse(new(stmt.condition), stmt.then_case, stmt.else_case, stmt.span),
}
"""Statements that may have others before them, with ``new`` applied to their expressions."""
