"""Races between groups of threads that run side by side (see :mod:`tilelang.interpreter.together`).

A *strand* is a group of threads from the branch that separates them from the others to the next statement of all threads. It has
a vector clock: how far the accesses of other strands happen before its next one. A barrier joins the clocks of the strands that
arrive, and those that wait for it join the result into theirs. The strand in which a block begins is ordered with all others, so
nothing is recorded before the first branch.

Accesses are recorded as in FastTrack (Flanagan and Freund, "FastTrack: Efficient and Precise Dynamic Race Detection", 2009): of
writes only the last one is kept, since a write that raced with nothing happens after all earlier accesses.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.interpreter.memory import View

Times = dict[int, int]
"""Strand -> how far it has been seen."""


def latest(into: Times, other: Times) -> None:
    """Joins another clock into this one."""
    for strand, time in other.items():
        if into.get(strand, 0) < time:
            into[strand] = time


class Strand:
    """A group of threads that advance together.

    Attributes:
        number: its own; 0 for the strand in which a block begins.
        time: how many times it handed its clock on.
        times: how far other strands' accesses happen before its next one; it publishes this with its own accesses.
        inherited: the same for the strand that it was split off from, which it does not publish.
        in_warps: up to when its accesses are ordered among the threads of each warp.
        products: how far products that its warp groups have waited for happen before its next access.
        ended: the number of the last strand of an earlier launch; all strands up to it have ended before this launch.
    """

    __slots__ = ("number", "time", "times", "inherited", "ended", "in_warps", "products")

    def __init__(self, number: int, times: Times, time: int = 1, inherited: Times | None = None, ended: int = 0):
        self.number = number
        self.in_warps = 0
        self.products: Times = {}
        self.time = time
        self.times = times
        self.inherited: Times = inherited or {}
        self.ended = ended

    @property
    def is_alone(self) -> bool:
        """Whether no other strand runs."""
        return self.number == 0

    def child(self, number: int, has_each_warp: bool, has_each_group: bool = False) -> Strand:
        """A strand of a part of the threads, which begins here.

        Args:
            number: its own.
            has_each_warp, has_each_group: whether the part has threads of each warp, and of each group of four, of the whole.
        """
        if self.is_alone:
            return Strand(number, dict(self.times), ended=self.ended)
        self.time += 1
        # The child's accesses happen after all of the parent's. But its arrival at a barrier must not publish those: accesses of
        # the parent's other threads are ordered by barriers that these threads reach themselves (docs/semantics.md).
        # `self.time` has just advanced: what the parent does while the child runs is later than what the child has seen of it.
        inherited = {**self.inherited, **self.products, self.number: self.time - 1}
        child = Strand(number, dict(self.times), inherited=inherited, ended=self.ended)
        if has_each_warp:
            latest(child.times, {self.number: self.in_warps})
        if has_each_group:
            child.products = dict(self.products)
        return child

    def synchronise_warps(self) -> None:
        """A barrier of each warp: any of its threads publishes from here on what all of them have accessed."""
        if not self.is_alone:
            self.in_warps = self.time
            self.time += 1

    def frozen(self) -> Strand:
        """A snapshot of the clock, for an asynchronous operation that starts now."""
        return Strand(self.number, {**self.times, **self.products}, self.time, dict(self.inherited), self.ended)

    def release(self, into: Times) -> None:
        """Release: publishes the strand's accesses so far, and what it has seen."""
        latest(into, self.times)
        latest(into, self.products)
        if not self.is_alone:
            # Accesses from here on are later than those that are published now, so the strand's own clock advances.
            latest(into, {self.number: self.time})
            self.time += 1

    def acquire(self, clock: Times) -> None:
        """Acquire: orders this strand after the published accesses."""
        latest(self.times, clock)

    def join(self, other: Strand) -> None:
        """Goes on after another strand has ended."""
        latest(self.times, other.times)
        latest(self.times, other.products)
        latest(self.times, {other.number: other.time})

    def wait_for(self, product: Strand) -> None:
        """Goes on after a product. A warp group executes it as one, so that each of its threads publishes its accesses."""
        if not self.is_alone:
            # Its accesses alone: what it follows is older than what this strand has seen meanwhile.
            self.products[product.number] = product.time

    def has_seen(self, number: int, time: int) -> bool:
        """Whether another strand's access at a time happens before this one's present access."""
        if number <= self.ended or number == self.number:
            return True
        return any(times.get(number, 0) >= time for times in (self.times, self.inherited, self.products))


class StrandAccess:
    """Which strand wrote each cell of a storage last, which have read it or updated it atomically since, and when."""

    __slots__ = ("writer", "written", "reads", "updates")

    def __init__(self, cells: int):
        self.writer, self.written = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        self.reads: dict[int, np.ndarray] = {}  # strand -> when it read each cell, 0 where it did not
        self.updates: dict[int, np.ndarray] = {}

    def note(self, x: Any, view: View, at: Any, writes: bool, atomic: bool = False) -> None:
        """Records accesses; those that race with another strand's are findings.

        Args:
            x: the state, which knows the strand that runs.
            view: the buffer.
            at: flat positions.
            writes: whether the accesses write.
            atomic: whether they are atomic updates, which do not race with each other.
        """
        at, strand = np.ravel(at), x.strand
        # An element's cells are accessed together, so the first of them stands for all.
        cell = at * view.cells
        mine = "update" if atomic else "write" if writes else "read"
        unseen = _unseen(strand, self.writer[cell], self.written[cell])
        if unseen.any():
            _report(x, view, at, unseen, mine, "wrote")
        if writes:
            _find_unseen(x, view, at, self.reads, mine, "read")
        if not atomic:
            _find_unseen(x, view, at, self.updates, mine, "updated")
        if writes and not atomic:
            self._note_write(strand, cell)
        else:
            _note_access(self.updates if atomic else self.reads, strand, cell, self.written)

    def _note_write(self, strand: Strand, cell: np.ndarray) -> None:
        """Records writes. Accesses that are ordered after these are also ordered after the earlier ones."""
        for times in (*self.reads.values(), *self.updates.values()):
            times[cell] = 0
        self.writer[cell], self.written[cell] = strand.number, strand.time


def _find_unseen(x: Any, view: View, at: np.ndarray, accesses: dict[int, np.ndarray], mine: str, theirs: str) -> None:
    """Reports accesses of other strands that the strand that runs has not seen.

    Args:
        x, view, at: as for :meth:`StrandAccess.note`.
        accesses: strand -> when it accessed each cell.
        mine, theirs: what the strand does, and what the others did.
    """
    for number, times in accesses.items():
        unseen = _unseen(x.strand, np.int32(number), times[at * view.cells])
        if unseen.any():
            _report(x, view, at, unseen, mine, theirs)


def _note_access(accesses: dict[int, np.ndarray], strand: Strand, cell: np.ndarray, like: np.ndarray) -> None:
    """Records accesses; earlier ones that happen before these are dropped, since whatever follows these follows them.

    Args:
        accesses: strand -> when it accessed each cell.
        strand: the one that runs.
        cell: what it accesses.
        like: an array over all cells.
    """
    for number, times in list(accesses.items()):
        if number != strand.number:
            # A time that has been seen becomes 0, which is no access.
            times[cell] *= _unseen(strand, np.int32(number), times[cell])
            if not times.any():
                del accesses[number]
    mine = accesses.get(strand.number)
    if mine is None:
        mine = accesses[strand.number] = np.zeros_like(like)
    mine[cell] = strand.time


def _unseen(strand: Strand, numbers: Any, times: np.ndarray) -> np.ndarray:
    """Which of the accesses that strands made at some times a strand has not seen; time 0 is none."""
    numbers = np.broadcast_to(numbers, times.shape)
    others = (times != 0) & (numbers != strand.number)
    if not others.any():
        return others
    # Many elements, but few different pairs: whole tiles are accessed by one strand at one time.
    pairs = numbers[others].astype(np.int64) << 32 | times[others]
    different = pairs[:1] if (pairs == pairs[0]).all() else np.unique(pairs)
    missed = [pair for pair in different.tolist() if not strand.has_seen(pair >> 32, pair & 0xFFFFFFFF)]
    unseen = np.zeros(times.shape, bool)
    unseen[others] = np.isin(pairs, missed) if missed else False
    return unseen


def _report(x: Any, view: View, at: np.ndarray, racing: np.ndarray, mine: str, theirs: str) -> None:
    from tilelang.interpreter.access import element_text

    place = element_text(view, at, racing)
    x.find("race", f"threads {_named(x)} {mine} {place}, which other threads {theirs}, with no barrier in between")


def _named(x: Any) -> str:
    """The threads of a strand: ``0 to 127``."""
    if x.nest is not None or x.mask is True:
        return "of a branch"
    chosen = np.flatnonzero(x.mask)
    return f"{chosen[0]} to {chosen[-1]}" if len(chosen) > 1 else f"{chosen[0]}"


def note(x: Any, view: View, at: Any, writes: bool, atomic: bool = False) -> None:
    """Notes an access of the strand that runs, where another strand may run beside it.

    Args:
        x, view, at, writes, atomic: as for :meth:`StrandAccess.note`.
    """
    storage = view.storage
    if storage.private or not np.size(at):
        return
    if storage.strands is None:
        storage.strands = StrandAccess(storage.cell_count)
    storage.strands.note(x, view, at, writes, atomic)
