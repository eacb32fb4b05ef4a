"""What the statements of a pipelined loop read and write, and which schedules keep their order where it matters.

Statement ``p`` of iteration ``i`` and ``q`` of iteration ``j`` that touch the same storage, one of them writing, must stay in
program order. For a tile with ``v`` slots only iterations that are a multiple of ``v`` apart share storage.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from tilelang.errors import PipelineScheduleError
from tilelang.ir import nodes as ir
from tilelang.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.ir.memory import is_shared
from tilelang.ir.span import location_of
from tilelang.ir.visit import expressions
from tilelang.records import Record
from tilelang.target.cuda.analysis.availability import Fill, LoopBody, by_tile, is_available
from tilelang.target.cuda.analysis.disjointness import Iterations
from tilelang.target.cuda.ir.access import Access, Site
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import evaluated, handed_on
from tilelang.target.cuda.tile.overwrites import overwrites
from tilelang.target.cuda.tile.tree import Loop, Operator, Parallel, Scalar, TileTree, bindings, walk


class Statement(Record, eq=False):
    """A statement of a loop's body.

    Attributes:
        stmt: in the IR.
        nodes: what it became.
        touches: its accesses of allocations, tensors and the variables of bindings, in order.
        defines: the variable, where it is a binding.
    """

    stmt: Any
    nodes: tuple[Any, ...]
    touches: tuple[Access, ...]
    defines: Any = None

    @cached_property
    def buffers(self) -> set[Any]:
        """What it touches."""
        return {touch.buffer for touch in self.touches}

    def reads(self, buffer: Any) -> bool:
        """Whether it reads a buffer."""
        return any(touch.reads and touch.buffer == buffer for touch in self.touches)

    def writes(self, buffer: Any) -> bool:
        """Whether it writes a buffer."""
        return any(touch.writes and touch.buffer == buffer for touch in self.touches)


class Body(LoopBody, eq=False):
    """The body of a pipelined loop.

    Attributes:
        loop: in the tile tree.
        replays: bindings of pure values (of the loop variable, and of memory that the body does not write), which every stage
            evaluates for its own iteration.
        with_replays: statements and replays, in program order.
    """

    loop: Loop
    replays: list[Any]
    with_replays: list[Statement]

    @cached_property
    def filled_ahead(self) -> dict[Statement, Any]:
        """The statements that fill shared tiles, which the loop alone uses, with data which it leaves as it is -> the tiles."""
        fills = (fill for at, statement in enumerate(self.statements) if (fill := _fill(at, statement)) is not None)
        ready = (fill for group in by_tile(fills) if self.may_fill_ahead(group) for fill in group)
        return {self.statements[fill.at]: fill.target.buffer for fill in ready}

    @staticmethod
    def of(loop: Loop, tree: TileTree, counts: Counter[Any]) -> Body:
        """The body of a pipelined loop; ``counts`` are how often the whole kernel touches each buffer."""
        written = Counter(tree.root_of(buffer) for node in walk(loop.body) for buffer in node.written)
        written.update({view: written[tree.root_of(view)] for view in tree.aliases if tree.root_of(view) in written})
        unknown = set(bindings(loop.body))

        def is_known(expr: Any) -> bool:
            return is_available(expr, lambda buffer: buffer not in written, unknown)

        statements: list[Statement] = []
        replays: list[Any] = []
        with_replays: list[Statement] = []
        for stmt, nodes in loop.body.parts:
            defines = stmt.var if isinstance(stmt, ir.Bind) else None
            # A binding of a known value needs no place in the schedule: j = k * 2 is the same number whenever it is computed for
            # iteration k. Not so where a copy of an element that some threads hold comes before it.
            if defines is not None and is_known(stmt.value) and len(nodes) == 1:
                unknown.discard(defines)
                replays.append(nodes[0])
                with_replays.append(Statement(stmt, tuple(nodes), ()))
                continue
            touches = [*_touches(nodes, tree), *_values(stmt, unknown)]
            if defines is not None:
                touches.append(Access(defines, WRITE, site=Site(fills=True)))
            statement = Statement(stmt, tuple(nodes), tuple(touches), defines)
            statements.append(statement)
            with_replays.append(statement)
        return Body(
            statements=statements,
            inside=count_touches(loop.body, tree),
            everywhere=counts,
            written=written,
            aliased=tree.aliased(),
            is_known=is_known,
            loop=loop,
            replays=replays,
            with_replays=with_replays,
        )


def count_touches(top: Any, tree: TileTree) -> Counter[Any]:
    """How often a statement of a kernel, and those inside it, touch each buffer."""
    return Counter(touch.buffer for touch in _touches([top], tree))


# Accesses ------------------------------------------------------------------------------------------------------------


def _touches(nodes: Sequence[Any], tree: TileTree) -> Iterator[Access]:
    for top in nodes:
        for node in walk(top):
            yield from _node_touches(node, tree)


def _node_touches(node: Any, tree: TileTree) -> Iterator[Access]:
    """The accesses of one node itself, without the nodes inside it; operands are accessed as regions."""
    # An operator's nest names single elements of what its regions name as a whole; only the regions count for those buffers.
    elements, regions = _elements(node), node.regions
    # Atomic updates commute with each other, which the region of the operator does not show.
    updated = {access.buffer: access.operation for access in elements if access.kind == UPDATE}
    operands = {access.buffer for access in regions if isinstance(node, Parallel)}
    for access in elements:
        if access.buffer not in operands:
            single = isinstance(node, Scalar) and not access.site.in_body
            extents = (1,) * len(access.site.indices) if single else None
            yield replace(access, buffer=tree.root_of(access.buffer), site=replace(access.site, extents=extents))
    for access in regions:
        operation = updated.get(access.buffer)
        of_all = {} if operation is None else {"kind": UPDATE, "operation": operation}
        yield replace(access, buffer=tree.root_of(access.buffer), **of_all)


def _elements(node: Any) -> Sequence[Access]:
    """The accesses in a node's own expressions, those of an operator's operands included."""
    if isinstance(node, Scalar):
        return (*node.accesses, *(Access(buffer, ADDRESS, site=Site(local_index=True)) for buffer in handed_on(node.stmt)))
    return node.values if isinstance(node, Operator) else node.accesses


def _values(stmt: Any, values: set[Any]) -> Iterator[Access]:
    """Reads of the variables of bindings."""
    used = {part for part in expressions(stmt) if isinstance(part, ir.Var)}
    return (Access(var, READ) for var in used & values)


# Running ahead -------------------------------------------------------------------------------------------------------


def _fill(at: int, statement: Statement) -> Fill | None:
    """A statement as a copy that the compiler may make as it likes, if it is one."""
    node = statement.nodes[0] if len(statement.nodes) == 1 else None
    transfer = rule_of(node.op).transfer(node.op) if isinstance(node, Parallel) else None
    if node is None or transfer is None or not transfer.may_run_ahead:
        return None
    return Fill(at, transfer.source, transfer.target, tuple(evaluated(node.nest.body)))


# Schedules -----------------------------------------------------------------------------------------------------------


class Part(Record, eq=False):
    """A statement of the body, with its place in a schedule."""

    statement: Statement
    stage: int
    order: int

    def runs_after(self, other: Part, distance: int) -> bool:
        """Whether it runs after what another one does so many iterations later."""
        # A statement of stage s runs its iteration i in step i + s, so (step, order) is the order in time.
        return (self.stage, self.order) > (other.stage + distance, other.order)


class _Use(Record, eq=False):
    """An access of a buffer, with the statement that makes it and the number of that in the program."""

    number: int
    part: Part
    access: Access

    def conflicts_with(self, other: _Use) -> bool:
        """Whether the order of the two makes a difference."""
        return not self.access.commutes_with(other.access)


def slots_needed(parts: Sequence[Part], body: Body, iterations: Iterations) -> dict[Any, int]:
    """The number of slots of each tile that needs more than one under a schedule.

    Raises:
        PipelineScheduleError: the schedule changes what a statement reads.
    """
    numbers = {statement: number for number, statement in enumerate(body.statements)}
    used: dict[Any, list[_Use]] = {}
    for part in sorted(parts, key=lambda part: numbers[part.statement]):
        for access in part.statement.touches:
            used.setdefault(access.buffer, []).append(_Use(numbers[part.statement], part, access))
    rings = {}
    deepest = max(part.stage for part in parts) + 1
    for buffer, uses in used.items():
        if not any(use.access.writes for use in uses):
            continue
        swapped = _swapped(uses, 0, body.loop, iterations)
        if swapped is not None:
            raise _broken(buffer, *swapped, "")
        anew = _is_filled_anew(buffer, uses, body)
        # Only a tile that each iteration fills anew may have several slots: a sum that goes on from iteration to iteration is one
        # value. After the loop a statement outside would not know which slot is meant.
        limit = deepest if anew and not body.is_outside(buffer) else 1
        # One slot is tried first, as slots cost shared memory; with as many as stages in flight no iteration shares one.
        slots, swapped = 1, _swapped(uses, 1, body.loop, iterations)
        while swapped is not None and slots < limit:
            slots += 1
            swapped = _swapped(uses, slots, body.loop, iterations)
        if swapped is not None:
            instead = ", or load a tile that only this loop uses" if anew else ""
            raise _broken(buffer, *swapped, "of the iteration before", instead)
        if slots > 1:
            rings[buffer] = slots
    return rings


def _swapped(uses: Sequence[_Use], distance: int, loop: Loop, iterations: Iterations) -> tuple[Statement, Statement] | None:
    """Two statements whose order a schedule swaps, the second of them so many iterations after the first.

    With v slots the next iteration on the same storage is v later; within an iteration (0) the program's order counts.
    """
    for one in uses:
        for two in uses:
            follows = one.number < two.number if distance == 0 else one.number != two.number
            if not follows or not one.conflicts_with(two) or not one.part.runs_after(two.part, distance):
                continue
            if distance == 0 or not iterations.share_out(loop, one.access.site, two.access.site):
                return one.part.statement, two.part.statement
    return None


def _is_filled_anew(buffer: Any, uses: Sequence[_Use], body: Body) -> bool:
    """Whether each iteration begins with a shared tile by overwriting all of it."""
    if not ir.is_buffer_var(buffer) or not is_shared(buffer) or buffer in body.aliased:
        return False
    statement, first = uses[0].part.statement, uses[0].access
    if (first.site.fills and not first.reads) or buffer in body.filled_ahead.values():
        return True
    return len(statement.nodes) == 1 and overwrites(statement.nodes[0], {buffer})


def _broken(buffer: Any, first: Statement, second: Statement, when: str, instead: str = "") -> PipelineScheduleError:
    here = location_of(second.stmt.span)
    other = location_of(first.stmt.span)
    where = f"the statement at line {other.line}" if other is not None else "another statement"
    return PipelineScheduleError(
        f"this statement would touch {buffer.name} before {where} {when}".rstrip() + " is done with it",
        here,
        f"give it a later stage or order{instead}" if buffer.name else None,
    )
