"""Races between blocks: conflicting accesses to tensors, or to each other's shared tiles in a cluster, that nothing orders.

Every block has a vector clock: for each block, how far its accesses happen before the next one of this block. An atomic access
that releases joins the block's clock into the clock of the element; one that acquires joins the element's clock into the block's.
``T.sync_grid`` orders all accesses before it before all accesses after it, ``T.cluster_sync`` those of a cluster. An arrival at
another block's mbarrier releases, and a wait for that barrier acquires.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.memory import Storage, View

_NO_BLOCK = -1


class Order:
    """Happens-before between the blocks of a launch, as vector clocks.

    Attributes:
        size: how many blocks there are.
        phase: how many times all blocks have met at ``T.sync_grid``.
    """

    def __init__(self, size: int):
        self.size = size
        self.phase = 0
        self._clocks: dict[int, np.ndarray] = {}
        self._handed: dict[Hashable, np.ndarray] = {}

    def now(self, block: int) -> int:
        """The block's own time."""
        # A block has a clock once it has synchronised with another: most never do, and a clock has an entry for each block.
        return int(self._clocks[block][block]) if block in self._clocks else 1

    def seen(self, block: int, others: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Whether other blocks' accesses happen before the block's present one.

        Args:
            block: the block's number.
            others: numbers of blocks.
            times: when each of them made its access, by its own clock.
        """
        clock = self._clocks.get(block)
        return np.zeros(np.shape(others), bool) if clock is None else clock[others] >= times

    def synchronise(self, block: int, place: Hashable) -> None:
        """A block arrives at the barrier of that name."""
        self.acquire(block, place)
        self.release(block, place)

    def acquire(self, block: int, place: Hashable) -> None:
        """What follows in a block comes after what blocks have released at ``place``."""
        handed = self._handed.get(place)
        if handed is not None:
            clock = self._clock(block)
            np.maximum(clock, handed, out=clock)

    def release(self, block: int, place: Hashable) -> None:
        """What a block did so far comes before what follows an acquisition of ``place``."""
        clock = self._clock(block)
        handed = self._handed.setdefault(place, np.zeros(self.size, np.int32))
        np.maximum(handed, clock, out=handed)
        # What the block does from here on was not handed over.
        clock[block] += 1

    def _clock(self, block: int) -> np.ndarray:
        if block not in self._clocks:
            self._clocks[block] = np.zeros(self.size, np.int32)
            self._clocks[block][block] = 1
        return self._clocks[block]


class Readers:
    """Sets of blocks that have read a cell, each with the time of its last read.

    Cells hold the number of a set. Thousands of blocks may read a tensor, but neighbouring cells are mostly read by the same
    ones: a set of its own for each cell would take far more memory than the tensor.

    Attributes:
        order: of the launch.
    """

    def __init__(self, order: Order):
        self.order = order
        self._sets: list[dict[int, int]] = [{}]
        self._numbers: dict[Hashable, int] = {(): 0}

    def with_reader(self, sets: np.ndarray, block: int) -> np.ndarray:
        """The numbers of the sets after ``block`` has read, too. Readers that come before it need not be remembered."""

        def extended(number: int) -> int:
            found = {other: time for other, time in self._sets[number].items() if not self._is_seen(block, other, time)}
            found[block] = self.order.now(block)
            key = tuple(sorted(found.items()))
            if key not in self._numbers:
                self._numbers[key] = len(self._sets)
                self._sets.append(found)
            return self._numbers[key]

        return _of_each(sets, extended)

    def unseen(self, sets: np.ndarray, block: int) -> np.ndarray:
        """Of each set, a reader that nothing orders before ``block``; -1 where there is none."""

        def first(number: int) -> int:
            found = (other for other, time in self._sets[number].items() if not self._is_seen(block, other, time))
            return next(found, _NO_BLOCK)

        return _of_each(sets, first)

    def _is_seen(self, block: int, other: int, time: int) -> bool:
        return other == block or bool(self.order.seen(block, np.asarray(other), np.asarray(time)))


def _of_each(numbers: np.ndarray, function: Callable[[int], int]) -> np.ndarray:
    """``function`` of each number, called once for each that there is."""
    distinct, places = np.unique(numbers, return_inverse=True)
    return np.array([function(int(number)) for number in distinct], np.int32)[places].reshape(np.shape(numbers))


class BlockAccess:
    """Which blocks touched each cell of a tensor or shared tile last, and when.

    Attributes:
        order: of the launch.
    """

    __slots__ = ("order", "phase", "writer", "written", "readers", "read", "updater", "updated")

    def __init__(self, cells: int, order: Order):
        self.order = order
        self.phase = 0
        self.writer, self.written = np.full(cells, _NO_BLOCK, np.int32), np.zeros(cells, np.int32)
        self.readers, self.read = Readers(order), np.zeros(cells, np.int32)
        self.updater, self.updated = np.full(cells, _NO_BLOCK, np.int32), np.zeros(cells, np.int32)

    def _catch_up(self) -> None:
        """Forgets the accesses before the last barrier of the grid."""
        if self.phase != self.order.phase:
            self.phase = self.order.phase
            self.writer.fill(_NO_BLOCK)
            self.readers = Readers(self.order)
            self.read.fill(0)
            self.updater.fill(_NO_BLOCK)

    def note_read(self, x: Any, view: View, at: np.ndarray) -> None:
        """Records reads; those that race with another block's write are findings.

        Args:
            x: the state, which gets the findings.
            view: the tensor.
            at: flat positions.
        """
        self._catch_up()
        cell, block = at * view.cells, x.block.number
        self._find(x, view, at, block, self.writer[cell], self.written[cell], "reads", "wrote")
        self._find(x, view, at, block, self.updater[cell], self.updated[cell], "reads", "updated")
        self.read[cell] = self.readers.with_reader(self.read[cell], block)

    def note_write(self, x: Any, view: View, at: np.ndarray, value: Any) -> None:
        """Records writes; those that race with another block's access are findings.

        Args:
            x: the state, which gets the findings.
            view: the tensor.
            at: flat positions.
            value: what is written; a write that changes nothing races with nothing.
        """
        self._catch_up()
        cell, block = at * view.cells, x.block.number
        # Encoding and comparing costs more than all else here, and where no block has written before there is nothing to race
        # with.
        if (self.writer[cell] != _NO_BLOCK).any():
            changes = np.broadcast_to(view.kind.encode(value) != view.kind.encode(view.read(0, at)), at.shape)
            self._find(x, view, at[changes], block, self.writer[cell][changes], self.written[cell][changes], "writes", "wrote")
        self._report(x, view, at, block, self.readers.unseen(self.read[cell], block), "writes", "read")
        self._find(x, view, at, block, self.updater[cell], self.updated[cell], "writes", "updated")
        self.writer[cell] = block
        self.written[cell] = self.order.now(block)

    def note_update(self, x: Any, view: View, at: np.ndarray) -> None:
        """Records atomic updates; those that race with another block's plain access are findings.

        Only the last update of a cell is kept, so a plain access that is ordered after that one but not after an earlier one is
        not reported.

        Args:
            x: the state, which gets the findings.
            view: the tensor.
            at: flat positions.
        """
        self._catch_up()
        cell, block = at * view.cells, x.block.number
        self._find(x, view, at, block, self.writer[cell], self.written[cell], "updates", "wrote")
        self._report(x, view, at, block, self.readers.unseen(self.read[cell], block), "updates", "read")
        self.updater[cell] = block
        self.updated[cell] = self.order.now(block)

    def _find(
        self, x: Any, view: View, at: np.ndarray, block: int, other: np.ndarray, time: np.ndarray, mine: str, theirs: str
    ) -> None:
        others = (other != _NO_BLOCK) & (other != block)
        if others.any():
            # Cells that no block has touched are looked up under block 0, and masked out.
            unseen = others & ~self.order.seen(block, np.maximum(other, 0), time)
            self._report(x, view, at, block, np.where(unseen, other, _NO_BLOCK), mine, theirs)

    def _report(self, x: Any, view: View, at: np.ndarray, block: int, other: np.ndarray, mine: str, theirs: str) -> None:
        conflict = np.asarray(other) != _NO_BLOCK
        if conflict.any():
            from tilelang.interpreter.access import element_text

            who = f"block {int(np.asarray(other)[conflict].flat[0])}"
            x.find(
                "race", f"block {block} {mine} {element_text(view, at, conflict)}, which {who} {theirs}, with nothing in between"
            )


def watch_tensors(views: Mapping[int, View], order: Order) -> None:
    """Begins a launch: records who touches the tensors that it writes."""
    for view in views.values():
        storage: Storage = view.storage
        storage.blocks = BlockAccess(storage.cell_count, order) if order.size > 1 else None


def forget_tensors(views: Mapping[int, View]) -> None:
    """Ends a launch: all of its accesses happen before those of the next one."""
    for view in views.values():
        view.storage.blocks = None
