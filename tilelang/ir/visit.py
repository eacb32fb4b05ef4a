"""Walking statements and expressions.

This uses plain attribute access. TVM's own visitors call Python through the FFI for every node, expressions included, while most
walks here look at statements only.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.arrays import items
from tilelang.ir.memory import is_variable

BINARY = (
    ir.Add, ir.Sub, ir.Mul, ir.Div, ir.Mod, ir.FloorDiv, ir.FloorMod, ir.Min, ir.Max,
    ir.BitwiseAnd, ir.BitwiseOr, ir.BitwiseXor, ir.LShift, ir.RShift,
    ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE, ir.And, ir.Or,
)  # fmt: skip
"""Operators of two operands, ``a`` and ``b``."""

LARGE = 512
"""The least size of a tree that walks which visit shared parts again should not see."""


def children(stmt: Any) -> list[Any]:
    """The statements directly inside ``stmt``."""
    found = _CHILDREN.get(type(stmt))
    return found(stmt) if found is not None else []


def statement_exprs(stmt: Any) -> list[Any]:
    """The expressions that ``stmt`` itself evaluates (not those of statements inside it)."""
    found = _EVALUATED.get(type(stmt))
    return found(stmt) if found is not None else []


def operands(expr: Any) -> list[Any]:
    """The expressions directly inside ``expr``."""
    found = _OPERANDS.get(type(expr))
    return found(expr) if found is not None else []


# Tables instead of ``isinstance``: for TVM's classes that is a call of a Python method whenever the answer is no.

_Parts = Mapping[type, Callable[[Any], list[Any]]]

_CHILDREN: _Parts = {
    ir.SeqStmt: lambda stmt: items(stmt.seq),
    ir.IfThenElse: lambda stmt: [stmt.then_case] + ([stmt.else_case] if stmt.else_case is not None else []),
    **dict.fromkeys((ir.For, ir.While, ir.AttrStmt), lambda stmt: [stmt.body]),
}

_EVALUATED: _Parts = {
    ir.Evaluate: lambda stmt: [stmt.value],
    ir.BufferStore: lambda stmt: [stmt.buffer, *items(stmt.indices), stmt.value],
    ir.Bind: lambda stmt: [stmt.value],
    ir.For: lambda stmt: [stmt.min, stmt.extent],
    **dict.fromkeys((ir.While, ir.IfThenElse, ir.AssertStmt), lambda stmt: [stmt.condition]),
    ir.AttrStmt: lambda stmt: [stmt.value] if isinstance(stmt.value, ir.PrimExpr) else [],
}

_OPERANDS: _Parts = {
    **dict.fromkeys(BINARY, lambda expr: [expr.a, expr.b]),
    ir.TensorLoad: lambda expr: [expr.source, *items(expr.indices)],
    ir.TensorRegion: lambda expr: [expr.source, *(part for r in items(expr.region) for part in (r.min, r.extent))],
    ir.Call: lambda expr: [arg for arg in items(expr.args) if isinstance(arg, ir.PrimExpr)],
    **dict.fromkeys((ir.Cast, ir.Broadcast), lambda expr: [expr.value]),
    **dict.fromkeys((ir.Not, ir.BitwiseNot), lambda expr: [expr.a]),
    ir.Select: lambda expr: [expr.condition, expr.true_value, expr.false_value],
    ir.Ramp: lambda expr: [expr.base, expr.stride],
    ir.Let: lambda expr: [expr.value, expr.body],
    ir.Shuffle: lambda expr: [*items(expr.vectors), *items(expr.indices)],
}


def rebuilt(expr: Any, rewrite: Callable[[Any], Any]) -> Any:
    """``expr`` with ``rewrite`` applied to the expressions directly inside it."""
    return _REBUILT[type(expr)](expr, rewrite)


_REBUILT: Mapping[type, Callable[[Any, Callable[[Any], Any]], Any]] = {
    **dict.fromkeys((ir.Var, ir.IntImm, ir.FloatImm, ir.StringImm), lambda expr, new: expr),
    **dict.fromkeys(BINARY, lambda expr, new: type(expr)(new(expr.a), new(expr.b))),
    **dict.fromkeys((ir.Not, ir.BitwiseNot), lambda expr, new: type(expr)(new(expr.a))),
    ir.TensorLoad: lambda expr, new: ir.BufferLoad(new(expr.source), [new(index) for index in expr.indices], expr.span),
    ir.Call: lambda expr, new: ir.Call(
        expr.op, [new(arg) for arg in expr.args], expr.attrs, list(expr.ty_args), expr.span, ret_ty=expr.ty
    ),
    ir.Cast: lambda expr, new: ir.Cast(expr.ty, new(expr.value)),
    ir.Broadcast: lambda expr, new: ir.Broadcast(new(expr.value), expr.lanes),
    ir.Select: lambda expr, new: ir.Select(new(expr.condition), new(expr.true_value), new(expr.false_value)),
    ir.Ramp: lambda expr, new: ir.Ramp(new(expr.base), new(expr.stride), expr.lanes),
    ir.Let: lambda expr, new: ir.Let(expr.var, new(expr.value), new(expr.body)),
    ir.Shuffle: lambda expr, new: ir.Shuffle(list(map(new, expr.vectors)), list(map(new, expr.indices))),
}


def with_operands(expr: Any, new: Callable[[Any], Any]) -> Any:
    """``expr`` with ``new`` applied to the expressions directly inside it."""
    if not operands(expr):
        return expr
    if isinstance(expr, ir.TensorRegion):
        return ir.BufferRegion(new(expr.source), [ir.Range.from_min_extent(new(r.min), new(r.extent)) for r in expr.region])
    return rebuilt(expr, new)


def with_children(stmt: Any, of: Callable[[Any], Any]) -> Any:
    """``stmt`` with ``of`` applied to the statements directly inside it; ``stmt`` itself where they stay the same."""
    old = children(stmt)
    new = [of(child) for child in old]
    return stmt if all(a is b for a, b in zip(old, new)) else _WITH_CHILDREN[type(stmt)](stmt, new)


_WITH_CHILDREN: Mapping[type, Callable[[Any, list[Any]], Any]] = {
    ir.SeqStmt: lambda stmt, new: ir.SeqStmt(new, stmt.span),
    ir.IfThenElse: lambda stmt, new: ir.IfThenElse(stmt.condition, new[0], new[1] if len(new) > 1 else None, stmt.span),
    ir.For: lambda stmt, new: ir.For(
        stmt.loop_var, stmt.min, stmt.extent, stmt.kind, *new, annotations=stmt.annotations, step=stmt.step, span=stmt.span
    ),
    ir.While: lambda stmt, new: ir.While(stmt.condition, *new, stmt.span),
    ir.AttrStmt: lambda stmt, new: ir.AttrStmt(stmt.node, stmt.attr_key, stmt.value, *new, stmt.span),
}


def walk_expr(expr: Any) -> Iterator[Any]:
    """``expr`` and every expression inside it, depth first; one with operands that is used several times comes once."""
    # Expressions share parts, so a walk that visits them again may take exponential time: `x = x * x`, thirty times.
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        inside = _OPERANDS.get(type(node))
        if inside is not None:
            if node in seen:
                continue
            seen.add(node)
            stack += reversed(inside(node))
        yield node


def is_choice(expr: Any) -> bool:
    """Whether an expression is ``if_then_else(condition, then, otherwise)``, which evaluates one of the two values."""
    return type(expr) is ir.Call and isinstance(expr.op, ir.Op) and expr.op.name == "prim.if_then_else"


def is_guarded(expr: Any, position: int) -> bool:
    """Whether a condition, the first operand, decides if an operand of an expression is evaluated."""
    return position > 0 and (type(expr) in (ir.And, ir.Or) or is_choice(expr))


def is_large(expr: Any) -> bool:
    """Whether an expression is a large tree: a shared part counts as often as it is used."""
    return tree_size(expr, {}) >= LARGE


def tree_size(expr: Any, sizes: Mapping[Any, int]) -> int:
    """How many nodes an expression has as a tree, :data:`LARGE` at most.

    Args:
        expr: the expression.
        sizes: of variables that stand for their values, the sizes of these.
    """
    # No set of nodes that were visited: shared parts shall count each time, and the bound limits how often.
    stack, count = [expr], 0
    while stack and count < LARGE:
        node = stack.pop()
        count += sizes.get(node, 1) if sizes else 1
        inside = _OPERANDS.get(type(node))
        if inside is not None:
            stack += inside(node)
    return min(count, LARGE) if not stack else LARGE


def any_call(expr: Any, test: Callable[[Any], bool]) -> bool:
    """Whether ``test`` holds for a call in an expression; in less time than over :func:`walk_expr`, which gives variables too."""
    stack, seen = [expr], set()
    while stack:
        node = stack.pop()
        inside = _OPERANDS.get(type(node))
        if inside is None or node in seen:
            continue
        seen.add(node)
        if type(node) is ir.Call and test(node):
            return True
        stack += inside(node)
    return False


def reads_memory(expr: Any) -> bool:
    """Whether an expression loads from memory, so that its value depends on when it is evaluated."""
    return any(isinstance(node, ir.TensorLoad) for node in walk_expr(expr))


def reads_its_place(store: Any) -> bool:
    """Whether a store computes its value from the element that it stores to."""
    return any(same_place(part, store) for part in walk_expr(store.value))


def same_place(expr: Any, store: Any) -> bool:
    """Whether an expression is a load of the element that a store stores to."""
    if not (isinstance(expr, ir.TensorLoad) and expr.source.same_as(store.buffer)):
        return False
    return tvm_ffi.structural_equal(list(expr.indices), list(store.indices))


def variables(expr: Any) -> Iterator[Any]:
    """The variables (buffers too) that ``expr`` uses."""
    return (node for node in walk_expr(expr) if isinstance(node, ir.Var))


def mentions(expr: Any, variables: Any) -> bool:
    """Whether ``expr`` mentions any of ``variables``."""
    return any(isinstance(node, ir.Var) and node in variables for node in walk_expr(expr))


def conjuncts(condition: Any) -> list[Any]:
    """The parts of a conjunction, in order."""
    if isinstance(condition, ir.And):
        return [*conjuncts(condition.a), *conjuncts(condition.b)]
    return [condition]


def conjunction(conditions: Iterable[Any]) -> Any:
    """The ``and`` of the conditions that are not None, or None."""
    given = [condition for condition in conditions if condition is not None]
    return functools.reduce(ir.And, given) if given else None


def walk(stmt: Any) -> Iterator[Any]:
    """``stmt`` and every statement inside it, in program order."""
    stack = [stmt]
    while stack:
        node = stack.pop()
        yield node
        stack.extend(reversed(children(node)))


def own_expressions(stmt: Any) -> list[Any]:
    """Every expression that ``stmt`` itself evaluates, with those inside it."""
    return [part for expr in statement_exprs(stmt) for part in walk_expr(expr)]


def expressions(stmt: Any) -> Iterator[Any]:
    """Every expression of ``stmt`` and of the statements inside it."""
    return (part for each in walk(stmt) for part in own_expressions(each))


def any_statement(stmt: Any, test: Callable[[Any], bool]) -> bool:
    """Whether ``test`` holds for ``stmt`` or a statement inside it."""
    return any(test(node) for node in walk(stmt))


def is_parallel(stmt: Any) -> bool:
    """Whether a statement is a ``T.Parallel``."""
    return isinstance(stmt, ir.For) and "tl.parallel" in stmt.annotations


def parallel_loops(loop: Any) -> list[Any]:
    """The loops of a ``T.Parallel``, outermost first."""
    loops = [loop]
    while len(loops) < int(loop.annotations["tl.parallel"]):
        loops.append(loops[-1].body)
    return loops


def computed_from(variables: Iterable[Any], body: Any) -> set[Any]:
    """Variables, and those of statements that are computed from them.

    Args:
        variables: the first ones.
        body: the statements.
    """
    found = set(variables)
    for stmt in walk(body):
        target = None
        if isinstance(stmt, ir.Bind):
            target = stmt.var
        elif isinstance(stmt, ir.For):
            target = stmt.loop_var
        elif isinstance(stmt, ir.BufferStore) and is_variable(stmt.buffer):
            target = stmt.buffer
        if target is not None and any(mentions(expr, found) for expr in statement_exprs(stmt)):
            found.add(target)
    return found


def flattened(stmt: Any) -> list[Any]:
    """The statements of a block, nested blocks opened."""
    if isinstance(stmt, ir.SeqStmt):
        return [inner for child in stmt.seq for inner in flattened(child)]
    return [stmt]
