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

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.facts import Facts
from tilelang.ir.visit import flattened
from tilelang.target.cuda.arch import WARP_GROUP
from tilelang.target.cuda.specialize.consumer import ConsumerPart
from tilelang.target.cuda.specialize.producer import ProducerPart
from tilelang.target.cuda.specialize.ring import Ring, Usage, buffers_of, find_rings
from tilelang.target.cuda.specialize.ring_code import call
from tilelang.target.cuda.tile.build import block
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.tree import SINGLE_THREAD, WARP_ROLE

PRODUCER_REGISTERS = 24

_MAX_REGISTERS = 240
_REGISTER_FILE = 65536
_MAX_THREADS = 1024


def specialize(kernel: Kernel, facts: Facts, wgmma: bool = True) -> Kernel:
    """The kernel with a producer warp group, or the same kernel where that does not apply."""
    threads = kernel.threads[0][1] if kernel.threads else 1
    one_dimensional = kernel.thread_count == threads and threads % WARP_GROUP == 0 and threads < _MAX_THREADS
    usage = Usage(kernel.body, [var for var, _ in kernel.threads], kernel.gathers)
    rings = find_rings(kernel.body, facts, usage) if one_dimensional else []
    if not rings:
        return kernel
    body = _Splitter(rings, usage, threads, wgmma).split(kernel.body)
    if body is None:
        return kernel
    (var, _), *others = kernel.threads
    return replace(kernel, threads=((var, threads + WARP_GROUP), *others), body=body)


class _Splitter:
    def __init__(self, rings: Sequence[Ring], usage: Usage, threads: int, wgmma: bool):
        self.rings = {ring.loop: ring for ring in rings}
        self.usage = usage
        self.threads = threads
        self.groups = threads // WARP_GROUP
        self.wgmma = wgmma

    def split(self, body: Any) -> Any | None:
        """The body with its two roles; None where the producer would need what only consumers know."""
        top = flattened(body)
        shared, rest = self._shared_part(top)
        producer = ProducerPart(self.rings, self.usage).of(rest)
        if producer is None:
            return None
        off, for_producer, for_consumer = self._registers()
        consumer = ConsumerPart(self.rings, self.threads, for_consumer, self.wgmma).of(rest)
        # One thread starts every copy; the other 127 exist because registers are given back by whole warp groups (PTX manual,
        # "setmaxnreg").
        one = ir.AttrStmt(ir.StringImm("thread"), SINGLE_THREAD, ir.IntImm("int32", 1), producer)
        give, take = ([] if off else [call("ring_registers", *each)] for each in (("dec", for_producer), ("inc", for_consumer)))
        load = self._role(1 << self.groups, [*give, one])
        compute = self._role((1 << self.groups) - 1, [*take, consumer])
        spans = {stmt.buffer: stmt.span for stmt in top if isinstance(stmt, ir.AllocBuffer)}
        feeds = (feed for ring in self.rings.values() for feed in ring.feeds)
        allocations = [stmt for feed in feeds for stmt in feed.allocations(self.threads, spans)]
        return block([*shared, *allocations, load, compute])

    def _role(self, mask: int, body: list[Any]) -> Any:
        return ir.AttrStmt(ir.StringImm("warp_groups"), WARP_ROLE, ir.IntImm("int32", mask), block(body))

    def _shared_part(self, top: list[Any]) -> tuple[list[Any], list[Any]]:
        """What both roles run: allocations, hints, scalars computed before anything happens, and waits for the kernel before."""
        setup, versioned = set(self.usage.setup), {tile for ring in self.rings.values() for tile in ring.versions}
        before, rest = [], []
        for stmt in top:
            if isinstance(stmt, ir.AllocBuffer):
                # The versions of a tile, one a slot of its ring, are allocated in its place.
                if stmt.buffer not in versioned:
                    before.append(stmt)
            elif stmt in self.usage.hint_statements:
                before += [] if buffers_of(stmt) & versioned else [stmt]
            elif stmt in setup or stmt in self.usage.launch_waits:
                before.append(stmt)
            elif stmt not in self.usage.registers:
                rest.append(stmt)
        return before, rest

    def _registers(self) -> tuple[bool, int, int]:
        """(no reallocation, registers of a producer thread, of a consumer thread)."""
        # All threads are launched with equal shares of the register file, and `setmaxnreg` takes multiples of 8. Consumers
        # can only take what the producer gives back: asking for more would wait for ever.
        launch = min(255, _REGISTER_FILE // (self.threads + WARP_GROUP)) // 8 * 8
        spare = launch * (self.groups + 1) - PRODUCER_REGISTERS
        consumer = min(_MAX_REGISTERS, spare // self.groups // 8 * 8)
        chosen = dict(self.usage.registers.values())
        return "off" in chosen, chosen.get("producer", PRODUCER_REGISTERS), chosen.get("consumer", consumer)
