"""Which names a block of user code assigns, and which may carry a value from one iteration of a loop to the next.

Tracing runs a loop body once, so a name that an iteration reads before it writes it would silently keep its first value. Both
questions are answered on the syntax tree, conservatively: a name counts as written first only where every path writes it. The
hooks refuse those names that the traced pass does assign.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import IntFlag


class Reads(IntFlag):
    """What is known of an iteration's reads of a name that it may make before it assigns the name."""

    ANY = 0
    ELEMENTS = 1
    """All are ``name[...]``."""
    EARLIER_ARMS = 2
    """All are in arms of an ``if`` that come before those that assign the name: no run of the body does both."""


_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

_SKIPPED_FROM: Mapping[type[ast.AST], int] = {ast.BoolOp: 2, ast.IfExp: 1}
"""Nodes of which Python may leave out children -> the first of these; the first child of ``and`` and ``or`` is the operator."""


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


def bound_names(body: Iterable[ast.AST], known: dict[ast.AST, set[str]] | None = None) -> set[str]:
    """Names that statements in ``body`` bind, in whatever way.

    Args:
        body: the statements, or expressions.
        known: statements -> their names, filled here: who asks for a block and then for those inside of it looks into each once.
    """
    known = {} if known is None else known
    return {name for node in body for name in _bound_in(node, known)}


def _bound_in(node: ast.AST, known: dict[ast.AST, set[str]]) -> set[str]:
    found = known.get(node)
    if found is None:
        found = bound_by(node)
        if not isinstance(node, _SCOPES):
            found |= bound_names(ast.iter_child_nodes(node), known)
        if isinstance(node, ast.stmt):
            known[node] = found
    return found


def bound_by(node: ast.AST) -> set[str]:
    """Names that ``node`` itself binds, and not the statements in it: an assignment, a loop, a definition, a capture, …"""
    if isinstance(node, ast.Assign):
        return {name for target in node.targets for name in _names(target)}
    if isinstance(node, (ast.AugAssign, ast.AnnAssign, ast.NamedExpr, ast.For, ast.AsyncFor)):
        return _names(node.target)
    if isinstance(node, (ast.With, ast.AsyncWith)):
        return {name for item in node.items if item.optional_vars for name in _names(item.optional_vars)}
    if isinstance(node, (ast.Import, ast.ImportFrom)):
        return {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        return {node.name}
    if isinstance(node, ast.match_case):
        return {name for part in ast.walk(node.pattern) if (name := getattr(part, "rest", getattr(part, "name", None)))}
    return set()


def _own_names(scope: ast.AST) -> set[str]:
    """Names that a function binds or takes, and the targets of a comprehension."""
    if isinstance(scope, _COMPREHENSIONS):
        return {name for generator in scope.generators for name in _names(generator.target)}
    taken = {node.arg for node in ast.walk(scope) if isinstance(node, ast.arg)}
    return taken | bound_names(scope.body) if isinstance(scope, ast.FunctionDef) else taken


def declared_names(body: Iterable[ast.stmt]) -> set[str]:
    """Names that ``body`` annotates without giving them a value: ``A: T.Tensor(...)``."""
    return {
        node.target.id
        for node in _walk(body)
        if isinstance(node, ast.AnnAssign) and node.value is None and isinstance(node.target, ast.Name)
    }


def captured_names(function: ast.FunctionDef) -> frozenset[str]:
    """Names of ``function``, or from around it, that functions in it read when they are called."""
    inner = [node for node in ast.walk(function) if isinstance(node, (ast.FunctionDef, ast.Lambda)) and node is not function]
    return frozenset(name for node in inner for name in _loaded(node) - _own_names(node))


def _loaded(node: ast.AST) -> set[str]:
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Load)}


def carried_names(loop: ast.For | ast.While, captured: frozenset[str] = frozenset()) -> dict[str, Reads]:
    """Names that an iteration may read before it assigns them, and that the loop assigns; and what is known of these reads.

    Args:
        loop: the loop, as in the author's text.
        captured: names that a call may read, see :func:`captured_names`.
    """
    walker = _FirstUse(captured=captured)
    if isinstance(loop, ast.While):
        # The test is evaluated before the body of every iteration, so what it reads is read before it is written.
        walker.read(loop.test)
    else:
        walker.written |= _names(loop.target)
    walker.block(loop.body)
    # Only of names that the loop assigns could an iteration read what the one before has left.
    parts = [*loop.body, *([loop.test] if isinstance(loop, ast.While) else [])]
    names = sorted(walker.exposed & bound_names(parts))
    places = {id(name): (name, arms) for name, arms in _places(loop.body, ())} if names else {}

    def known(name: str) -> Reads:
        stores = [arms for node, arms in places.values() if node.id == name and not isinstance(node.ctx, ast.Load)]
        reads = [places[id(node)][1] if id(node) in places else () for node in walker.reads if node.id == name]
        in_earlier_arms = all(_is_earlier_arm(read, store) for read in reads for store in stores)
        if name in walker.called:
            return Reads.ANY
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


def _is_of_language(callee: ast.expr) -> bool:
    """Whether a call is one of ``T.name(...)``, or of a builtin, which call no function of the author's."""
    if isinstance(callee, ast.Attribute):
        return isinstance(callee.value, ast.Name) and callee.value.id == "T"
    return isinstance(callee, ast.Name) and callee.id in ("range", "len", "enumerate", "zip", "abs")


class _FirstUse:
    """Follows the paths through a block and finds names that are read before every path has written them.

    Attributes:
        written: names that every path so far has assigned.
        exposed: names that some path reads before it assigns them.
        whole: those of them that are read other than by a subscript.
        reads: where they are read so.
        captured: names that a call may read.
        called: those that a call may read before every path has assigned them.
    """

    def __init__(self, outer: _FirstUse | None = None, written: Iterable[str] = (), captured: frozenset[str] = frozenset()):
        self.written = {*(outer.written if outer is not None else ()), *written}
        self.exposed: set[str] = set()
        self.whole: set[str] = set() if outer is None else outer.whole
        self.reads: list[ast.Name] = [] if outer is None else outer.reads
        self.captured = captured if outer is None else outer.captured
        self.called: set[str] = set() if outer is None else outer.called

    def read(self, node: ast.AST | None, is_subscripted: bool = False) -> None:
        """An expression is evaluated; of a nested function or class all names count, as it may be called at once.

        Args:
            node: the expression.
            is_subscripted: whether it is what a subscript takes an element of.
        """
        if node is None:
            return
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in self.written:
            self.exposed.add(node.id)
            self.reads.append(node)
            self.whole |= set() if is_subscripted else {node.id}
        if isinstance(node, (*_SCOPES, *_COMPREHENSIONS)):
            self.inner(node)
            return
        for position, child in enumerate(ast.iter_child_nodes(node)):
            written = set(self.written)
            self.read(child, isinstance(node, ast.Subscript) and position == 0)
            # What `:=` binds in a part that Python may skip is not certain to be bound.
            if position >= _SKIPPED_FROM.get(type(node), position + 1):
                self.written = written
        if isinstance(node, ast.NamedExpr):
            self.written |= bound_by(node)
        if isinstance(node, ast.Call) and not _is_of_language(node.func):
            self.called |= self.captured - self.written
            self.exposed |= self.captured - self.written

    def inner(self, scope: ast.AST) -> None:
        """A function, class or comprehension, which has names of its own."""
        signature = getattr(scope, "args", None)
        if isinstance(signature, ast.arguments):
            # Defaults are evaluated around the function: `lambda k=k: k`.
            for default in (*signature.defaults, *signature.kw_defaults):
                self.read(default)
        around = set(self.written)
        self.written |= _own_names(scope)
        for child in ast.iter_child_nodes(scope):
            if child is not signature:
                self.read(child)
        self.written = around

    def block(self, body: Sequence[ast.stmt | ast.match_case]) -> None:
        """Statements run one after the other."""
        for stmt in body:
            self.statement(stmt)

    def statement(self, stmt: ast.stmt | ast.match_case) -> None:
        """A statement runs, or a case of a ``match``."""
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
        elif isinstance(stmt, ast.Match):
            self.read(stmt.subject)
            self.branches(*([case] for case in stmt.cases), [])
        elif isinstance(stmt, ast.match_case):
            self.written |= bound_by(stmt)
            self.read(stmt.guard)
            self.block(stmt.body)
        elif isinstance(stmt, (ast.FunctionDef, ast.ClassDef)):
            # Its own name is bound when its body is called.
            self.written |= bound_by(stmt)
            self.read(stmt)
        else:
            self.read(stmt)
            self.written |= bound_by(stmt)

    def branches(self, *bodies: Sequence[ast.stmt | ast.match_case]) -> None:
        """One of several blocks runs: a name is written only where all of them write it."""
        outcomes = []
        for body in bodies:
            arm = _FirstUse(self)
            arm.block(body)
            self.exposed |= arm.exposed
            outcomes.append(arm.written)
        self.written = set.intersection(*outcomes)
