"""The consumers of a warp-specialised kernel: everything, with waits and arrivals in place of the copies.

A loop has one of three forms, by what its products allow: each product is waited for where it stands; all of them stay in
flight over one iteration (nothing but products touches their accumulators); or the products that an iteration begins with
are started in the iteration before (:mod:`overlap`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.visit import is_parallel, with_children
from tilelang.target.cuda.specialize.overlap import Overlap, deferred_products, find_overlap
from tilelang.target.cuda.specialize.ring import Ring, buffers_of
from tilelang.target.cuda.specialize.ring_code import Place, call, loop_over
from tilelang.target.cuda.tile.build import block
from tilelang.target.cuda.tile.tree import is_certainly_run
from tilelang.tileop.base import decode, is_tile_op
from tilelang.transform.substitute import copied


class ConsumerPart:
    """The statements of the consumers.

    Attributes:
        loops: the loops that are fed, by their statement.
    """

    def __init__(self, rings: Mapping[Any, Ring], threads: int, registers: int, wgmma: bool):
        self.loops = {stmt: _loop_of(ring, threads, registers, wgmma) for stmt, ring in rings.items()}

    def of(self, top: list[Any]) -> Any:
        """The statement of the role."""
        loops = self.loops.values()
        counters = [*(loop.counter for loop in loops), *(loop.early for loop in loops if isinstance(loop, _OverlappedLoop))]
        return block([*(stmt for counter in counters for stmt in counter.start()), *map(self.statement, top)])

    def statement(self, stmt: Any) -> Any:
        if stmt in self.loops:
            return self.loops[stmt].stmt()
        leave = isinstance(stmt, (ir.While, ir.AttrStmt)) or is_parallel(stmt)
        return stmt if leave else with_children(stmt, self.statement)


def _loop_of(ring: Ring, threads: int, registers: int, wgmma: bool) -> _Loop:
    """The form that a loop has.

    ``threads`` are those of the consumers, of ``registers`` each; ``wgmma`` says whether products may use warp group
    instructions."""
    overlap = find_overlap(ring, threads, registers) if wgmma else None
    if overlap is not None:
        return _OverlappedLoop(ring, overlap)
    deferred = deferred_products(ring, threads) if wgmma else []
    return _DeferringLoop(ring, deferred) if deferred else _Loop(ring)


class _Loop:
    """A loop with its statements in order; a tile is released after its last use.

    Attributes:
        counter: where in its ring it is.
    """

    def __init__(self, ring: Ring):
        self.ring, self.loop, self.counter = ring, ring.loop, ring.counter("consumed")

    def stmt(self) -> Any:
        """The loop, what comes before and what comes after it."""
        body, place = self.counter.bind()
        for at in self.ring.consumed:
            body += self.run(at, place)
            body += [feed.release(place.slot) for feed in self.ring.feeds if feed.last_use == at]
        return loop_over(self.loop, self.loop.loop_var, [*body, *self.counter.step()])

    def run(self, at: int, place: Place, start: bool = False) -> list[Any]:
        """A statement of the loop's body, or only its start, after the waits for the loads that it is the first to use."""
        stmt = self.ring.body[at].started() if start else self.ring.body[at].stmt
        awaited = [feed.await_full(place) for feed in self.ring.feeds if feed.first_use == at]
        return [*awaited, self.versioned(stmt, place)]

    def completed(self, products: Iterable[int], pending: int = 0) -> list[Any]:
        """Waits for products in flight, by their positions in the body, except the newest ``pending``."""
        start = Place(ir.IntImm("int32", 0), ir.IntImm("int32", 0), self.ring.stages)
        return [self.versioned(self.ring.body[at].awaited(pending), start) for at in sorted(products)]

    def versioned(self, stmt: Any, place: Place) -> Any:
        """``stmt`` over this iteration's version of the ring's buffers."""
        versions = self.ring.versions
        if not versions.keys() & buffers_of(stmt):
            return stmt
        stage = place.slot

        def load(node: Any) -> Any:
            new = versions.get(node.source)
            return node if new is None else ir.BufferLoad(new, [stage, *node.indices])

        def region(node: Any) -> Any:
            new = versions.get(node.source)
            one = ir.Range.from_min_extent(stage, ir.IntImm("int32", 1))
            return node if new is None else ir.BufferRegion(new, [one, *node.region])

        def operator(node: Any) -> Any:
            if not is_tile_op(node):
                return node
            op = decode(node)
            new = op.with_axis_before(versions)
            return node if new is op else new.to_call(node.span)

        def store(node: Any) -> Any:
            new = versions.get(node.buffer)
            return node if new is None else ir.BufferStore(new, node.value, [stage, *node.indices], node.span)

        stmt = tvm_ffi.structural_map(stmt, [(ir.Call, operator)])  # while its regions still name the tiles
        return tvm_ffi.structural_map(stmt, [(ir.TensorLoad, load), (ir.TensorRegion, region), (ir.BufferStore, store)])


class _DeferringLoop(_Loop):
    """A loop with its products in flight over one iteration; tiles are released one iteration later.

    Attributes:
        products: their positions in the body.
    """

    def __init__(self, ring: Ring, products: list[int]):
        super().__init__(ring)
        self.products = products

    def stmt(self) -> Any:
        loop, feeds = self.loop, self.ring.feeds
        body, place = self.counter.bind()
        for at in self.ring.consumed:
            body += self.run(at, place, start=at in self.products)
        # The wait leaves this iteration's products in flight. Those of the iteration before are complete, and its tiles are
        # free.
        done = block([call("wait_wgmma", len(self.products)), *(feed.release(place.before()) for feed in feeds)])
        body.append(ir.IfThenElse(loop.loop_var > loop.min, done, None))
        after = self.completed(self.products)
        if self.ring.nested:
            slot = self.counter.now().before()
            after.append(ir.IfThenElse(loop.extent > 0, block([feed.release(slot) for feed in feeds]), None))
        return block([loop_over(loop, loop.loop_var, [*body, *self.counter.step()]), *after])


class _OverlappedLoop(_Loop):
    """A loop whose head runs one iteration early, while the products of its tail are in flight.

    The last iteration, which starts no head, stands after the loop: a product that is started in a branch would keep ptxas from
    leaving any in flight.

    Attributes:
        early: where in its ring the head is.
    """

    def __init__(self, ring: Ring, overlap: Overlap):
        super().__init__(ring)
        self.overlap, self.early = overlap, ring.counter("started")
        self.early_feeds = [feed for feed in ring.feeds if feed.last_use in overlap.head]
        self.late_feeds = [feed for feed in ring.feeds if feed not in self.early_feeds]

    def stmt(self) -> Any:
        loop, ring, overlap = self.loop, self.ring, self.overlap
        waits, head = self._head(loop.min)
        # Before the loop: the head of the first iteration, whose products are waited for at once, as there is nothing to overlap
        # them with.
        before = [*waits, *head, *self._head_done()]
        begin, place = self.counter.bind()
        waits, head = self._head(loop.loop_var + 1, in_flight=True)
        body = [*begin, *self._middle(place, waits), *head, *self._tail(place)]
        body += self.completed(ring.products(overlap.head), len(overlap.tail))
        body += [*self._head_done(), *self.counter.step()]
        # Each round does the rest of iteration i and the head of i + 1, so there is one round less than iterations.
        repeated = loop_over(loop, loop.loop_var, body, extent=loop.extent - 1)
        begin, place = self.counter.bind()
        last = block([*begin, *self._middle(place), *self._tail(place)])
        after = [copied(last, {loop.loop_var: loop.min + loop.extent - 1}), *self.completed(overlap.tail)]
        if ring.nested:
            after += [feed.release(self.counter.now().slot) for feed in self.late_feeds]
        whole = block([*before, repeated, *after, *self.counter.step()])
        return whole if is_certainly_run(loop.extent) else ir.IfThenElse(loop.extent > 0, whole, None)

    def _head(self, iteration: Any, in_flight: bool = False) -> tuple[list[Any], list[Any]]:
        """Waits for the head's tiles, which may be done early, and the head of an iteration with the other waits."""
        ring = self.ring
        needed = [feed for feed in ring.feeds if feed.first_use in self.overlap.head]
        # A tile that the tail uses too may only arrive when the tail before last has released its slot.
        ahead = self.overlap.has_spare_registers and all(feed in self.early_feeds for feed in needed)
        waits = [feed.await_full(self.early.now()) for feed in needed] if ahead else []
        # The head runs one iteration ahead of the middle and the tail, so it counts slots by itself.
        begin, place = self.early.bind()
        found = [*begin]
        for at in self.overlap.head:
            start = in_flight and bool(ring.products([at]))
            found += self.run(at, place, start)[-1 if ahead else 0 :]  # the waits are those of `ahead`
        return waits, [copied(block(found), {ring.loop.loop_var: iteration})]

    def _head_done(self) -> list[Any]:
        """The head's products are complete."""
        slot = self.early.now().slot
        return [*(feed.release(slot) for feed in self.early_feeds), *self.early.step()]

    def _middle(self, place: Place, waits: Sequence[Any] = ()) -> list[Any]:
        """The statements between; the first that touches what the tail has in flight waits for it.

        The waits for the next head stand before that wait, which ptxas would else move up, before the statements."""
        ring, overlap = self.ring, self.overlap
        in_flight = set().union(*(ring.body[at].buffers for at in overlap.tail)) - ring.versions.keys()
        done = [*waits, *self.completed(overlap.tail)]
        if self.late_feeds:
            released = block([feed.release(place.before()) for feed in self.late_feeds])
            # The tail of iteration i - 1 has read its slots only now, when its products are complete; the first iteration has
            # none before it.
            done.append(ir.IfThenElse(ring.loop.loop_var > ring.loop.min, released, None))
        found = [ring.body[at].stmt for at in overlap.head if isinstance(ring.body[at].stmt, ir.Bind)]
        for at in overlap.middle:
            if ring.body[at].buffers & in_flight:
                found += done
                done = []
            found += self.run(at, place)
        return [*found, *done]

    def _tail(self, place: Place) -> list[Any]:
        """The products that end an iteration, left in flight."""
        return [stmt for at in self.overlap.tail for stmt in self.run(at, place, start=True)]
