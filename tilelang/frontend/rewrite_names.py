"""How the rewriter treats names: assignments, and the other statements that bind a name (:mod:`tilelang.frontend.rewrite`)."""

from __future__ import annotations

import ast
from typing import Any

from tilelang.errors import Location, UnsupportedSyntaxError
from tilelang.frontend.liveness import bound_by
from tilelang.frontend.syntax import arguments, locate, target_names, unpacked_targets

HOOKS = "__tl__"
SCOPE = "__tl_scope__"

_COMPUTING = frozenset(
    (
        "load mark in_order compare subtract divide power floor_divide modulo builtin slice binary item result moment usable"
        " keyed method items add"
    ).split()
)
"""Hooks that read and compute: they append no statement."""

_DISPLAYS = (ast.Tuple, ast.List)

_UNSUPPORTED = {
    ast.AsyncFor: "async for",
    ast.AsyncWith: "async with",
    ast.AsyncFunctionDef: "async def",
    ast.Await: "await",
    ast.Yield: "yield",
    ast.YieldFrom: "yield from",
    ast.ClassDef: "class",
    ast.Try: "try",
}


def may_act(node: ast.AST) -> bool:
    """Whether a rewritten expression calls something of the author's or of the language, which may be a macro."""
    return any(isinstance(child, ast.Call) and not _is_computing(child.func) for child in ast.walk(node))


def _is_computing(callee: ast.expr) -> bool:
    if not isinstance(callee, ast.Attribute) or not isinstance(callee.value, ast.Name):
        return False
    return callee.value.id == HOOKS and callee.attr in _COMPUTING


def _display(target: ast.expr) -> ast.Tuple | ast.List:
    """A target with those in it, if it is a tuple or list of them."""
    return target if isinstance(target, _DISPLAYS) else ast.Tuple([target], ast.Del())


class NamesRewriter(ast.NodeTransformer):
    """Rewrites assignments and what else binds names; has what every part of the rewriter uses.

    Attributes:
        file: of the function, for the location of an error.
        unpackings: how many unpacking assignments were rewritten; numbers their temporary names.
    """

    def __init__(self, file: str):
        self.file = file
        self.unpackings = 0

    # Building blocks -------------------------------------------------------------------------------------------------

    def hook(self, name: str, *args: ast.expr, at: ast.AST) -> ast.Call:
        """A call of a hook.

        Args:
            name: of the hook.
            args: the arguments, rewritten.
            at: the author's node whose position the call gets.
        """
        call = ast.Call(ast.Attribute(ast.Name(HOOKS, ast.Load()), name, ast.Load()), list(args), [])
        return locate(call, at)

    def scope(self) -> ast.expr:
        return ast.Name(SCOPE, ast.Load())

    def thunk(self, node: ast.expr) -> ast.Lambda:
        """A function without parameters that computes an expression: the hook decides whether, and how often."""
        return locate(ast.Lambda(arguments([]), self.visit(node)), node)

    def unsupported(self, node: ast.stmt | ast.expr, what: str) -> UnsupportedSyntaxError:
        end = (node.end_col_offset or 0) + 1 if node.end_lineno == node.lineno else 0
        return UnsupportedSyntaxError(what, Location(self.file, node.lineno, node.col_offset + 1, end))

    def visit(self, node: ast.AST) -> Any:
        if isinstance(node, (ast.stmt, ast.expr)) and type(node) in _UNSUPPORTED:
            raise self.unsupported(node, _UNSUPPORTED[type(node)])
        return super().visit(node)

    def block(self, body: list[ast.stmt]) -> list[ast.stmt]:
        out: list[ast.stmt] = []
        for stmt in body:
            result = self.visit(stmt)
            out.extend(result if isinstance(result, list) else [result])
        return out or [ast.Pass()]

    def key(self, node: ast.expr) -> ast.expr:
        """A subscript's key as an ordinary expression."""
        if isinstance(node, ast.Slice):
            parts: list[ast.expr] = [self.visit(p) if p else ast.Constant(None) for p in (node.lower, node.upper, node.step)]
            return self.hook("slice", *self.read_before(parts), at=node)
        if isinstance(node, ast.Tuple):
            return locate(ast.Tuple(self.read_before([*map(self.key, node.elts)]), ast.Load()), node)
        return self.visit(node)

    def in_order(self, operands: list[ast.expr], at: ast.AST) -> list[ast.expr]:
        """Rewritten operands, as arguments of a call; where one may act, what those before it read is read before."""
        if not any(map(may_act, operands[1:])):
            return operands
        marked = [part for operand in operands for part in (operand, self.hook("mark", at=at))]
        return [locate(ast.Starred(self.hook("in_order", *marked[:-1], at=at), ast.Load()), at)]

    def item_read(self, node: ast.expr) -> ast.expr:
        """A rewritten item, argument or value of an assignment; a variable from before, which it names or gives, is read now."""
        if isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Load):
            return self.hook("item", node, at=node)
        if isinstance(node, ast.Call) and not _is_computing(node.func):
            return self.hook("result", self.hook("moment", at=node), node, at=node)
        return node

    def read_before(self, operands: list[ast.expr]) -> list[ast.expr]:
        """Rewritten operands of which some may act; variables that names hold are read before, and stay places."""
        return [*map(self.item_read, operands)] if any(map(may_act, operands[1:])) else operands

    # Assignments -----------------------------------------------------------------------------------------------------

    def visit_Assign(self, node: ast.Assign) -> Any:
        # a = b = value computes the value once, and assigns from left to right.
        if len(node.targets) == 1:
            unpacks = isinstance(node.targets[0], _DISPLAYS) and isinstance(node.value, _DISPLAYS)
            # The items of `a, b = x, y` are ordered after they have got their names.
            value: Any = self.generic_visit(node.value) if unpacks else self.item_read(self.visit(node.value))
            if unpacks:
                value.elts = [*map(self.item_read, value.elts)]
            return self.assign(node.targets[0], value, node)
        value = ast.Name("__tl_value__", ast.Store())
        out = [locate(ast.Assign([value], self.hook("keep", self.visit(node.value), at=node)), node)]
        for target in node.targets:
            made = self.assign(target, ast.Name("__tl_value__", ast.Load()), node)
            out.extend(made if isinstance(made, list) else [made])
        return [locate(stmt, node) for stmt in out]

    def assign(self, target: ast.expr, value: ast.expr, node: ast.AST) -> Any:
        """``target = value`` of an expression that has been rewritten already; a statement or a list of them.

        Args:
            target: what is assigned to, as in the author's text.
            value: the rewritten right-hand side.
            node: the statement, whose position the new ones get.
        """
        if isinstance(target, ast.Name):
            name = ast.Constant(target.id)
            call = self.hook("assign", self.scope(), self.hook("naming", name, at=node), value, at=node)
            return locate(ast.Assign([target], call), node)
        if isinstance(target, (ast.Tuple, ast.List)):
            return self.assign_items(target, value, node)
        if isinstance(target, ast.Subscript):
            # Python computes the value before the place.
            call = self.hook("store", *self.in_order([value, self.visit(target.value), self.key(target.slice)], node), at=node)
            return locate(ast.Expr(call), node)
        assert isinstance(target, ast.Attribute)
        call = self.hook("store_attribute", value, self.visit(target.value), ast.Constant(target.attr), at=node)
        return locate(ast.Expr(call), node)

    def assign_items(self, target: ast.Tuple | ast.List, value: ast.expr, node: ast.AST) -> list[ast.stmt]:
        """``a, b = value``: all items are computed into a temporary, then assigned one by one.

        Args:
            target: the targets, as in the author's text.
            value: the rewritten right-hand side.
            node: the statement, whose position the new ones get.
        """
        self.unpackings += 1
        items = f"__tl_items_{self.unpackings}__"
        value = self.named_items(target.elts, value, node)
        unpacked = self.hook("unpack", self.hook("moment", at=node), target_names(target), value, at=node)
        out = [locate(ast.Assign([ast.Name(items, ast.Store())], unpacked), node)]
        for position, item in enumerate(unpacked_targets(target)):
            part = ast.Subscript(ast.Name(items, ast.Load()), ast.Constant(position), ast.Load())
            made = self.assign(item.value if isinstance(item, ast.Starred) else item, locate(part, node), node)
            out.extend(made if isinstance(made, list) else [made])
        return out

    def named_items(self, targets: list[ast.expr], value: ast.expr, node: ast.AST) -> ast.expr:
        """``x, y`` of ``a, b = x, y`` with each item computed under the name that it will get.

        Args:
            targets: the targets.
            value: the rewritten right-hand side.
            node: the statement, whose position the new calls get.
        """
        if not isinstance(value, (ast.Tuple, ast.List)) or len(value.elts) != len(targets):
            return value
        if any(isinstance(item, ast.Starred) for item in (*targets, *value.elts)):
            return value
        items = [
            self.hook("named", self.hook("naming", ast.Constant(target.id), at=node), item, at=node)
            if isinstance(target, ast.Name)
            else item
            for target, item in zip(targets, value.elts)
        ]
        return locate(type(value)(self.in_order(items, node), ast.Load()), node)

    def visit_AugAssign(self, node: ast.AugAssign) -> Any:
        operator_name = ast.Constant(type(node.op).__name__)
        value = self.visit(node.value)
        if isinstance(node.target, ast.Name):
            load = locate(ast.Name(node.target.id, ast.Load()), node)
            name = ast.Constant(node.target.id)
            operands = self.in_order([load, value], node)
            call = self.hook("augment", self.scope(), name, operator_name, *operands, at=node)
            return locate(ast.Assign([node.target], call), node)
        if isinstance(node.target, ast.Subscript):
            target = self.visit(node.target.value)
            call = self.hook(
                "augment_item", target, self.key(node.target.slice), operator_name, self.hook("mark", at=node), value, at=node
            )
            return locate(ast.Expr(call), node)
        target, name = self.visit(node.target.value), ast.Constant(node.target.attr)
        call = self.hook("augment_attribute", target, name, operator_name, self.hook("mark", at=node), value, at=node)
        return locate(ast.Expr(call), node)

    def visit_Delete(self, node: ast.Delete) -> Any:
        return [self.deletion(target, node) for listed in node.targets for target in unpacked_targets(_display(listed))]

    def deletion(self, target: ast.expr, node: ast.Delete) -> ast.stmt:
        """``del target`` of a name, an item or an attribute."""
        if isinstance(target, ast.Subscript):
            call = self.hook("delete_item", self.visit(target.value), self.key(target.slice), at=node)
            return locate(ast.Expr(call), node)
        if isinstance(target, ast.Attribute):
            call = self.hook("delete_attribute", self.visit(target.value), ast.Constant(target.attr), at=node)
            return locate(ast.Expr(call), node)
        return locate(ast.Delete([target]), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if node.value is not None:
            return self.assign(node.target, self.visit(node.value), node)
        if not isinstance(node.target, ast.Name):
            raise self.unsupported(node, "an annotation without a value on this target")
        load = locate(ast.Name(node.target.id, ast.Load()), node)
        annotation = self.visit(node.annotation)
        call = self.hook("declare", self.scope(), ast.Constant(node.target.id), self.thunk_of_name(load), annotation, at=node)
        return locate(ast.Assign([node.target], call), node)

    def thunk_of_name(self, load: ast.expr) -> ast.expr:
        return locate(ast.Lambda(arguments([]), load), load)

    # Other statements that bind names ---------------------------------------------------------------------------------

    def bindings(self, names: set[str], node: ast.AST, hook: str = "bound") -> list[ast.stmt]:
        """Statements that report ``names``, which Python has bound, to a hook.

        Args:
            names: bound by Python.
            node: whose position the statements get.
            hook: the hook that each is reported to.
        """

        def report(name: str) -> ast.stmt:
            call = self.hook(hook, self.scope(), ast.Constant(name), ast.Name(name, ast.Load()), at=node)
            return locate(ast.Assign([ast.Name(name, ast.Store())], call), node)

        return [*map(report, sorted(names))]

    def visit_Import(self, node: ast.Import | ast.ImportFrom) -> Any:
        return [node, *self.bindings(bound_by(node), node)]

    visit_ImportFrom = visit_Import

    def visit_match_case(self, node: ast.match_case) -> Any:
        names = bound_by(node)
        self.generic_visit(node)
        node.body[:0] = self.bindings(names, node.pattern, "captured")
        return node
