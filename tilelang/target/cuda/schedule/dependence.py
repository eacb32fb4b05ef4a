"""What the statements of a pipelined loop read and write, and which schedules keep their order where it matters.

Statement ``p`` of iteration ``i`` and ``q`` of iteration ``j`` that touch the same storage, one of them writing, must stay in
program order. For a tile with ``v`` slots only iterations that are a multiple of ``v`` apart share storage.
"""

from __future__ import annotations

import functools
import weakref
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.errors import PipelineScheduleError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.span import location_of
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.ir.visit import walk as walk_statements
from tilelang.target.cuda.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import Access, Nest
from tilelang.target.cuda.tile.tree import SHARED, Branch, Loop, Operator, Parallel, Repeat, Scalar, TileTree, walk
from tilelang.transform.substitute import substitute

Position = tuple[int, int]
"""Stage and order."""


@dataclass(frozen=True, slots=True, eq=False)
class Touch:
    """One access to a buffer, or to the variable of a binding.

    Attributes:
        mins, extents: the region, where it is known.
        fills: whether it overwrites the whole buffer.
    """

    buffer: Any
    reads: bool
    writes: bool
    mins: tuple[Any, ...] | None = None
    extents: tuple[Any, ...] | None = None
    fills: bool = False
    atomic: bool = False


@dataclass(frozen=True, eq=False)
class Statement:
    """A statement of a loop's body.

    Attributes:
        stmt: in the IR.
        nodes: what it became.
        touches: its accesses, in order.
        defines: the variable, where it is a binding.
    """

    stmt: Any
    nodes: tuple[Any, ...]
    touches: tuple[Touch, ...]
    defines: Any = None

    def reads(self, buffer: Any) -> bool:
        """Whether it reads a buffer."""
        return any(touch.reads and touch.buffer == buffer for touch in self.touches)

    def writes(self, buffer: Any) -> bool:
        """Whether it writes a buffer."""
        return any(touch.writes and touch.buffer == buffer for touch in self.touches)


@dataclass(eq=False)
class Body:
    """The body of a pipelined loop.

    Attributes:
        statements: in program order.
        replays: bindings of pure values: of the loop variable and of memory that the body does not write.
        with_replays: both together, in program order.
        written: how many times the body writes each buffer.
    """

    loop: Loop
    tree: TileTree
    statements: list[Statement]
    replays: list[Any]
    with_replays: list[Statement]
    written: dict[Any, int]

    @staticmethod
    def of(loop: Loop, tree: TileTree) -> Body:
        """The body of ``loop``."""
        written = _written(loop)
        inner = {node.stmt.var for node in walk(loop.body) if isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind)}
        usable: set[Any] = set()
        body = Body(loop, tree, [], [], [], written)
        for stmt, nodes in loop.parts:
            defines = stmt.var if isinstance(stmt, ir.Bind) else None
            if defines is not None and _available(stmt.value, inner, usable, written):
                usable.add(defines)
                body.replays.append(nodes[0])
                body.with_replays.append(Statement(stmt, tuple(nodes), ()))
                continue
            touches = [*_touches(nodes, tree), *_values(stmt, inner - usable)]
            if defines is not None:
                touches.append(Touch(defines, False, True, fills=True))
            statement = Statement(stmt, tuple(nodes), tuple(touches), defines)
            body.statements.append(statement)
            body.with_replays.append(statement)
        return body

    def is_usable(self, expr: Any) -> bool:
        """Whether a value is known before the statements of its iteration have run."""
        inner = {node.stmt.var for node in walk(self.loop.body) if isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind)}
        return isinstance(expr, int) or _available(expr, inner, {node.stmt.var for node in self.replays}, self.written)

    def is_outside(self, buffer: Any) -> bool:
        """Whether statements outside of the loop touch a buffer."""
        return _touch_counts(self.tree)[buffer] > self._own_touches[buffer]

    @functools.cached_property
    def _own_touches(self) -> Counter[Any]:
        return _count_touches(self.loop.body, self.tree)

    def is_viewed(self, buffer: Any) -> bool:
        """Whether a buffer has another name, or is one."""
        return buffer in self.tree.aliases or buffer in self.tree.aliases.values()


_TOUCHES: weakref.WeakKeyDictionary[TileTree, Counter[Any]] = weakref.WeakKeyDictionary()


def _touch_counts(tree: TileTree) -> Counter[Any]:
    """How often a kernel touches each buffer; counted once, however many loops ask."""
    if tree not in _TOUCHES:
        _TOUCHES[tree] = _count_touches(tree.root, tree)
    return _TOUCHES[tree]


def _count_touches(top: Any, tree: TileTree) -> Counter[Any]:
    return Counter(touch.buffer for node in walk(top) for touch in _node_touches(node, tree))


# Accesses ------------------------------------------------------------------------------------------------------------


def _touches(nodes: Sequence[Any], tree: TileTree) -> Iterator[Touch]:
    for top in nodes:
        for node in walk(top):
            yield from _node_touches(node, tree)


def _node_touches(node: Any, tree: TileTree) -> Iterator[Touch]:
    """The accesses of one node, those of the nodes inside it aside."""
    regions = node.op.regions() if isinstance(node, (Parallel, Operator)) and hasattr(node.op, "regions") else []
    accesses = _accesses(node)
    updated = {access.buffer for access in accesses if access.kind == UPDATE}
    for region, access in regions:
        whole = region is rule_of(node.op).overwritten(node.op)
        atomic = region.buffer in updated
        mins, extents = tuple(region.mins), tuple(region.extents)
        yield Touch(tree.root_of(region.buffer), "r" in access or atomic, "w" in access, mins, extents, whole, atomic)
    known = {region.buffer for region, _ in regions}
    for access in accesses:
        if access.buffer in known:
            continue
        single = isinstance(node, Scalar) and not access.inner
        place = (tuple(access.indices), (1,) * len(access.indices)) if single else (None, None)
        reads, writes = access.kind != WRITE, access.kind != READ
        yield Touch(tree.root_of(access.buffer), reads, writes, *place, atomic=access.kind == UPDATE)


def _accesses(node: Any) -> Sequence[Access]:
    """The accesses in a node's own expressions."""
    if isinstance(node, Parallel):
        return node.nest.accesses
    if isinstance(node, Scalar):
        found = Nest.build((), node.stmt, None, "statement").accesses
        return (*found, *_handed_on(node.stmt, {access.buffer for access in found}))
    exprs = []
    if isinstance(node, (Loop, Branch, Repeat)):
        exprs = statement_exprs(node.stmt)
    elif isinstance(node, Operator):
        exprs = [low for region, _ in node.op.regions() for low in region.mins if not isinstance(low, int)]
    return [access for expr in exprs for access in Nest.build((), ir.Evaluate(expr), None, "statement").accesses]


def _handed_on(stmt: Any, known: set[Any]) -> Iterator[Access]:
    """Buffers that a call names as a whole: it may do anything with them."""
    for expr in statement_exprs(stmt):
        for part in walk_expr(expr):
            if isinstance(part, ir.Var) and ir.is_buffer_var(part) and part not in known:
                yield Access(part, (), ADDRESS, conditional=False, defined=True, step=0)


def _values(stmt: Any, values: set[Any]) -> Iterator[Touch]:
    """Reads of the variables of bindings."""
    used = {
        part
        for node in walk_statements(stmt)
        for expr in statement_exprs(node)
        for part in walk_expr(expr)
        if isinstance(part, ir.Var) and part in values
    }
    yield from (Touch(var, True, False) for var in used)


def _written(loop: Loop) -> dict[Any, int]:
    """How many statements of the body write each buffer."""
    counts: dict[Any, int] = {}
    for node in walk(loop.body):
        for buffer in _writes(node):
            counts[buffer] = counts.get(buffer, 0) + 1
    return counts


def _writes(node: Any) -> list[Any]:
    if isinstance(node, Parallel):
        return list({a.buffer for a in node.nest.accesses if a.kind != "read"})
    if isinstance(node, Operator):
        regions = node.op.regions() if hasattr(node.op, "regions") else []
        return [region.buffer for region, access in regions if "w" in access]
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore):
        return [node.stmt.buffer]
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.Evaluate):
        return [e.source for e in walk_expr(node.stmt.value) if isinstance(e, ir.TensorLoad)]
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind):
        return [a.buffer for a in Nest.build((), node.stmt, None, "statement").accesses if a.kind != "read"]
    return []


def _available(expr: Any, inner: set[Any], usable: set[Any], written: dict[Any, int]) -> bool:
    for node in walk_expr(expr):
        if isinstance(node, ir.TensorLoad) and node.source in written:
            return False
        if isinstance(node, ir.Var) and node in inner and node not in usable:
            return False
        if isinstance(node, ir.Call) and isinstance(node.op, ir.Op) and node.op.name.startswith("tl."):
            return False
    return True


# Running ahead -------------------------------------------------------------------------------------------------------


def may_run_ahead(statement: Statement, body: Body) -> bool:
    """Whether a statement is a copy to a shared tile of this loop's own, of data that the loop does not change."""
    node = statement.nodes[0]
    if len(statement.nodes) > 1 or not isinstance(node, Parallel):
        return False
    op = node.op
    if op is None or not rule_of(op).may_run_ahead(op):
        return False
    buffer = op.dst.buffer
    if op.src.scope != "global" or op.dst.scope not in SHARED or not op.dst.is_whole:
        return False
    if body.written.get(buffer, 0) != 1 or op.src.buffer in body.written or body.is_viewed(buffer):
        return False
    return all(map(body.is_usable, (*op.src.mins, *op.src.extents))) and not body.is_outside(buffer)


# Schedules -----------------------------------------------------------------------------------------------------------


def slots_needed(placed: Sequence[tuple[Statement, Position]], body: Body, facts: Facts) -> dict[Any, int]:
    """The slots of each tile that a schedule needs more than one of.

    Raises:
        PipelineScheduleError: the schedule changes what a statement reads.
    """
    touched: dict[Any, list[tuple[int, Position, Statement, Touch]]] = {}
    program = {id(statement): number for number, statement in enumerate(body.statements)}
    for statement, position in sorted(placed, key=lambda pair: program[id(pair[0])]):
        for touch in statement.touches:
            touched.setdefault(touch.buffer, []).append((program[id(statement)], position, statement, touch))
    rings = {}
    deepest = max(stage for _, (stage, _) in placed) + 1
    for buffer, uses in touched.items():
        if not any(touch.writes for *_, touch in uses):
            continue
        _check_iteration(buffer, uses)
        limit = deepest if _is_private(buffer, uses, body) else 1
        slots = next((v for v in range(1, limit + 1) if _carried_conflict(uses, v, body.loop, facts) is None), None)
        if slots is None:
            first, second = _carried_conflict(uses, 1, body.loop, facts)
            raise _broken(buffer, first, second, "of the iteration before")
        if slots > 1:
            rings[buffer] = slots
    return rings


def _conflict(a: Touch, b: Touch) -> bool:
    return (a.writes or b.writes) and not (a.atomic and b.atomic)


def _check_iteration(buffer: Any, uses: list) -> None:
    for number, position, statement, touch in uses:
        for later, other, user, use in uses:
            if number < later and _conflict(touch, use) and position > other:
                raise _broken(buffer, statement, user, "")


def _carried_conflict(uses: list, slots: int, loop: Loop, facts: Facts) -> tuple[Statement, Statement] | None:
    """Two statements whose order a schedule swaps, the second of them ``slots`` iterations later."""
    for number, (stage, order), statement, touch in uses:
        for later, (other_stage, other_order), user, use in uses:
            if number == later or not _conflict(touch, use):
                continue
            if (stage, order) > (other_stage + slots, other_order) and not _disjoint(touch, use, loop, facts):
                return statement, user
    return None


def _disjoint(a: Touch, b: Touch, loop: Loop, facts: Facts) -> bool:
    """Whether the regions of different iterations certainly have no element in common: an index grows by at least its extent."""
    if a.mins is None or b.mins is None or len(a.mins) != len(b.mins):
        return False
    var = loop.stmt.loop_var
    for low, other, extent, reach in zip(a.mins, b.mins, a.extents, b.extents):
        extent, reach = as_int(extent), as_int(reach)
        if isinstance(low, int) or isinstance(other, int) or not isinstance(extent, int) or not isinstance(reach, int):
            continue
        step = facts.simplify(substitute(low, {var: var + 1}) - low)
        if facts.simplify(low - other) == 0 and isinstance(step, int) and abs(step) >= max(extent, reach):
            return True
    return False


def _is_private(buffer: Any, uses: list, body: Body) -> bool:
    """Whether each iteration has its own value of a shared tile: its first access overwrites all of it."""
    if not ir.is_buffer_var(buffer) or buffer.scope() not in SHARED or body.is_viewed(buffer):
        return False
    first = min(uses, key=lambda use: use[0])[3]
    return first.fills and not first.reads and not body.is_outside(buffer)


def _broken(buffer: Any, first: Statement, second: Statement, when: str) -> PipelineScheduleError:
    here = location_of(second.stmt.span)
    other = location_of(first.stmt.span)
    where = f"the statement at line {other.line}" if other is not None else "another statement"
    return PipelineScheduleError(
        f"this statement would touch {buffer.name} before {where} {when}".rstrip() + " is done with it",
        here,
        "give it a later stage or order" if buffer.name else None,
    )
