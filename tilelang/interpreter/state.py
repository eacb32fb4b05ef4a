"""The state of a running block: values of variables, views of buffers, and which lanes take part.

Outside of ``T.Parallel`` the lanes are the threads of the block: what is the same in all of them is a scalar, what differs is an
array over the threads, and :attr:`Lanes.mask` says which threads run the statement (True: all of the block). Inside
of a ``T.Parallel`` the lanes are its iterations.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.interpreter.strands import Strand
from tilelang.ir.memory import FRAGMENT
from tilelang.ir.span import location_of

WARP = 32
"""Threads of a warp."""

WARP_GROUP = 128
"""Threads of the four warps that execute products together."""


class Lanes:
    """The state that a statement runs in: values, memory and active lanes.

    Attributes:
        values: of variables, by slot.
        views: of buffers, by slot.
        lanes: how many lanes.
        lane_ids: their numbers.
        mask: the active lanes; True for all.
        interval: number of the present interval; accesses of different lanes in one interval are in no order.
        since: where the program orders its threads itself, the number of the interval that began at the last barrier, for memory
            that threads share; else None.
        first: the number of the first lane in records of accesses: iterations differ from threads, and from those of other loops.
        performers: the numbers of the lanes in such records.
        unordered: how many statements around this one let their lanes go on at different times: then no new interval begins.
        loops: for each loop around this statement, the lanes that left it or its iteration.
        nest: the extents of the ``T.Parallel`` whose iterations are the lanes (after the number of threads, where each runs them
            all), or None.
        block: the block that runs.
        run: the whole run.
        span: of the statement that runs.
        returned: the lanes that ended.
        strand: the group of threads that runs.
        diverged: the groups into which branches have split these threads since their last common statement.
    """

    __slots__ = (
        "values", "views", "lanes", "lane_ids", "mask", "interval", "unordered", "loops", "nest", "block", "run", "span",
        "checks", "returned", "strand", "diverged", "since", "first", "performers",
    )  # fmt: skip

    def __init__(self, run: Any, block: Any, lanes: int, values: list[Any], views: list[Any]):
        self.run = run
        self.block = block
        self.lanes = lanes
        self.lane_ids = self.performers = np.arange(lanes, dtype=np.int32)
        self.first = 0
        self.values = values
        self.views = views
        self.mask: Any = True
        self.interval = 0
        self.since: int | None = None
        self.unordered = 0
        self.loops: list[Loop] = []
        self.nest: tuple[int, ...] | None = None
        self.span: Any = None
        self.checks = run.checks
        self.returned: Any = False
        self.strand = Strand(0, {})
        self.diverged: list[tuple[Any, Strand]] = []

    def begin(self, span: Any) -> None:
        """Begins a statement of all threads, ordered after each thread's earlier accesses."""
        if self.diverged:
            self.meet()
        self.enter(span)

    def meet(self) -> None:
        """Joins the clocks of diverged threads."""
        for _, strand in self.diverged:
            self.strand.join(strand)
        self.diverged = []

    def separate(self, mask: Any) -> Strand:
        """The strand (clock) of the threads that take a side of a branch, forked from their own."""
        self.run.strands += 1
        has_each_warp = self.strand.in_warps > 0 and self._has_each(WARP, mask)
        has_each_group = bool(self.strand.products) and self._has_each(WARP_GROUP, mask)
        child = self.strand.child(self.run.strands, has_each_warp, has_each_group)
        for threads, strand in self.diverged:
            if np.any(threads & mask):
                child.join(strand)
        return child

    def _has_each(self, count: int, mask: Any) -> bool:
        """Whether some lanes are of each warp, or group of warps, of so many lanes that the active lanes are of."""
        mine, whole = (np.flatnonzero(np.broadcast_to(lanes, (self.lanes,))) // count for lanes in (mask, self.mask))
        return np.array_equal(np.unique(mine), np.unique(whole))

    def enter(self, span: Any) -> None:
        """Begins a statement that touches no memory shared between threads, so that diverged threads need not meet."""
        self.span = self.run.span = span
        if not self.unordered:
            self.run.clock += 1
            self.interval = self.run.clock
        if self.run.watches:
            self.run.observe(self, span)

    def cross_barrier(self) -> None:
        """Begins a new interval: accesses before a barrier are ordered before those after it."""
        self.run.clock += 1
        self.interval = self.run.clock
        if self.since is not None:
            self.since = self.interval

    def synchronise(self) -> None:
        """After a statement that may order threads: where the program orders its threads itself, that counts as a barrier."""
        if self.since is not None:
            self.cross_barrier()

    def interval_of(self, storage: Any) -> int:
        """The interval of accesses of a storage. What moves elements of a fragment between threads has its own barriers."""
        return self.interval if self.since is None or storage.scope == FRAGMENT else self.since

    def find(self, kind: str, message: str) -> None:
        """Notes a finding at the statement that runs."""
        self.run.findings.add(kind, message, location_of(self.span), self.block.indices if self.block else ())

    def of_any(self, value: Any) -> Any:
        """A value on which the active lanes agree; where a program lets them differ, that of the first one."""
        return value if not np.ndim(value) else (value if self.mask is True else value[self.mask])[0]

    def uniform(self, value: Any) -> int:
        """The same of a number."""
        return int(self.of_any(value))

    def lane_text(self, lane: int) -> str:
        """A lane in a message, by its number in records; -2 stands for several, -3 for all of them."""
        if lane == -3:
            return "every thread" if self.nest is None else "every iteration"
        lane -= self.first
        if not 0 <= lane < self.lanes:
            return "another"
        if self.nest is None:
            return f"thread {lane}"
        place = np.unravel_index(lane, self.nest)
        return f"iteration ({', '.join(str(int(index)) for index in place)})" if len(place) > 1 else f"iteration {lane}"

    def fork(self, mask: Any) -> Lanes:
        """The state of some of the lanes, which go on by themselves."""
        twin = Lanes.__new__(Lanes)
        for name in Lanes.__slots__:
            setattr(twin, name, getattr(self, name))
        twin.values = list(self.values)
        twin.mask = mask
        twin.loops = [Loop() for _ in self.loops]
        twin.diverged = []
        return twin


class Loop:
    """A running loop.

    Attributes:
        broken: the lanes that left it by ``break``.
        continued: the lanes that left this iteration by ``continue``.
        mask: the lanes that began this iteration.
        returned: the lanes that had ended before the loop.
        parted: whether its lanes leave it at different times, so that nothing orders them in it.
    """

    __slots__ = ("broken", "continued", "mask", "parted", "returned")

    def __init__(self, mask: Any = True, returned: Any = False) -> None:
        self.broken: Any = False
        self.continued: Any = False
        self.mask = mask
        self.returned = returned
        self.parted = False

    def part(self, x: Lanes, mask: Any) -> None:
        """Goes on with some of the lanes."""
        x.mask = self.mask = mask
        if not self.parted:
            self.parted = True
            x.unordered += 1


def union(a: Any, b: Any) -> Any:
    """The lanes that are in one of two masks."""
    if a is True or b is True:
        return True
    if a is False:
        return b
    return a if b is False else a | b
