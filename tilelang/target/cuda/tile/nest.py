"""Nests: perfect loops over the elements of tiles, which the threads of a block share.

``T.Parallel`` is one, and so are copies, fills and element-wise atomics once they are written as loops. A nest knows its axes,
its body, and every buffer access in it; layout inference and emission need nothing else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.access import ADDRESS, READ, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_declared_fragment, is_memory, is_variable
from tilelang.ir.visit import (
    children,
    computed_from,
    is_choice,
    mentions,
    operands,
    own_expressions,
    statement_exprs,
    walk,
    walk_expr,
)
from tilelang.layout.digits import Form, NotMixedRadix
from tilelang.records import Record
from tilelang.target.cuda.intrinsics.table import intrinsic, names_threads
from tilelang.target.cuda.ir.access import Access, Site
from tilelang.target.cuda.operators import rule_of
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.carried import carried
from tilelang.transform.substitute import substitute


class Axis(Record, eq=False):
    """One loop of a nest.

    Attributes:
        var: in ``range(extent)``.
        extent: its length; 0 where that is not bounded.
        limit: cuts it off earlier at run time.
        within_thread: whether its iterations, for fixed values of the other axes, must be run by one thread.
    """

    var: Any
    extent: int
    limit: Any = None
    within_thread: bool = False


class Nest(Record, eq=False):
    """A nest.

    Attributes:
        axes: loops, outermost first.
        body: the statement of one iteration.
        span: of the statement that the nest came from.
        origin: what the user wrote: ``"T.Parallel"``, ``"T.copy"`` …
        vector: width of a vector access that the user fixed.
        layout: canonical text of the loop's layout that the user fixed.
        of_fragments: whether the program's loop uses a fragment, which may have become a shared tile since.
    """

    axes: tuple[Axis, ...]
    body: Any
    span: Any
    origin: str
    vector: int | None = None
    layout: str | None = None
    accesses: tuple[Access, ...] = field(default=())
    of_fragments: bool = False

    @staticmethod
    def build(axes: tuple[Axis, ...], body: Any, span: Any, origin: str, **more: Any) -> Nest:
        """A nest with the accesses of its body; ``more`` are further fields."""
        accesses = accesses_in(body)
        used = more.pop("of_fragments", False) or any(is_declared_fragment(access.buffer) for access in accesses)
        return Nest(axes, body, span, origin, accesses=accesses, of_fragments=used, **more)

    def over(self, body: Any, axes: tuple[Axis, ...] | None = None) -> Nest:
        """The same nest with another body, or other axes."""
        axes = self.axes if axes is None else axes
        more = {"vector": self.vector, "layout": self.layout, "of_fragments": self.of_fragments}
        return Nest.build(axes, body, self.span, self.origin, **more)

    def renamed(self, buffers: Mapping[Any, Any]) -> Nest:
        """The same nest on other buffers; indices that do not mention them stay the same objects."""
        body = substitute(self.body, buffers)
        if any(buffer in buffers for access in self.accesses for buffer in access.site.loaded):
            return self.over(body)
        changed = (replace(a, buffer=buffers[a.buffer]) if a.buffer in buffers else a for a in self.accesses)
        return replace(self, body=body, accesses=tuple(changed))

    def moves(self, access: Access, place: int) -> bool:
        """Whether an index of an access mentions an axis, by its place."""
        return self.axes[place].var in access.site.variables

    def fills(self, access: Access) -> bool:
        """Whether an access, by all iterations, writes every element of its buffer."""
        if access.kind != WRITE or access.site.conditional:
            return False
        # An axis with a run-time limit may end before the tile does.
        extents = {axis.var: axis.extent for axis in self.axes if axis.limit is None}
        indices, sizes = access.site.indices, map(as_int, access.buffer.shape)
        # Each index its own variable: tile[i, i] = 0 writes the diagonal only.
        distinct = len(set(indices)) == len(indices)
        return distinct and all(isinstance(index, ir.Var) and extents.get(index) == size for index, size in zip(indices, sizes))

    @cached_property
    def named(self) -> frozenset[Any]:
        """The variables, and the buffers, of the expressions that the body evaluates."""
        return frozenset(part for expr in evaluated(self.body) for part in walk_expr(expr) if isinstance(part, ir.Var))

    @cached_property
    def moved(self) -> frozenset[Any]:
        """The variables whose values depend on the axes: the axes' own, and variables of the body that are computed from them."""
        return frozenset(computed_from((axis.var for axis in self.axes if axis.extent != 1), self.body))

    @cached_property
    def carried(self) -> frozenset[Any]:
        """The variables and arrays that its iterations carry, as far as they are not views."""
        return frozenset(carried(self.body, (axis.var for axis in self.axes)))

    @cached_property
    def names_threads(self) -> bool:
        """Whether the body has an intrinsic whose value may differ between threads."""
        return any(names_threads(part) for expr in evaluated(self.body) for part in walk_expr(expr))


def evaluated(stmt: Any) -> Iterator[Any]:
    """Every expression that a statement and those inside it evaluate, without the places that they store to."""
    for each in walk(stmt):
        yield from (*each.indices, each.value) if isinstance(each, ir.BufferStore) else statement_exprs(each)


def accesses_in(stmt: Any) -> tuple[Access, ...]:
    """What a statement of the IR, and those inside it, access: elements in their expressions, and operands of tile operators."""
    collector = _Collector()
    collector.stmt(stmt, False)
    return tuple(collector.found)


def operand_accesses(op: Any) -> Iterator[Access]:
    """What a tile operator does to its regions."""
    for region, access in op.regions():
        for kind in (READ,) * ("r" in access) + (WRITE,) * ("w" in access):
            fills = kind == WRITE and region is rule_of(op).overwritten(op)
            yield Access(region.buffer, kind, site=Site(tuple(region.mins), tuple(region.extents), fills))


def handed_on(stmt: Any) -> set[Any]:
    """Buffers whose pointer a call of a statement gets: it may do anything with them."""
    calls = (part for part in own_expressions(stmt) if isinstance(part, ir.Call))
    return {arg for call in calls for arg in call.args if isinstance(arg, ir.Var) and ir.is_buffer_var(arg)}


def given_to_calls(stmt: Any) -> set[Any]:
    """Buffers that calls of a statement may write, in addition to its accesses.

    They are those handed on, and those of which an intrinsic with an effect gets an element, which may be a place.
    """
    found = handed_on(stmt)
    for call in own_expressions(stmt):
        known = intrinsic(call)
        if known is not None and not known.pure and known.place is None:
            found |= {arg.source for arg in call.args if isinstance(arg, ir.TensorLoad)}
    return found


def taken_with_neighbours(stmt: Any) -> set[Any]:
    """Buffers of whose elements calls of a statement take the next ones in memory, too."""
    wide = (call for call in own_expressions(stmt) if (known := intrinsic(call)) is not None and known.lanes > 1)
    return {arg.source for call in wide for arg in call.args if isinstance(arg, ir.TensorLoad)}


def reached_from(stmt: Any) -> dict[Any, int | None]:
    """Buffers of whose elements calls of a statement get the place -> how many they go on to from there, if that is known."""
    found: dict[Any, int | None] = dict.fromkeys(handed_on(stmt))
    for call in own_expressions(stmt):
        known = intrinsic(call)
        is_place = (
            known is None and isinstance(call, ir.Call) and isinstance(call.op, ir.Op) and call.op.name.endswith(".address_of")
        )
        for arg in call.args if is_place or known is not None else ():
            if isinstance(arg, ir.TensorLoad):
                reach = None if known is None else known.reach(call, canonical(str(arg.ty)))
                if reach != 1:
                    found[arg.source] = reach if found.get(arg.source, reach) == reach else None
    return found


def writes_in(stmt: Any) -> Counter[Any]:
    """How often a statement of the IR, and those inside it, may write each buffer."""
    found = Counter(access.buffer for access in accesses_in(stmt) if access.writes)
    found.update(buffer for each in walk(stmt) for buffer in given_to_calls(each))
    return found


class _Collector:
    """Finds the accesses of a statement in program order."""

    def __init__(self) -> None:
        self.found: list[Access] = []
        self.step = 0
        self.inner: set[Any] = set()
        self.unused: Any = None  # the call that the statement is, whose value goes nowhere

    def stmt(self, node: Any, conditional: bool) -> None:
        repeats = isinstance(node, (ir.For, ir.While))
        begin, first = len(self.found), self.step
        if isinstance(node, ir.BufferStore):
            for expr in (*node.indices, node.value):
                self.expr(expr, conditional)
            self.add(node.buffer, node.indices, WRITE, conditional)
        elif not isinstance(node, ir.AssertStmt):
            self.unused = node.value if isinstance(node, ir.Evaluate) else None
            for expr in statement_exprs(node):
                self.expr(expr, conditional or isinstance(node, ir.While))
        if isinstance(node, (ir.For, ir.Bind)):
            self.inner.add(node.loop_var if repeats else node.var)
        self.step += isinstance(node, (ir.BufferStore, ir.Evaluate))
        for child in children(node):
            self.stmt(child, conditional or repeats or isinstance(node, ir.IfThenElse))
        if repeats:
            # A later iteration reads after every store of the loop: its stores count as made at its beginning, its reads at
            # its end.
            steps = ((each, first if each.writes else self.step) for each in self.found[begin:])
            self.found[begin:] = [replace(each, site=replace(each.site, step=step)) for each, step in steps]

    def expr(self, node: Any, conditional: bool) -> None:
        if isinstance(node, ir.TensorLoad):
            for index in node.indices:
                self.expr(index, conditional)
            self.add(node.source, node.indices, READ, conditional)
            return
        if isinstance(node, ir.Call):
            self.call(node, conditional)
            return
        if isinstance(node, ir.Select):
            self.expr(node.condition, conditional)
            # Only one side is evaluated, so an access in it may not happen: reading it ahead might leave the tensor.
            self.expr(node.true_value, True)
            self.expr(node.false_value, True)
            return
        for child in operands(node):
            if not isinstance(child, ir.Var):
                self.expr(child, conditional)

    def call(self, node: Any, conditional: bool) -> None:
        if is_tile_op(node):
            self.found += operand_accesses(decode(node))
            return
        known = intrinsic(node)
        op = node.op.name if isinstance(node.op, ir.Op) else ""
        arguments = list(node.args)
        kind = known.place if known is not None else ADDRESS if op.endswith(".address_of") else None
        if kind is not None and isinstance(arguments[0], ir.TensorLoad):
            target = arguments.pop(0)
            for index in target.indices:
                self.expr(index, conditional)
            self.add(target.source, target.indices, kind, conditional, self.operation(node, known))
        # The condition is always evaluated, the two values only where they are chosen.
        lazily = is_choice(node)
        for position, argument in enumerate(arguments):
            if isinstance(argument, ir.PrimExpr) and not isinstance(argument, ir.Var):
                self.expr(argument, conditional or (lazily and position > 0))

    def operation(self, node: Any, known: Any) -> str:
        """The operation that others like it may come before or after; none where the old value is used, which tells the order."""
        operation = "" if known is None else known.commutes
        return operation if operation == "load" or node.same_as(self.unused) else ""

    def add(self, buffer: Any, indices: Any, kind: str, conditional: bool, operation: str = "") -> None:
        indices = tuple(indices)
        local_index = any(mentions(index, self.inner) for index in indices)
        loaded = tuple(part.source for index in indices for part in walk_expr(index) if isinstance(part, ir.TensorLoad))
        site = Site(indices, None, False, conditional, local_index, loaded, self.step)
        self.found.append(Access(buffer, kind, operation=operation, site=site))


def is_movable(access: Access, nest: Nest, root: Callable[[Any], Any]) -> bool:
    """Whether an access may be made ahead of the body: its index is then the same."""
    changed = {root(other.buffer) for other in nest.accesses if other.kind != READ}
    known = all((is_memory(buffer) or is_variable(buffer)) and root(buffer) not in changed for buffer in access.site.loaded)
    return known and not access.site.local_index


def form_of(expr: Any, forms: Mapping[Any, Form]) -> Form:
    """``expr`` as a sum of the digits of ``forms``' variables.

    Raises:
        NotMixedRadix: it is none.
    """

    def part(expr: Any) -> Form | None:
        if isinstance(expr, ir.Var) and expr in forms:
            return forms[expr]
        if isinstance(expr, (int, ir.IntImm)):
            return Form((), as_int(expr))
        return None if mentions(expr, forms) else Form((), expr)

    def unknown(expr: Any) -> Form:
        raise NotMixedRadix

    return by_digits(expr, part, unknown)


def by_digits(expr: Any, part: Callable[[Any], Any], unknown: Callable[[Any], Any]) -> Any:
    """The value of an index expression in an arithmetic of digits: sums, multiples, and quotients and remainders by constants.

    Args:
        part: the value of an expression, None where it follows from those of its operands.
        unknown: the value of an expression of another kind.
    """
    value = part(expr)
    if value is not None:
        return value
    # An index that is cast to fewer bits may wrap.
    if isinstance(expr, ir.Cast) and str(expr.ty) in ("int32", "int64"):
        return by_digits(expr.value, part, unknown)
    if isinstance(expr, ir.Add):
        return by_digits(expr.a, part, unknown) + by_digits(expr.b, part, unknown)
    if isinstance(expr, ir.Sub):
        return by_digits(expr.a, part, unknown) - by_digits(expr.b, part, unknown)
    if isinstance(expr, ir.Mul) and isinstance(factor := as_int(expr.a), int):
        return by_digits(expr.b, part, unknown).scaled(factor)
    constant = as_int(expr.b) if isinstance(expr, (ir.Mul, ir.FloorDiv, ir.FloorMod, ir.LShift, ir.RShift)) else None
    if not isinstance(constant, int) or constant < 0:
        return unknown(expr)
    inner = by_digits(expr.a, part, unknown)
    if isinstance(expr, (ir.Mul, ir.LShift)):
        return inner.scaled(constant if isinstance(expr, ir.Mul) else 1 << constant)
    quotient, remainder = inner.divmod(1 << constant if isinstance(expr, ir.RShift) else constant)
    return remainder if isinstance(expr, ir.FloorMod) else quotient
