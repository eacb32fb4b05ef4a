"""Statements that may have to wait: barriers of threads, of the grid, of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.state import WARP, Lanes, union
from tilelang.interpreter.strands import Times
from tilelang.interpreter.survey import evaluated
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.ir.visit import walk, walk_expr
from tilelang.tileop import is_tile_op
from tilelang.tileop.thread import INTRINSICS, NAMED_BARRIERS, counts_warps, intrinsic_name, runs_foreign_code

STEPS: dict[str, Callable[[Compiler, Any, Any], Step]] = {}
"""Intrinsic -> what makes its step, of ``(compiler, call, span)``."""


def waits(*names: str) -> Callable[[Callable], Callable]:
    """Decorator: the function makes the step of these intrinsics."""

    def register(make: Callable) -> Callable:
        STEPS.update(dict.fromkeys(names, make))
        return make

    return register


def step(c: Compiler, call: Any, span: Any) -> Step | None:
    """The step of a call that may have to wait or ends lanes; None for any other.

    Args:
        c: the compiler.
        call: the call.
        span: of the statement.
    """
    name = intrinsic_name(call)
    return STEPS[name](c, call, span) if name in STEPS else None


def until(
    span: Any,
    ready: Callable[[Lanes], bool],
    what: Callable[[Lanes], str],
    before: Callable[[Lanes], Any] = lambda x: None,
    after: Callable[[Lanes], Any] = lambda x: None,
    alone: bool = True,
) -> Step:
    """A step that waits.

    Args:
        span: of the statement.
        ready: whether to go on.
        what: gives what it waits for, in a finding.
        before, after: done once when the lanes come here, and when they go on.
        alone: whether a part of the block's threads may come here before the others.

    Returns:
        The step.
    """

    def run(x: Lanes) -> bool:
        x.begin(span)
        before(x)
        if not ready(x):
            x.find("deadlock", f"threads wait for {what(x)}")
        x.synchronise()
        after(x)
        return False

    def wait(x: Lanes) -> Iterator[None]:
        x.begin(span)
        before(x)
        while not ready(x):
            x.block.waiting = what(x), span
            yield None
        x.run.progress += 1
        x.synchronise()
        after(x)
        return False

    return Step(run, wait, alone=alone)


@waits("thread_return")
def _thread_return(c: Compiler, call: Any, span: Any) -> Step:
    def run(x: Lanes) -> bool:
        x.span = span
        if x.nest is not None:
            x.find("divergence", "return inside of T.Parallel ends the thread that runs the iteration, which is not specified")
            return True
        x.returned = union(x.returned, x.mask)
        x.block.exited = x.block.exited | x.mask
        x.run.progress += 1
        return True

    return Step(run)


class ThreadBarrier:
    """A reusable barrier between threads.

    Attributes:
        arrived: a bool for each thread: whether it has arrived in this phase.
        phase: how many phases are complete.
        clock: the joined clocks of those that arrived.
        published: the same when the last phase was complete. A thread that waits may go on after others have arrived at the next.
    """

    def __init__(self, lanes: int):
        self.arrived = np.zeros(lanes, bool)
        self.phase = 0
        self.clock: Times = {}
        self.published: Times = {}

    def arrive(self, x: Lanes, needed: int | None) -> int:
        """The active lanes arrive; gives the number of the phase whose end they wait for.

        Args:
            x: the state.
            needed: how many threads complete the phase; None for all of the block that still run.
        """
        phase = self.phase
        self.arrived = self.arrived | x.mask
        x.strand.release(self.clock)
        x.run.progress += 1
        self.complete(x, needed)
        return phase

    def complete(self, x: Lanes, needed: int | None) -> None:
        """Ends the phase if all threads that it needs have arrived; threads that have returned are not waited for."""
        whole = (self.arrived | x.block.exited).all() if needed is None else int(self.arrived.sum()) >= needed
        if whole and self.arrived.any():
            self.arrived = np.zeros_like(self.arrived)
            self.phase += 1
            self.published = dict(self.clock)


@waits("sync_threads")
def _sync_threads(c: Compiler, call: Any, span: Any) -> Step:
    return _barrier_step(span, _hardware_barrier(c, call), "threads that do not come to the barrier")


def _hardware_barrier(c: Compiler, call: Any) -> Callable[[Lanes], tuple[ThreadBarrier, int | None]]:
    """The barrier that a call names, 0 if it names none, and how many threads meet there: None for those of the block."""
    number, count = ([compiled(c, arg) for arg in call.args] + [None, None])[:2]

    def barrier_of(x: Lanes) -> tuple[ThreadBarrier, int | None]:
        key = 0 if number is None else x.uniform(number(x))
        needed = None if count is None else x.uniform(count(x))
        if key not in NAMED_BARRIERS:
            x.find("barrier", f"a block has the barriers 0 to {NAMED_BARRIERS[-1]}, and none of number {key}")
        if needed is not None and not counts_warps(needed):
            x.find("barrier", f"the threads that meet at a barrier are whole warps, and {needed} is no positive multiple of 32")
        return x.block.thread_barrier(key), needed

    return barrier_of


def _barrier_step(span: Any, barrier_of: Callable[[Lanes], tuple[ThreadBarrier, int | None]], what: str) -> Step:
    def run(x: Lanes) -> bool:
        x.begin(span)
        barrier, needed = barrier_of(x)
        # These lanes run to their end without giving way, so no other thread can arrive while they are here.
        if barrier.arrive(x, needed) == barrier.phase:
            x.find("deadlock", f"threads wait for {what}")
            barrier.arrived[:] = False
        x.cross_barrier()
        x.strand.acquire(barrier.published)
        return False

    def wait(x: Lanes) -> Iterator[None]:
        x.begin(span)
        barrier, needed = barrier_of(x)
        phase = barrier.arrive(x, needed)
        while barrier.phase == phase:
            # A thread that returns meanwhile completes the phase without arriving.
            barrier.complete(x, needed)
            if barrier.phase == phase:
                x.block.waiting = what, span
                yield None
        x.cross_barrier()
        x.strand.acquire(barrier.published)
        return False

    return Step(run, wait, alone=True)


@waits("named_barrier_arrive")
def _named_arrive(c: Compiler, call: Any, span: Any) -> Step:
    barrier_of = _hardware_barrier(c, call)

    def run(x: Lanes) -> bool:
        x.begin(span)
        barrier, needed = barrier_of(x)
        barrier.arrive(x, needed)
        return False

    return Step(run)


@waits("sync_warp")
def _sync_warp(c: Compiler, call: Any, span: Any) -> Step:
    def run(x: Lanes) -> bool:
        x.begin(span)
        # Which thread runs an iteration of a T.Parallel is not specified; where all threads come, no warp is parted.
        if x.nest is None and x.mask is not True and _parts_a_warp(x.mask, x.mask | x.block.exited):
            x.find("divergence", "T.sync_warp is run by a part of a warp only")
        x.cross_barrier()
        x.strand.synchronise_warps()
        return False

    return Step(run)


def _parts_a_warp(came: np.ndarray, came_or_left: np.ndarray) -> bool:
    """Whether some lanes of a warp have come, and others neither have nor have returned."""
    warps = (slice(lane, lane + WARP) for lane in range(0, len(came), WARP))
    return any(came[warp].any() and not came_or_left[warp].all() for warp in warps)


# The grid and clusters -----------------------------------------------------------------------------------------------


class BlockBarrier:
    """A barrier between blocks: of the grid, or of a cluster. Blocks also get from it what others load for them (multicast).

    Attributes:
        blocks: the blocks by their number in it.
        count: how many blocks it is for.
        arrived: how many blocks have arrived in this phase.
        phase: how many phases are complete.
        order: happens-before between the blocks of the launch.
        clock: the joined clocks of the threads that have arrived.
    """

    def __init__(self, count: int, order: Any):
        self.order = order
        self.clock: Times = {}
        self._published: Times = {}
        self.blocks: dict[int, Any] = {}
        self.count = count
        self.arrived = 0
        self.phase = 0
        self._sent: dict[int, list[Any]] = {}
        self._asked: dict[int, list[Callable[[Any], None]]] = {}

    def memory_of(self, x: Lanes, rank: int, place: Callable[[Any], Any]) -> Any:
        """What another block has in its shared memory; None, and a finding, where it may not have it yet, or is not there.

        Args:
            x: the state, which gets the finding.
            rank: the block's number.
            place: gives the memory of a block, or None.
        """
        if not 0 <= rank < self.count:
            x.find("out-of-bounds", f"block {rank} of a cluster of {self.count} is named")
            return None
        other = self.blocks.get(rank)
        found = None if other is None else place(other)
        if found is None:
            x.find("race", f"memory of block {rank} of the cluster is used before a T.cluster_sync: it may not have begun")
        return found

    def send(self, rank: int, value: Any) -> None:
        """Gives a block a tile that another block has loaded for it."""
        self._sent.setdefault(rank, []).append(value)
        self._deliver(rank)

    def receive(self, rank: int, take: Callable[[Any], None]) -> None:
        """Has ``take`` called with the next tile that is sent to a block."""
        self._asked.setdefault(rank, []).append(take)
        self._deliver(rank)

    def _deliver(self, rank: int) -> None:
        sent, asked = self._sent.get(rank), self._asked.get(rank)
        while sent and asked:
            asked.pop(0)(sent.pop(0))

    def arrive(self, x: Lanes) -> int:
        """Counts a block; gives the number of the phase whose end it waits for."""
        phase = self.phase
        self.arrived += 1
        x.run.progress += 1
        x.strand.release(self.clock)
        if self.arrived >= self.count:
            self.arrived = 0
            self.phase += 1
            # A copy: blocks that go on arrive at the next phase while others have not seen the end of this one.
            self._published = dict(self.clock)
            self._order_blocks()
        return phase

    def has_ended(self, x: Lanes, phase: int) -> bool:
        """Whether a phase is complete; then what follows comes after it."""
        if self.phase == phase:
            return False
        x.strand.acquire(self._published)
        return True

    def _order_blocks(self) -> None:
        """Orders the blocks' accesses before the barrier before those after it."""
        # Where all blocks of the launch meet, everything before comes before everything after: no clocks are needed for that.
        if self.count == self.order.size:
            self.order.phase += 1
            return
        for _ in range(2):  # once to release each block's clock, once to acquire all of them
            for block in self.blocks.values():
                self.order.synchronise(block.number, id(self))


def _check_whole_block(x: Lanes, name: str) -> None:
    """Reports a statement of the whole block that only some of its threads execute."""
    if not (np.asarray(x.mask) | x.block.exited).all():
        x.find("divergence", f"T.{name} is run by some threads of the block only")


def _blocks_step(name: str, blocks: Callable[[Lanes], BlockBarrier], what: str) -> Callable[[Compiler, Any, Any], Step]:
    def make(c: Compiler, call: Any, span: Any) -> Step:
        def before(x: Lanes) -> None:
            _check_whole_block(x, name)
            x.cross_barrier()
            x.block.phases[name] = blocks(x).arrive(x)

        # Others of the block may still wait for another block, which has not had its turn.
        return until(span, lambda x: blocks(x).has_ended(x, x.block.phases[name]), lambda x: what, before, alone=False)

    return make


waits("sync_grid")(_blocks_step("sync_grid", lambda x: x.block.grid, "blocks that do not come to T.sync_grid"))
waits("cluster_sync")(_blocks_step("cluster_sync", lambda x: x.block.cluster, "blocks that do not come to T.cluster_sync"))


@waits("cluster_arrive", "cluster_arrive_relaxed")
def _cluster_arrive(c: Compiler, call: Any, span: Any) -> Step:
    def run(x: Lanes) -> bool:
        x.begin(span)
        _check_whole_block(x, "cluster_arrive")
        x.block.phases["cluster"] = x.block.cluster.arrive(x)
        return False

    return Step(run)


@waits("cluster_wait")
def _cluster_wait(c: Compiler, call: Any, span: Any) -> Step:
    def ready(x: Lanes) -> bool:
        if "cluster" not in x.block.phases:
            x.find("barrier", "T.cluster_wait without T.cluster_arrive")
            return True
        return x.block.cluster.has_ended(x, x.block.phases["cluster"])

    return until(span, ready, lambda x: "blocks that do not come to T.cluster_arrive")


def spins(stmt: Any) -> bool:
    """Whether a loop may wait for other blocks or threads: its condition or body reads global memory, or any atomically."""
    nodes = [node for expr in (stmt.condition, *evaluated(stmt.body)) for node in walk_expr(expr)]
    if any((intrinsic_name(node) or "").startswith("atomic") for node in nodes):
        return True
    return any(is_global(node.source) for node in nodes if isinstance(node, ir.TensorLoad))


def may_end_by_itself(stmt: Any) -> bool:
    """Whether a loop that polls memory may end after some turns with nothing changed by others: it counts them, say."""
    inside = [*walk(stmt.body)]
    if any(isinstance(each, (ir.BufferStore, ir.AllocBuffer)) or runs_foreign_code(each) for each in inside):
        return True
    exprs = [stmt.condition, *evaluated(stmt.body)]
    calls = [node for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.Call)]
    return any(is_tile_op(call) or not _only_reads(call) for call in calls)


def _only_reads(call: Any) -> bool:
    name = intrinsic_name(call)
    return name is None or name == "atomic_load" or INTRINSICS[name].pure
