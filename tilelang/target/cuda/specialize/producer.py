"""The producer of a warp-specialised kernel: the loops' skeletons, with barriers and copies by the tensor memory accelerator."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.ir.visit import any_statement, expressions, flattened
from tilelang.target.cuda.specialize.ring import Ring, Usage
from tilelang.target.cuda.specialize.ring_code import loop_over
from tilelang.target.cuda.tile.build import block
from tilelang.transform.substitute import copied


class ProducerPart:
    """The statements of the producer.

    Attributes:
        rings: the pipelined loops that it loads tiles for, by statement.
        usage: facts about the kernel.
        possible: false if the producer needs a value that only consumers compute.
    """

    def __init__(self, rings: Mapping[Any, Ring], usage: Usage):
        self.rings, self.usage = rings, usage
        self.counters = {loop: ring.counter("produced") for loop, ring in rings.items()}
        self.possible = True

    def of(self, top: list[Any]) -> Any | None:
        """The statement of the role; None where it is not possible."""
        kept = self.block(top)
        starts = [stmt for counter in self.counters.values() for stmt in counter.start()]
        return block([*starts, *kept]) if self.possible else None

    def block(self, stmts: list[Any]) -> list[Any]:
        kept = [found for stmt in stmts if (found := self.statement(stmt)) is not None]
        return _without_unused(kept) if any(_name(stmt) is None for stmt in kept) else []

    def statement(self, stmt: Any) -> Any | None:
        if stmt in self.rings:
            return self.ring(self.rings[stmt])
        if isinstance(stmt, ir.Bind):
            return stmt if self.usage.is_known(stmt.value) else None
        if isinstance(stmt, ir.DeclBuffer):
            return stmt
        # Of a loop around the ring: the condition above it is one that the producer can compute, or the whole is not possible.
        if isinstance(stmt, (ir.Break, ir.Continue)):
            return stmt
        if isinstance(stmt, (ir.For, ir.While)) and not any_statement(stmt.body, self.rings.__contains__):
            return None
        if isinstance(stmt, ir.For):
            body = self.block(flattened(stmt.body))
            return self.checked(loop_over(stmt, stmt.loop_var, body), stmt.min, stmt.extent) if body else None
        if isinstance(stmt, ir.IfThenElse):
            then = self.block(flattened(stmt.then_case))
            otherwise = [] if stmt.else_case is None else self.block(flattened(stmt.else_case))
            if not then and not otherwise:
                return None
            rebuilt = ir.IfThenElse(stmt.condition, block(then), block(otherwise) if otherwise else None, stmt.span)
            return self.checked(rebuilt, stmt.condition)
        if isinstance(stmt, (ir.While, ir.AttrStmt)) and self.block(flattened(stmt.body)):
            self.possible = False
        return None

    def checked(self, stmt: Any, *conditions: Any) -> Any:
        if not all(map(self.usage.is_known, conditions)):
            self.possible = False
        return stmt

    def ring(self, ring: Ring) -> Any:
        loop, counter = ring.loop, self.counters[ring.loop]
        var = ir.Var(loop.loop_var.name, str(loop.loop_var.ty))
        begin, place = counter.bind()
        # A producer waits for a feed where the consumers first use one, so that tiles are asked for in the order of their use.
        stmts = [each.stmt for each in ring.body]
        known = [stmt for stmt in stmts if isinstance(stmt, ir.Bind) and self.usage.is_known(stmt.value)]
        body: list[Any] = [*begin, *known]
        for feed in sorted(ring.feeds, key=lambda feed: feed.first_use):
            body += [feed.await_empty(place), feed.expect(place)]
            barrier = Region(feed.full, (place.slot,), (1,))
            for load in feed.loads:
                tile = load.target
                target = Region(feed.versions[tile.buffer], (place.slot, *tile.mins), (1, *tile.extents))
                body.append(load.start(target, barrier).to_stmt(stmts[load.at].span))
        body += counter.step()
        own = flattened(copied(block(_without_unused(body)), {loop.loop_var: var}))
        return self.checked(loop_over(loop, var, own), loop.min, loop.extent)


def _without_unused(stmts: list[Any]) -> list[Any]:
    """The statements without names that none of them uses."""
    used: set[Any] = set()
    kept: list[Any] = []
    # Backwards, so that a name which only an unused one uses goes as well.
    for stmt in reversed(stmts):
        name = _name(stmt)
        if name is not None and name not in used:
            continue
        used.update(part for part in expressions(stmt) if isinstance(part, ir.Var))
        kept.append(stmt)
    return kept[::-1]


def _name(stmt: Any) -> Any:
    """What a statement gives a name to: the variable of a value, or a view; None where it does something."""
    if isinstance(stmt, ir.Bind):
        return stmt.var
    return stmt.buffer if isinstance(stmt, ir.DeclBuffer) else None
