"""Barriers in shared memory (mbarriers): arrivals, expected bytes, phases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import Evaluate, compiled, intrinsic
from tilelang.interpreter.state import Lanes
from tilelang.interpreter.strands import Strand, Times
from tilelang.interpreter.waits import until, waits
from tilelang.tileop.base import plain


class Barrier:
    """One mbarrier: a phase completes when all arrivals and all expected bytes have come.

    Attributes:
        count: arrivals that complete a phase.
        missing: arrivals that this phase still waits for.
        bytes: bytes that this phase still waits for; negative while they came before they were expected.
        phase: how many phases are complete.
        copies: what completes copies in flight, and who started them.
        clock: what those that arrived had seen.
        published: the same when the last phase was complete. Threads that wait for it go on after others have arrived at the next
            phase, and must not count as ordered after what those did in between.
    """

    def __init__(self, count: int):
        self.start(count)
        self.copies: list[tuple[Callable[[], None], Strand]] = []
        self.clock: Times = {}
        self.published: Times = {}

    def start(self, count: int) -> None:
        """Begins with the first phase."""
        self.count = self.missing = count
        self.bytes = 0
        self.phase = 0

    def arrive(self, x: Lanes, times: int = 1) -> None:
        """Counts arrivals."""
        x.strand.release(self.clock)
        self.missing -= times
        x.run.progress += 1
        # An arrival after the last one belongs to the next phase, unless this phase still waits for bytes.
        if self.missing < 0:
            x.find("barrier", f"a barrier of {self.count} arrivals gets more in one phase")
            self.missing = 0
        self.settle(x)

    def expect(self, x: Lanes, count: int) -> None:
        """Adds to the bytes that the phase expects."""
        self.bytes += count
        x.run.progress += 1

    def lacks(self) -> str:
        """What the phase still waits for, in words."""
        parts = [f"{self.missing} of {self.count} arrivals"] if self.missing else []
        parts += [f"{self.bytes} bytes"] if self.bytes > 0 else []
        parts += [f"the announcement of {-self.bytes} bytes"] if self.bytes < 0 else []
        return " and ".join(parts)

    def settle(self, x: Lanes) -> None:
        """Completes the phase if nothing is outstanding; this is the last moment for copies in flight."""
        if self.missing == 0:
            # As late as a GPU may be: what reads before it waits finds the old data.
            for complete, starter in self.copies:
                complete()
                starter.release(self.clock)
            self.copies.clear()
        # Asked only now: the copies above have subtracted the bytes that they brought.
        if self.missing == 0 and self.bytes == 0:
            self.phase += 1
            self.published = dict(self.clock)
            self.missing = self.count
            x.run.progress += 1


class Barriers:
    """The run-time state of a buffer of barriers."""

    def __init__(self, name: str, counts: list[int]):
        self.name = name
        self.items = [Barrier(count) for count in counts]

    def name_of(self, barrier: Barrier) -> str:
        """The name of one of them."""
        return self.name if len(self.items) == 1 else f"{self.name}[{self.items.index(barrier)}]"

    def at(self, x: Lanes, index: Any) -> Barrier:
        """The barrier at an index on which the active lanes agree."""
        index = x.uniform(index)
        if not 0 <= index < len(self.items):
            x.find("out-of-bounds", f"{self.name}[{index}] is outside of {self.name}, which has {len(self.items)} barriers")
            index = 0
        return self.items[index]


def allocation(c: Compiler, stmt: Any) -> Step:
    """The step of ``T.alloc_barrier``."""
    slot, name = c.view(stmt.buffer), str(stmt.buffer.name)
    counts = [int(count) for count in plain(stmt.annotations["tl.arrive_counts"])]

    def run(x: Lanes) -> bool:
        x.views[slot] = Barriers(name, counts)
        x.block.barriers[slot] = x.views[slot]
        return False

    return Step(run)


def chosen(x: Lanes, slot: int, index: Any) -> Iterator[tuple[Barrier, int]]:
    """The barriers that the active lanes name, each with the number of these lanes.

    Args:
        x: the state.
        slot: of the buffer of barriers.
        index: in that buffer, a number or an array over the lanes.
    """
    count = x.lanes if x.mask is True else int(x.mask.sum())
    barriers = x.views[slot]
    if not np.ndim(index):
        yield barriers.at(x, index), count
        return
    values = index if x.mask is True else index[x.mask]
    for value, times in zip(*np.unique(values, return_counts=True)):
        yield barriers.at(x, value), int(times)


def place_of(c: Compiler, load: Any) -> tuple[int, Evaluate]:
    """The slot of a barrier's buffer, and its index."""
    return c.view(load.source), compiled(c, load.indices[0])


@intrinsic("init_barrier")
def _restart(c: Compiler, call: Any) -> Evaluate:
    (slot, index), count = place_of(c, call.args[0]), compiled(c, call.args[1])

    def evaluate(x: Lanes) -> None:
        for barrier, times in chosen(x, slot, index(x)):
            if times > 1:
                x.find("barrier", f"a barrier is initialised by {times} threads at once")
            barrier.start(x.uniform(count(x)))

    return evaluate


@intrinsic("barrier_arrive", "mbarrier_arrive")
def _arrive(c: Compiler, call: Any) -> Evaluate:
    if len(call.args) > 1:
        return _arrive_remote(c, call)
    slot, index = place_of(c, call.args[0])

    def evaluate(x: Lanes) -> None:
        for barrier, times in chosen(x, slot, index(x)):
            barrier.arrive(x, times)

    return evaluate


@intrinsic("arrive_cluster_barrier")
def _arrive_remote(c: Compiler, call: Any) -> Evaluate:
    slot, index = place_of(c, call.args[0])
    rank = compiled(c, call.args[1])

    def evaluate(x: Lanes) -> None:
        # Threads may name different blocks, so each arrives by itself.
        ranks = np.broadcast_to(rank(x), (x.lanes,))
        for lane in np.flatnonzero(np.ones(x.lanes, bool) if x.mask is True else x.mask):
            barriers = x.block.cluster.memory_of(x, int(ranks[lane]), lambda other: other.barriers.get(slot))
            if barriers is not None:
                barrier = barriers.at(x, np.broadcast_to(index(x), (x.lanes,))[lane])
                x.block.order.release(x.block.number, barrier)
                barrier.arrive(x)

    return evaluate


@intrinsic("mbarrier_expect_tx")
def _expect(c: Compiler, call: Any) -> Evaluate:
    (slot, index), count = place_of(c, call.args[0]), compiled(c, call.args[1])

    def evaluate(x: Lanes) -> None:
        for barrier, times in chosen(x, slot, index(x)):
            barrier.expect(x, times * x.uniform(count(x)))

    return evaluate


@intrinsic("mbarrier_arrive_expect_tx")
def _arrive_expect(c: Compiler, call: Any) -> Evaluate:
    (slot, index), count = place_of(c, call.args[0]), compiled(c, call.args[1])

    def evaluate(x: Lanes) -> None:
        for barrier, times in chosen(x, slot, index(x)):
            barrier.expect(x, times * x.uniform(count(x)))
            barrier.arrive(x, times)

    return evaluate


@waits("mbarrier_wait_parity", "barrier_wait")
def _wait(c: Compiler, call: Any, span: Any) -> Step:
    (slot, index), parity = place_of(c, call.args[0]), compiled(c, call.args[1])

    def ready(x: Lanes) -> bool:
        for barrier, _ in chosen(x, slot, index(x)):
            if barrier.missing == 0:
                barrier.settle(x)
        # A wait for parity p passes once the phase of that parity has completed. Before any phase a wait for parity 1 passes at
        # once: phase 0 runs, and the one before it counts as complete. That is how a producer finds empty buffers.
        return all(barrier.phase % 2 != x.uniform(parity(x)) & 1 for barrier, _ in chosen(x, slot, index(x)))

    def after(x: Lanes) -> None:
        for barrier, _ in chosen(x, slot, index(x)):
            x.strand.acquire(barrier.published)
            x.block.order.acquire(x.block.number, barrier)

    def lacking(x: Lanes) -> str:
        first = next(barrier for barrier, _ in chosen(x, slot, index(x)) if barrier.phase % 2 == x.uniform(parity(x)) & 1)
        return f"phase {first.phase} of {x.views[slot].name_of(first)}, which lacks {first.lacks()}"

    return until(span, ready, lacking, after=after)
