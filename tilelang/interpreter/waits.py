"""Statements that may have to wait: barriers of threads, of the grid, of clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.state import Lanes, union
from tilelang.interpreter.strands import Times
from tilelang.interpreter.survey import evaluated
from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_global
from tilelang.ir.visit import walk_expr
from tilelang.tileop.thread import intrinsic_name

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
    what: str,
    before: Callable[[Lanes], Any] = lambda x: None,
    after: Callable[[Lanes], Any] = lambda x: None,
) -> Step:
    """A step that waits.

    Args:
        span: of the statement.
        ready: whether to go on.
        what: what it waits for, in a finding.
        before, after: done once when the lanes come here, and when they go on.

    Returns:
        The step.
    """

    def run(x: Lanes) -> bool:
        x.begin(span)
        before(x)
        if not ready(x):
            x.find("deadlock", f"threads wait for {what}")
        after(x)
        return False

    def wait(x: Lanes) -> Iterator[None]:
        x.begin(span)
        before(x)
        while not ready(x):
            x.block.waiting = what, span
            yield None
        x.run.progress += 1
        after(x)
        return False

    return Step(run, wait, alone=True)


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


class Meeting:
    """A reusable barrier between threads.

    Attributes:
        arrived: the threads that arrived in this phase.
        turn: how many phases are complete.
        clock: the joined clocks of those that arrived.
    """

    def __init__(self, lanes: int):
        self.arrived = np.zeros(lanes, bool)
        self.turn = 0
        self.clock: Times = {}

    def come(self, x: Lanes, needed: int | None) -> int:
        """Counts the active lanes; gives the number of the phase whose end they wait for."""
        turn = self.turn
        self.arrived = self.arrived | x.mask
        x.strand.release(self.clock)
        x.run.progress += 1
        self.look(x, needed)
        return turn

    def look(self, x: Lanes, needed: int | None) -> None:
        """Ends the phase where all threads arrived; threads that have returned are not waited for."""
        whole = (self.arrived | x.block.exited).all() if needed is None else int(self.arrived.sum()) >= needed
        if whole and self.arrived.any():
            self.arrived = np.zeros_like(self.arrived)
            self.turn += 1


@waits("sync_threads")
def _sync_threads(c: Compiler, call: Any, span: Any) -> Step:
    number = compiled(c, call.args[0]) if call.args else None
    count = compiled(c, call.args[1]) if len(call.args) > 1 else None

    def meeting(x: Lanes) -> tuple[Meeting, int | None]:
        key = 0 if number is None else _one(x, number(x))
        return x.block.meeting(key), None if count is None else _one(x, count(x))

    return _meeting_step(span, meeting, "threads that do not come to the barrier")


def _one(x: Lanes, value: Any) -> int:
    return int(value) if not np.ndim(value) else int((value if x.mask is True else value[x.mask])[0])


def _meeting_step(span: Any, meeting: Callable[[Lanes], tuple[Meeting, int | None]], what: str) -> Step:
    def run(x: Lanes) -> bool:
        x.begin(span)
        place, needed = meeting(x)
        if place.come(x, needed) == place.turn:
            x.find("deadlock", f"threads wait for {what}")
            place.arrived[:] = False
        _order(x)
        x.strand.acquire(place.clock)
        return False

    def wait(x: Lanes) -> Iterator[None]:
        x.begin(span)
        place, needed = meeting(x)
        turn = place.come(x, needed)
        while place.turn == turn:
            # A thread that returns meanwhile completes the phase without arriving.
            place.look(x, needed)
            if place.turn == turn:
                x.block.waiting = what, span
                yield None
        _order(x)
        x.strand.acquire(place.clock)
        return False

    return Step(run, wait, alone=True)


def _order(x: Lanes) -> None:
    """Orders all accesses before a barrier before all accesses after it."""
    x.run.clock += 1
    x.interval = x.run.clock


@waits("named_barrier_arrive")
def _named_arrive(c: Compiler, call: Any, span: Any) -> Step:
    number, count = compiled(c, call.args[0]), compiled(c, call.args[1])

    def run(x: Lanes) -> bool:
        x.begin(span)
        x.block.meeting(_one(x, number(x))).come(x, _one(x, count(x)))
        return False

    return Step(run)


@waits("sync_warp")
def _sync_warp(c: Compiler, call: Any, span: Any) -> Step:
    def run(x: Lanes) -> bool:
        x.begin(span)
        _order(x)
        return False

    return Step(run)


# The grid and clusters -----------------------------------------------------------------------------------------------


class Blocks:
    """A barrier between blocks: of the grid, or of a cluster.

    Attributes:
        blocks: by their number in it.
        arrived: how many blocks arrived in this phase, of those that still run.
        turn: how many phases are complete.
        order: happens-before between the blocks of the launch.
        clock: what their threads published before they arrived.
    """

    def __init__(self, count: int, order: Any):
        self.order = order
        self.clock: Times = {}
        self._published: Times = {}
        self.blocks: dict[int, Any] = {}
        self.count = count
        self.arrived = 0
        self.turn = 0
        self._sent: dict[int, list[Any]] = {}
        self._asked: dict[int, list[Callable[[Any], None]]] = {}

    def send(self, rank: int, value: Any) -> None:
        """Gives a block a tile that was loaded for it."""
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

    def come(self, x: Lanes) -> int:
        """Counts a block; gives the number of the phase whose end it waits for."""
        turn = self.turn
        self.arrived += 1
        x.run.progress += 1
        x.strand.release(self.clock)
        if self.arrived >= self.count:
            self.arrived = 0
            self.turn += 1
            self._published = dict(self.clock)
            self._all_came()
        return turn

    def has_ended(self, x: Lanes, turn: int) -> bool:
        """Whether a phase is complete; then what follows comes after it."""
        if self.turn == turn:
            return False
        x.strand.acquire(self._published)
        return True

    def _all_came(self) -> None:
        if self.count == self.order.size:
            self.order.turn += 1
            return
        for _ in range(2):  # once to release each block's clock, once to acquire all of them
            for block in self.blocks.values():
                self.order.synchronise(block.number, id(self))


def _together(x: Lanes, name: str) -> None:
    """A finding unless all threads of the block execute the statement."""
    if not (np.asarray(x.mask) | x.block.exited).all():
        x.find("divergence", f"T.{name} is run by some threads of the block only")


def _blocks_step(name: str, blocks: Callable[[Lanes], Blocks], what: str) -> Callable[[Compiler, Any, Any], Step]:
    def make(c: Compiler, call: Any, span: Any) -> Step:
        def before(x: Lanes) -> None:
            _together(x, name)
            _order(x)
            x.block.turns[name] = blocks(x).come(x)

        return until(span, lambda x: blocks(x).has_ended(x, x.block.turns[name]), what, before)

    return make


waits("sync_grid")(_blocks_step("sync_grid", lambda x: x.block.grid, "blocks that do not come to T.sync_grid"))
waits("cluster_sync")(_blocks_step("cluster_sync", lambda x: x.block.cluster, "blocks that do not come to T.cluster_sync"))


@waits("cluster_arrive", "cluster_arrive_relaxed")
def _cluster_arrive(c: Compiler, call: Any, span: Any) -> Step:
    def run(x: Lanes) -> bool:
        x.begin(span)
        _together(x, "cluster_arrive")
        x.block.turns["cluster"] = x.block.cluster.come(x)
        return False

    return Step(run)


@waits("cluster_wait")
def _cluster_wait(c: Compiler, call: Any, span: Any) -> Step:
    def ready(x: Lanes) -> bool:
        if "cluster" not in x.block.turns:
            x.find("barrier", "T.cluster_wait without T.cluster_arrive")
            return True
        return x.block.cluster.has_ended(x, x.block.turns["cluster"])

    return until(span, ready, "blocks that do not come to T.cluster_arrive")


def spins(stmt: Any) -> bool:
    """Whether a loop may wait for other blocks or threads: its condition or body reads global memory, or any atomically."""
    nodes = [node for expr in (stmt.condition, *evaluated(stmt.body)) for node in walk_expr(expr)]
    if any((intrinsic_name(node) or "").startswith("atomic") for node in nodes):
        return True
    return any(is_global(node.source) for node in nodes if isinstance(node, ir.TensorLoad))
