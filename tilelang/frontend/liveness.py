"""Which names a block of user code assigns, and which may carry a value from one iteration of a loop to the next.

Tracing runs a loop body once, so a name that an iteration reads before it writes it would silently keep its first value. Both
questions are answered on the syntax tree, conservatively: a name counts as written first only where every path writes it. The
hooks refuse those names that the traced pass does assign.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from enum import IntFlag


class Reads(IntFlag):
    """What is known of an iteration's reads of a name that it may make before it assigns the name."""

    ANY = 0
    ELEMENTS = 1
    """All are ``name[...]``."""
    EARLIER_ARMS = 2
    """All are in arms of an ``if`` that come before those that assign the name: no run of the body does both."""


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


def carried_names(loop: ast.For | ast.While) -> dict[str, Reads]:
    """Names that an iteration may read before it assigns them, and that the loop assigns; and what is known of these reads."""
    walker = _FirstUse()
    if isinstance(loop, ast.While):
        # The test is evaluated before the body of every iteration, so what it reads is read before it is written.
        walker.read(loop.test)
    else:
        walker.written |= _names(loop.target)
    walker.block(loop.body)
    # Only of names that the loop assigns could an iteration read what the one before has left.
    names = sorted(walker.exposed & assigned_names(loop.body))
    places = {id(name): (name, arms) for name, arms in _places(loop.body, ())} if names else {}

    def known(name: str) -> Reads:
        stores = [arms for node, arms in places.values() if node.id == name and not isinstance(node.ctx, ast.Load)]
        reads = [places[id(node)][1] if id(node) in places else () for node in walker.reads if node.id == name]
        in_earlier_arms = all(_is_earlier_arm(read, store) for read in reads for store in stores)
        elements = Reads.ANY if name in walker.whole else Reads.ELEMENTS
        return elements | (Reads.EARLIER_ARMS if in_earlier_arms else Reads.ANY)

    return {name: known(name) for name in names}


_Arms = tuple[tuple[ast.If, int], ...]
"""The ``if`` statements around a name, outermost first, with the arm of each in which it stands."""


def _places(nodes: Iterable[ast.AST], arms: _Arms) -> Iterator[tuple[ast.Name, _Arms]]:
    for node in nodes:
        if isinstance(node, ast.Name):
            yield node, arms
        elif isinstance(node, ast.If):
            yield from _places([node.test], arms)
            yield from _places(node.body, (*arms, (node, 0)))
            yield from _places(node.orelse, (*arms, (node, 1)))
        else:
            yield from _places(ast.iter_child_nodes(node), arms)


def _is_earlier_arm(one: _Arms, other: _Arms) -> bool:
    """Whether ``one`` is in an arm of an ``if`` that has ``other`` in a later one."""
    for (condition, arm), (same_condition, later) in zip(one, other):
        if condition is not same_condition:
            return False
        if arm != later:
            return arm < later
    return False


class _FirstUse:
    """Follows the paths through a block and finds names that are read before every path has written them.

    Attributes:
        written: names that every path so far has assigned.
        exposed: names that some path reads before it assigns them.
        whole: those of them that are read other than by a subscript.
        reads: where they are read so.
    """

    def __init__(self, outer: _FirstUse | None = None, written: Iterable[str] = ()):
        self.written = {*(outer.written if outer is not None else ()), *written}
        self.exposed: set[str] = set()
        self.whole: set[str] = set() if outer is None else outer.whole
        self.reads: list[ast.Name] = [] if outer is None else outer.reads

    def read(self, node: ast.AST | None) -> None:
        """An expression is evaluated; of a nested function or class all names count, as it may be called at once."""
        if node is None:
            return
        subscripted = {id(child.value) for child in ast.walk(node) if isinstance(child, ast.Subscript)}
        for child in ast.walk(node):
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Load) and child.id not in self.written:
                self.exposed.add(child.id)
                self.reads.append(child)
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
                self.reads.append(stmt.target)
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
            inner = _FirstUse(self, _names(stmt.target) if isinstance(stmt, ast.For) else ())
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
            arm = _FirstUse(self)
            arm.block(body)
            self.exposed |= arm.exposed
            outcomes.append(arm.written)
        self.written = set.intersection(*outcomes)
