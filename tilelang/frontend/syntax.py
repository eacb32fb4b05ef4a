"""Building blocks for rewriting syntax trees, and questions that the rewriter asks about single nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import Any


def locate(node: Any, origin: ast.AST) -> Any:
    """Gives ``node`` and its new descendants the position of ``origin``; those that have one keep it."""
    new = [node]
    while new:
        child = new.pop()
        if "lineno" in child._attributes:
            # Below a node that has its position all have theirs: walks through them would take time by the depth of the text.
            if hasattr(child, "lineno"):
                continue
            ast.copy_location(child, origin)
        new += ast.iter_child_nodes(child)
    return node


def arguments(names: list[str]) -> ast.arguments:
    """The parameters of a function that takes ``names`` by position."""
    return ast.arguments([], [ast.arg(name) for name in names], None, [], [], None, [])


def strings(texts: Iterable[str]) -> ast.Tuple:
    """A tuple of string constants."""
    return ast.Tuple([ast.Constant(text) for text in texts], ast.Load())


def flags(values: Mapping[str, int]) -> ast.Dict:
    """A dictionary of constants."""
    return ast.Dict([ast.Constant(name) for name in values], [ast.Constant(int(value)) for value in values.values()])


def complete(definition: ast.FunctionDef) -> ast.FunctionDef:
    """A new definition with the field that Python 3.12 has added."""
    if "type_params" in ast.FunctionDef._fields:
        definition.type_params = []  # pyright: ignore[reportAttributeAccessIssue] - declared for newer versions only
    return definition


def target_name(target: ast.expr) -> str:
    """The name that an assignment to ``target`` gives its value; a star is kept."""
    if isinstance(target, ast.Starred):
        return "*" + target_name(target.value)
    return target.id if isinstance(target, ast.Name) else "item"


def target_names(targets: ast.Tuple | ast.List) -> ast.Tuple:
    """The names of the targets of an unpacking assignment; those of a target that is unpacked itself are a tuple."""
    names: list[ast.expr] = [
        target_names(target) if isinstance(target, (ast.Tuple, ast.List)) else ast.Constant(target_name(target))
        for target in targets.elts
    ]
    return ast.Tuple(names, ast.Load())


def unpacked_targets(targets: ast.Tuple | ast.List) -> Iterator[ast.expr]:
    """The targets of an unpacking assignment in order, also those of a target that is unpacked itself."""
    for target in targets.elts:
        yield from unpacked_targets(target) if isinstance(target, (ast.Tuple, ast.List)) else [target]


def has_walrus(node: ast.AST) -> bool:
    """Whether a node contains ``name := value``."""
    return any(isinstance(child, ast.NamedExpr) for child in ast.walk(node))


def leaves(loop: ast.For | ast.While) -> bool:
    """Whether a ``break`` in the body of ``loop`` leaves it: one that is not of a loop or function inside."""
    stack: list[ast.AST] = list(loop.body)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Break):
            return True
        if isinstance(node, (ast.For, ast.While)):
            stack.extend(node.orelse)
        elif not isinstance(node, (ast.FunctionDef, ast.Lambda, ast.ClassDef)):
            stack.extend(ast.iter_child_nodes(node))
    return False


_LOOPS = frozenset("serial Serial unroll Unroll vectorized Vectorized Parallel parallel Pipelined Persistent grid".split())


def while_test(node: ast.With) -> ast.expr | None:
    """The condition of ``with T.While(condition)``, which each pass computes; None for any other ``with``."""
    call = node.items[0].context_expr
    if len(node.items) > 1 or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    return values[0] if call.func.attr == "While" and len(values) == 1 else None


def entered_loop(node: ast.With) -> ast.For | None:
    """``for i in T.serial(n)`` of ``with T.serial(n) as i``, which TVM's scripts may write; None for any other ``with``."""
    call, target = node.items[0].context_expr, node.items[0].optional_vars
    if len(node.items) > 1 or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    if not isinstance(call.func.value, ast.Name) or call.func.attr not in _LOOPS:
        return None
    return ast.For(ast.Name("__tl_unused__", ast.Store()) if target is None else target, call, node.body, [], None)


def operands_of_condition(node: ast.expr) -> Iterator[ast.expr]:
    """The ``and`` and ``or`` of a condition of which, as of the condition, only the truth is used."""
    if isinstance(node, ast.BoolOp):
        yield node
        for value in node.values:
            yield from operands_of_condition(value)
