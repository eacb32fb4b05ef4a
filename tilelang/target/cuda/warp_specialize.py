"""Warp specialisation (sm_90a): one warp group loads, the others compute.

Before: a kernel whose ``T.Pipelined`` loops copy tiles to shared memory and use them.
After: the same program over explicit barriers, as a user could have written it with ``T.ws``,

    shared tiles with one version a stage; barriers full[stage], empty[stage] for each group of tiles
    producer (the warp group after the user's own; one thread of it):
        for each iteration:  wait empty;  expect bytes on full;  start the copies
    consumers (the user's warp groups):
        for each iteration:  wait full;  use the tiles;  arrive on empty

What cannot be expressed so is left as it is, for the pipelining that every architecture has. Products that nothing but
products touches in the loop stay in flight over one iteration: the tensor cores then never wait for the barriers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import constant
from tilelang.ir.region import Region
from tilelang.ir.visit import statement_exprs, variables, walk
from tilelang.target.cuda.facts import Facts
from tilelang.target.cuda.program import Kernel
from tilelang.target.cuda.ring import Feed, Ring, Usage, buffers_of, find_rings, is_uniform, statements
from tilelang.target.cuda.wgmma import WARP_GROUP, plan_gemm
from tilelang.tileop import decode, is_tile_op
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.hint import MaxRegisters

PRODUCER_REGISTERS = 24
SINGLE_THREAD = "tl.single_thread"
"""Attribute around statements that one thread of the warp group runs."""

IN_FLIGHT = -1
"""``wg_wait`` of a product that a later statement waits for."""

COMPLETE = -2
"""``wg_wait`` of a product that is not started again: the statement waits for those in flight; C is valid after it."""

_MAX_REGISTERS = 240
_REGISTER_FILE = 65536
_MAX_THREADS = 1024


def specialize(kernel: Kernel, facts: Facts, wgmma: bool = True) -> Kernel:
    """The kernel with a producer warp group, or the same kernel where that does not apply.

    Args:
        facts: bounds of the kernel's variables.
        wgmma: whether products may use warp group instructions.
    """
    threads = kernel.threads[0][1] if kernel.threads else 1
    one_dimensional = kernel.thread_count == threads and threads % WARP_GROUP == 0 and threads < _MAX_THREADS
    rings = find_rings(kernel.body, facts) if one_dimensional else []
    if not rings:
        return kernel
    body = _Splitter(rings, threads, wgmma).split(kernel.body)
    if body is None:
        return kernel
    (var, _), *others = kernel.threads
    return replace(kernel, threads=((var, threads + WARP_GROUP), *others), body=body)


@dataclass(frozen=True, eq=False)
class _Slots:
    """The shared objects of one feed: its barriers and the versioned buffer of each copy."""

    full: Any
    empty: Any
    versions: dict[Any, Any]


class _Splitter:
    def __init__(self, rings: Sequence[Ring], threads: int, wgmma: bool):
        self.rings = {ring.loop: ring for ring in rings}
        self.threads = threads
        self.groups = threads // WARP_GROUP
        self.wgmma = wgmma
        self.slots: dict[Feed, _Slots] = {}
        self.allocations: list[Any] = []
        for ring in rings:
            for feed in ring.feeds:
                self._allocate(feed, ring.stages)

    def split(self, body: Any) -> Any | None:
        """The body with its two roles; None where the producer would need what only consumers know."""
        top = statements(body)
        shared, rest = self._shared_part(top)
        written = Usage(body).written
        producer = _ProducerPart(self, written).of(rest)
        if producer is None:
            return None
        consumer = _ConsumerPart(self).of(rest)
        off, for_producer, for_consumer = self._registers(body)
        lines = [] if off else [MaxRegisters(for_producer, "dec").to_stmt()]
        one = ir.AttrStmt(ir.StringImm("thread"), SINGLE_THREAD, ir.IntImm("int32", 1), producer)
        load = self._role(1 << self.groups, [*lines, one])
        lines = [] if off else [MaxRegisters(for_consumer, "inc").to_stmt()]
        compute = self._role((1 << self.groups) - 1, [*lines, consumer])
        return _block([*shared, *self.allocations, load, compute])

    def _role(self, mask: int, body: list[Any]) -> Any:
        return ir.AttrStmt(ir.StringImm("warp_groups"), "tl.warp_group", ir.IntImm("int32", mask), _block(body))

    def _shared_part(self, top: list[Any]) -> tuple[list[Any], list[Any]]:
        """What both roles see: allocations, hints, and values computed before anything happens."""
        before, rest = [], []
        for stmt in top:
            if isinstance(stmt, ir.AllocBuffer):
                if stmt.buffer not in self._versioned():
                    before.append(stmt)
            elif _is_hint(stmt) or (not rest and isinstance(stmt, ir.Bind)):
                before.append(stmt)
            else:
                rest.append(stmt)
        return before, rest

    def _versioned(self) -> set[Any]:
        return {old for slots in self.slots.values() for old in slots.versions}

    def _registers(self, body: Any) -> tuple[bool, int, int]:
        """(no reallocation, registers of a producer thread, of a consumer thread)."""
        launch = min(255, _REGISTER_FILE // (self.threads + WARP_GROUP)) // 8 * 8
        spare = launch * (self.groups + 1) - PRODUCER_REGISTERS
        consumer = min(_MAX_REGISTERS, spare // self.groups // 8 * 8)
        wishes = {op.change: op.count for op in _operators(body) if isinstance(op, MaxRegisters)}
        return "off" in wishes, wishes.get("producer", PRODUCER_REGISTERS), wishes.get("consumer", consumer)

    def _allocate(self, feed: Feed, stages: int) -> None:
        first = feed.copies[0][1].dst.buffer.name
        barriers = []
        for role, arrivals in (("full", 1), ("empty", self.threads // 32)):
            buffer = ir.decl_buffer((stages,), "uint64", f"{first}_{role}", scope="shared.barrier", layout=None, data_alignment=8)
            counts = [ir.IntImm("int32", arrivals)] * stages
            self.allocations.append(ir.AllocBuffer(buffer, {"tl.arrive_counts": counts}))
            barriers.append(buffer)
        versions = {}
        for _, copy in feed.copies:
            old = copy.dst.buffer
            shape = (stages, *old.shape)
            new = ir.decl_buffer(shape, str(old.dtype), old.name, scope=old.scope(), layout=None, data_alignment=1)
            self.allocations.append(ir.AllocBuffer(new))
            versions[old] = new
        self.slots[feed] = _Slots(barriers[0], barriers[1], versions)


@dataclass(frozen=True)
class _Place:
    """Where in its ring an iteration is.

    Attributes:
        slot: the version of the buffers that is in use.
        lap: parity of the phase of ``full`` that this iteration completes.
    """

    slot: Any
    lap: Any
    stages: int

    def before(self) -> Any:
        """The slot of the iteration before."""
        last = ir.IntImm("int32", self.stages - 1)
        return ir.Select(self.slot > 0, self.slot - 1, last)


class _Counter:
    """Where a role is in a ring: two variables that go on where the loop runs again.

    They are stepped instead of computed from the iteration's number: a division by three costs ten instructions an iteration.
    """

    def __init__(self, ring: Ring, role: str):
        self.ring = ring
        name = ring.loop.loop_var.name
        self.slot = ir.decl_buffer((1,), "int32", f"{role}_{name}_slot", scope="local.var", layout=None)
        self.lap = ir.decl_buffer((1,), "int32", f"{role}_{name}_lap", scope="local.var", layout=None)

    def bind(self) -> tuple[list[Any], _Place]:
        """Statements that begin an iteration, and its place."""
        slot, lap = ir.Var("slot", "int32"), ir.Var("lap", "int32")
        return [ir.Bind(slot, _value(self.slot)), ir.Bind(lap, _value(self.lap))], _Place(slot, lap, self.ring.stages)

    def now(self) -> _Place:
        """The place of the next iteration, outside of the loop."""
        return _Place(_value(self.slot), _value(self.lap), self.ring.stages)

    def start(self) -> list[Any]:
        """Statements at the beginning of the role."""
        zero = ir.IntImm("int32", 0)
        buffers = (self.slot, self.lap)
        return [*map(ir.AllocBuffer, buffers), *(ir.BufferStore(buffer, zero, [0]) for buffer in buffers)]

    def step(self) -> list[Any]:
        """Statements at the end of an iteration."""
        wrap = [
            ir.BufferStore(self.slot, ir.IntImm("int32", 0), [0]),
            ir.BufferStore(self.lap, 1 - _value(self.lap), [0]),
        ]
        following = ir.BufferStore(self.slot, _value(self.slot) + 1, [0])
        return [following, ir.IfThenElse(_value(self.slot) >= self.ring.stages, _block(wrap), None)]


def _value(variable: Any) -> Any:
    return ir.BufferLoad(variable, [0])


class _ProducerPart:
    """The statements of the producer: the loops' skeletons, with barriers and copies."""

    def __init__(self, splitter: _Splitter, written: dict[Any, int]):
        self.splitter = splitter
        self.written = written
        self.counters = {loop: _Counter(ring, "produced") for loop, ring in splitter.rings.items()}
        self.possible = True

    def of(self, top: list[Any]) -> Any | None:
        kept = self.block(top)
        starts = [stmt for counter in self.counters.values() for stmt in counter.start()]
        return _block([*starts, *kept]) if self.possible else None

    def block(self, stmts: list[Any]) -> list[Any]:
        kept = [found for stmt in stmts if (found := self.statement(stmt)) is not None]
        return _without_unused(kept) if any(not isinstance(stmt, ir.Bind) for stmt in kept) else []

    def statement(self, stmt: Any) -> Any | None:
        if stmt in self.splitter.rings:
            return self.ring(self.splitter.rings[stmt])
        if isinstance(stmt, ir.Bind):
            return stmt if is_uniform([stmt.value], self.written) else None
        if isinstance(stmt, ir.For):
            body = self.block(statements(stmt.body))
            return self.checked(_loop(stmt, stmt.loop_var, body), stmt.min, stmt.extent) if body else None
        if isinstance(stmt, ir.IfThenElse):
            then = self.block(statements(stmt.then_case))
            otherwise = [] if stmt.else_case is None else self.block(statements(stmt.else_case))
            if not then and not otherwise:
                return None
            rebuilt = ir.IfThenElse(stmt.condition, _block(then), _block(otherwise) if otherwise else None, stmt.span)
            return self.checked(rebuilt, stmt.condition)
        if isinstance(stmt, (ir.While, ir.AttrStmt)) and self.block(statements(stmt.body)):
            self.possible = False
        return None

    def checked(self, stmt: Any, *conditions: Any) -> Any:
        if not is_uniform(conditions, self.written):
            self.possible = False
        return stmt

    def ring(self, ring: Ring) -> Any:
        loop, counter = ring.loop, self.counters[ring.loop]
        var = ir.Var(loop.loop_var.name, str(loop.loop_var.ty))
        begin, place = counter.bind()
        renamed = _substitution(loop.loop_var, var)
        # A producer waits for a feed where the consumers first use one, so that tiles are asked for in the order of their use.
        known = [stmt for stmt in ring.body if isinstance(stmt, ir.Bind) and is_uniform([stmt.value], self.written)]
        body: list[Any] = [*begin, *map(renamed, known)]
        for feed in sorted(ring.feeds, key=lambda feed: feed.first_use):
            slots = self.splitter.slots[feed]
            full = _element(slots.full, place.slot)
            body.append(_call("tl::mbarrier_wait", _address(_element(slots.empty, place.slot)), 1 - place.lap))
            body.append(_call("tl::mbarrier_arrive_expect_tx", _address(full), ir.IntImm("int32", feed.bytes)))
            barrier = Region(slots.full, (place.slot,), (1,))
            for _, copy in feed.copies:
                target = _versioned_region(copy.dst, slots.versions[copy.dst.buffer], place.slot)
                moved = Copy(copy.src, target, barrier, kind="tma", eviction_policy=copy.eviction_policy)
                body.append(renamed(moved.to_stmt(loop.span)))
        body += counter.step()
        return self.checked(_loop(loop, var, _without_unused(body)), loop.min, loop.extent)


class _ConsumerPart:
    """The statements of the consumers: everything, with waits and arrivals in place of the copies."""

    def __init__(self, splitter: _Splitter):
        self.splitter = splitter
        self.counters = {loop: _Counter(ring, "consumed") for loop, ring in splitter.rings.items()}

    def of(self, top: list[Any]) -> Any:
        starts = [stmt for counter in self.counters.values() for stmt in counter.start()]
        return _block([*starts, *(self.statement(stmt) for stmt in top if not _is_register_hint(stmt))])

    def statement(self, stmt: Any) -> Any:
        if stmt in self.splitter.rings:
            return self.ring(self.splitter.rings[stmt])
        if isinstance(stmt, ir.SeqStmt):
            return _block([self.statement(child) for child in stmt.seq])
        if isinstance(stmt, ir.For) and "tl.parallel" not in stmt.annotations:
            return _loop(stmt, stmt.loop_var, [self.statement(stmt.body)], keep=True)
        if isinstance(stmt, ir.IfThenElse):
            otherwise = None if stmt.else_case is None else self.statement(stmt.else_case)
            return ir.IfThenElse(stmt.condition, self.statement(stmt.then_case), otherwise, stmt.span)
        return stmt

    def ring(self, ring: Ring) -> Any:
        loop, counter = ring.loop, self.counters[ring.loop]
        begin, place = counter.bind()
        copies = {at for feed in ring.feeds for at, _ in feed.copies}
        deferred = _deferred_products(ring, self.splitter.threads) if self.splitter.wgmma else set()
        body: list[Any] = [*begin]
        for at, stmt in enumerate(ring.body):
            for feed in ring.feeds:
                if feed.first_use == at:
                    full = _address(_element(self.splitter.slots[feed].full, place.slot))
                    body.append(_call("tl::mbarrier_wait", full, place.lap))
            if at in copies:
                continue
            body.append(self.versioned(_with_wait(stmt, IN_FLIGHT) if at in deferred else stmt, ring, place))
            if not deferred:
                body += [self.release(feed, place.slot) for feed in ring.feeds if feed.last_use == at]
        after: list[Any] = []
        if deferred:
            first = loop.loop_var > loop.min
            released = [self.release(feed, place.before()) for feed in ring.feeds]
            body.append(ir.IfThenElse(first, _block([_call(f"tl::wgmma_wait<{len(deferred)}>"), *released]), None))
            start = _Place(ir.IntImm("int32", 0), ir.IntImm("int32", 0), ring.stages)
            after += [self.versioned(_with_wait(ring.body[at], COMPLETE), ring, start) for at in sorted(deferred)]
            if ring.nested:
                last = [self.release(feed, counter.now().before()) for feed in ring.feeds]
                after.append(ir.IfThenElse(loop.extent > 0, _block(last), None))
        body += counter.step()
        return _block([_loop(loop, loop.loop_var, body), *after])

    def release(self, feed: Feed, stage: Any) -> Any:
        return _call("tl::mbarrier_arrive_warp", _address(_element(self.splitter.slots[feed].empty, stage)))

    def versioned(self, stmt: Any, ring: Ring, place: _Place) -> Any:
        """``stmt`` over this iteration's version of the ring's buffers."""
        versions: dict[Any, Any] = {}
        for feed in ring.feeds:
            versions.update(self.splitter.slots[feed].versions)
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

        def store(node: Any) -> Any:
            new = versions.get(node.buffer)
            return node if new is None else ir.BufferStore(new, node.value, [stage, *node.indices], node.span)

        return tvm_ffi.structural_map(stmt, [(ir.TensorLoad, load), (ir.TensorRegion, region), (ir.BufferStore, store)])


def _deferred_products(ring: Ring, threads: int) -> set[int]:
    """Positions of products that may stay in flight: all feeds end in one, and only products touch the accumulators."""
    products: dict[int, Gemm] = {}
    for at, stmt in enumerate(ring.body):
        op = decode(stmt.value) if isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value) else None
        if isinstance(op, Gemm) and op.wg_wait == 0 and op.kind == "gemm" and op.clear_accum in (False, 0):
            products[at] = op
    if not products or not all(feed.last_use in products for feed in ring.feeds):
        return set()
    fed = set(ring.buffers)
    for op in products.values():
        if op.a.buffer not in fed or op.b.buffer not in fed or plan_gemm(op, threads) is None:
            return set()
    accumulators = {op.c.buffer for op in products.values()}
    others = (stmt for at, stmt in enumerate(ring.body) if at not in products)
    if any(accumulators & buffers_of(stmt) for stmt in others):
        return set()
    return set(products)


def _with_wait(stmt: Any, wait: int) -> Any:
    return decode(stmt.value).replace(wg_wait=wait).to_stmt(stmt.span)


def _versioned_region(region: Region, buffer: Any, stage: Any) -> Region:
    return Region(buffer, (stage, *region.mins), (1, *region.extents))


def _substitution(old: Any, new: Any) -> Callable[[Any], Any]:
    def var(node: Any) -> Any:
        return new if node.same_as(old) else node

    return lambda stmt: tvm_ffi.structural_map(stmt, [(ir.Var, var)])


def _loop(loop: Any, var: Any, body: list[Any], keep: bool = False) -> Any:
    notes = {} if not keep else dict(loop.annotations)
    return ir.For(var, loop.min, loop.extent, loop.kind, _block(body), annotations=notes, span=loop.span)


def _block(stmts: list[Any]) -> Any:
    flat = [inner for stmt in stmts for inner in statements(stmt)]
    if not flat:
        return ir.Evaluate(ir.IntImm("int32", 0))
    return flat[0] if len(flat) == 1 else ir.SeqStmt(flat)


def _element(buffer: Any, index: Any) -> Any:
    return ir.BufferLoad(buffer, [constant(index)])


def _address(load: Any) -> Any:
    return ir.tirx.address_of(load)


def _call(function: str, *arguments: Any) -> Any:
    return ir.Evaluate(ir.tirx.call_extern("int32", function, *arguments))


def _operators(body: Any) -> list[Any]:
    found = []
    for node in walk(body):
        if isinstance(node, ir.Evaluate) and is_tile_op(node.value):
            found.append(decode(node.value))
    return found


def _is_hint(stmt: Any) -> bool:
    if not (isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value)):
        return False
    op = decode(stmt.value)
    return type(op).__module__.endswith(".hint") and not isinstance(op, MaxRegisters)


def _is_register_hint(stmt: Any) -> bool:
    return isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value) and isinstance(decode(stmt.value), MaxRegisters)


def _without_unused(stmts: list[Any]) -> list[Any]:
    """The statements without bindings that none of them uses."""
    used: set[Any] = set()
    kept: list[Any] = []
    for stmt in reversed(stmts):
        if isinstance(stmt, ir.Bind) and stmt.var not in used:
            continue
        for node in walk(stmt):
            for expr in statement_exprs(node):
                used.update(variables(expr))
        kept.append(stmt)
    return kept[::-1]
