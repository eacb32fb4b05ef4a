"""Which names a block of user code assigns, and which may carry a value from one iteration of a loop to the next.

Tracing runs a loop body once, so a name that an iteration reads before it writes it would silently keep its first value. Both
questions are answered on the syntax tree, conservatively: a name counts as written first only where every path writes it. The
hooks refuse those names that the traced pass does assign.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def _names(target: ast.expr) -> set[str]:
    return {n.id for n in ast.walk(target) if isinstance(n, ast.Name) and isinstance(n.ctx, (ast.Store, ast.Del))}


def _walk(body: Iterable[ast.AST]) -> Iterable[ast.AST]:
    """Every node of this function's own scope."""
    stack = list(body)
    while stack:
        node = stack.pop()
        yield node
        if not isinstance(node, _SCOPES):
            stack.extend(ast.iter_child_nodes(node))


def assigned_names(body: Iterable[ast.stmt]) -> set[str]:
    """Names that assignment statements in ``body`` bind."""
    found: set[str] = set()
    for node in _walk(body):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                found |= _names(target)
        elif isinstance(node, (ast.AugAssign, ast.AnnAssign)):
            found |= _names(node.target)
    return found


def declared_names(body: Iterable[ast.stmt]) -> set[str]:
    """Names that ``body`` annotates without giving them a value: ``A: T.Tensor(...)``."""
    return {
        node.target.id
        for node in _walk(body)
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
    }


def target_names(body: Iterable[ast.stmt], assignments: bool = True, nested: bool = True) -> set[str]:
    """Names that ``body`` binds: by loops, ``with``, imports and definitions, and by assignments.

    Args:
        body: statements of one function.
        assignments: whether assignment statements count.
        nested: whether statements inside the statements of ``body`` count.
    """
    found = assigned_names(body) if assignments else set()
    for node in _walk(body) if nested else body:
        if isinstance(node, (ast.For, ast.AsyncFor)):
            found |= _names(node.target)
        elif isinstance(node, (ast.With, ast.AsyncWith)):
            for item in node.items:
                found |= _names(item.optional_vars) if item.optional_vars else set()
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.NamedExpr):
            found |= _names(node.target)
    return found


def carried_names(loop: ast.For | ast.While) -> dict[str, bool]:
    """Names that an iteration may read before it assigns them, and that the loop assigns; whether all that it reads of one is
    ``name[...]``."""
    walker = _FirstUse()
    if isinstance(loop, ast.While):
        # The test is evaluated before the body of every iteration, so what it reads is read before it is written.
        walker.read(loop.test)
    else:
        walker.written |= _names(loop.target)
    walker.block(loop.body)
    # Only of names that the loop assigns could an iteration read what the one before has left.
    return {name: name not in walker.whole for name in sorted(walker.exposed & assigned_names(loop.body))}


class _FirstUse:
    """Follows the paths through a block and finds names that are read before every path has written them.

    Attributes:
        written: names that every path so far has assigned.
        exposed: names that some path reads before it assigns them.
        whole: those of them that are read other than by a subscript.
    """

    def __init__(self, written: set[str] | None = None, whole: set[str] | None = None):
        self.written = set(written or ())
        self.exposed: set[str] = set()
        self.whole = set() if whole is None else whole

    def read(self, node: ast.AST | None) -> None:
        """An expression is evaluated; of a nested function or class all names count, as it may be called at once."""
        if node is None:
            return
        subscripted = {id(child.value) for child in ast.walk(node) if isinstance(child, ast.Subscript)}
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id not in self.written:
                self.exposed.add(child.id)
                self.whole |= set() if id(child) in subscripted else {child.id}

    def block(self, body: list[ast.stmt]) -> None:
        """Statements run one after the other."""
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: ast.stmt) -> None:
        """A statement runs."""
        # Python's order: what is read before what is written, so that `x = x + 1` reads the value from before.
        if isinstance(stmt, ast.Assign):
            self.read(stmt.value)
            for target in stmt.targets:
                self.read(target)
                self.written |= _names(target)
        elif isinstance(stmt, ast.AugAssign):
            self.read(stmt.value)
            self.read(stmt.target)
            # The syntax tree marks the target of `x += 1` as stored only, so `read` does not count it.
            if isinstance(stmt.target, ast.Name) and stmt.target.id not in self.written:
                self.exposed.add(stmt.target.id)
                self.whole.add(stmt.target.id)
            self.written |= _names(stmt.target)
        elif isinstance(stmt, ast.AnnAssign):
            self.read(stmt.value)
            self.written |= _names(stmt.target) if stmt.value is not None else set()
        elif isinstance(stmt, ast.If):
            self.read(stmt.test)
            self.branches(stmt.body, stmt.orelse)
        elif isinstance(stmt, (ast.For, ast.While)):
            self.read(stmt.iter if isinstance(stmt, ast.For) else stmt.test)
            # The loop may run no iteration: what its body writes is not written after it.
            inner = _FirstUse(self.written | (_names(stmt.target) if isinstance(stmt, ast.For) else set()), self.whole)
            inner.block(stmt.body)
            self.exposed |= inner.exposed
            # A `break` leaves out the `else`, so what it writes is not certain to be written either.
            self.branches(stmt.orelse, [])
        elif isinstance(stmt, ast.With):
            for item in stmt.items:
                self.read(item.context_expr)
                self.written |= _names(item.optional_vars) if item.optional_vars else set()
            self.block(stmt.body)
        else:
            self.read(stmt)

    def branches(self, *bodies: list[ast.stmt]) -> None:
        """One of several blocks runs: a name is written only where all of them write it."""
        outcomes = []
        for body in bodies:
            arm = _FirstUse(self.written, self.whole)
            arm.block(body)
            self.exposed |= arm.exposed
            outcomes.append(arm.written)
        self.written = set.intersection(*outcomes)
