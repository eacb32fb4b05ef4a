"""Mutation operators: conditions, comparisons, constants, minima and maxima, sums, statements."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_COMPARED = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq}
_COMPARED |= {ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
_ARITHMETIC = {ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv}
_CALLED = {"min": "max", "max": "min", "any": "all", "all": "any"}


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        module: name of the changed module.
        number: index of the mutant among those of the module.
        line: line of the change.
        text: a description of the change.
        statement: first and last line of the changed statement, without its body.
    """

    module: str
    number: int
    line: int
    text: str
    statement: tuple[int, int] = (0, 0)


Change = Callable[[], None]


def mutants_of(module: str, source: str) -> list[Mutant]:
    """All changes of a module."""
    tree = ast.parse(source)
    heads = _heads(tree)
    found = enumerate(_changes(tree))
    return [Mutant(module, number, getattr(node, "lineno", 0), text, heads[node]) for number, (node, text, _) in found]


def mutated(source: str, number: int) -> ast.Module:
    """The module with one change."""
    tree = ast.parse(source)
    for position, (_, _, change) in enumerate(_changes(tree)):
        if position == number:
            change()
            return ast.fix_missing_locations(tree)
    raise IndexError(number)


def _heads(tree: ast.Module) -> dict[ast.AST, tuple[int, int]]:
    """For each node the lines of the innermost statement around it: a line inside of an expression may run no code of its own."""
    found: dict[ast.AST, tuple[int, int]] = {tree: (0, 0)}
    for statement in ast.walk(tree):  # outer ones first
        if isinstance(statement, ast.stmt):
            body = getattr(statement, "body", None)
            last = max(statement.lineno, body[0].lineno - 1) if body else statement.end_lineno
            found.update(dict.fromkeys(ast.walk(statement), (statement.lineno, last)))
    return found


def _changes(tree: ast.Module) -> Iterator[tuple[ast.AST, str, Change]]:
    for node in list(ast.walk(tree)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            node.returns = None
        for rule in (_condition, _comparison, _arithmetic, _call, _constant, _logic, _statements):
            for text, change in rule(node):
                yield node, text, change


def _condition(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, (ast.If, ast.IfExp, ast.While)):
        test = node.test
        yield f"negate {ast.unparse(test)}", lambda: setattr(node, "test", ast.UnaryOp(ast.Not(), test))


def _comparison(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Compare) and type(node.ops[0]) in _COMPARED:
        other = _COMPARED[type(node.ops[0])]()
        yield f"{type(other).__name__} in {ast.unparse(node)}", lambda: node.ops.__setitem__(0, other)


def _arithmetic(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC and not _is_text(node):
        other = _ARITHMETIC[type(node.op)]()
        yield f"{type(other).__name__} in {ast.unparse(node)}", lambda: setattr(node, "op", other)


def _is_text(node: ast.BinOp) -> bool:
    return any(isinstance(side, (ast.JoinedStr, ast.List, ast.Tuple)) for side in (node.left, node.right))


def _call(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _CALLED:
        name = node.func
        yield f"{_CALLED[name.id]} for {ast.unparse(node)}", lambda: setattr(name, "id", _CALLED[name.id])


def _constant(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.Constant) and type(node.value) is int:
        yield f"{node.value + 1} for {node.value}", lambda: setattr(node, "value", node.value + 1)
    elif isinstance(node, ast.Constant) and type(node.value) is bool:
        yield f"{not node.value} for {node.value}", lambda: setattr(node, "value", not node.value)


def _logic(node: ast.AST) -> Iterator[tuple[str, Change]]:
    if isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield f"{type(other).__name__} in {ast.unparse(node)}", lambda: setattr(node, "op", other)


def _statements(node: ast.AST) -> Iterator[tuple[str, Change]]:
    """Mutants without one statement: a call, or an assignment to an existing name."""
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if not isinstance(block, list):
            continue
        for position, child in enumerate(block):
            is_call = isinstance(child, ast.Expr) and isinstance(child.value, (ast.Call, ast.Yield, ast.YieldFrom))
            if is_call or isinstance(child, ast.AugAssign):
                drop = ast.Pass(lineno=child.lineno, col_offset=0)
                yield f"drop {ast.unparse(child)}", _replacing(block, position, drop)


def _replacing(block: list[ast.stmt], position: int, statement: ast.stmt) -> Change:
    return lambda: block.__setitem__(position, statement)
