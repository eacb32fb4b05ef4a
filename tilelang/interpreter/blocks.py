"""Races between blocks: conflicting accesses that no atomic access orders.

Every block has a vector clock. An atomic access that releases joins it into the clock of its element; one that acquires takes
that. ``T.sync_grid`` orders all accesses before it before all accesses after it.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any

import numpy as np

from tilelang.interpreter.memory import Storage, View

_NOBODY, _SEVERAL = -1, -2


class Order:
    """Happens-before between the blocks of a launch, as vector clocks.

    Attributes:
        size: how many blocks there are.
        turn: how many times the grid met.
    """

    def __init__(self, size: int):
        self.size = size
        self.turn = 0
        self._clocks: dict[int, np.ndarray] = {}
        self._handed: dict[Hashable, np.ndarray] = {}

    def now(self, block: int) -> int:
        """The block's own time."""
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
        handed, clock = self._handed.get(place), self._clock(block)
        if handed is not None:
            np.maximum(clock, handed, out=clock)

    def release(self, block: int, place: Hashable) -> None:
        """What a block did so far comes before what follows an acquisition of ``place``."""
        clock = self._clock(block)
        handed = self._handed.setdefault(place, np.zeros(self.size, np.int32))
        np.maximum(handed, clock, out=handed)
        clock[block] += 1

    def _clock(self, block: int) -> np.ndarray:
        if block not in self._clocks:
            self._clocks[block] = np.zeros(self.size, np.int32)
            self._clocks[block][block] = 1
        return self._clocks[block]


class BlockAccess:
    """Which block touched each cell of a tensor last, and when.

    Attributes:
        order: of the launch.
    """

    __slots__ = ("order", "turn", "writer", "written", "reader", "read", "updater", "updated")

    def __init__(self, cells: int, order: Order):
        self.order = order
        self.turn = 0
        self.writer, self.reader = np.full(cells, _NOBODY, np.int32), np.full(cells, _NOBODY, np.int32)
        self.written, self.read = np.zeros(cells, np.int32), np.zeros(cells, np.int32)
        self.updater, self.updated = np.full(cells, _NOBODY, np.int32), np.zeros(cells, np.int32)

    def _catch_up(self) -> None:
        if self.turn != self.order.turn:
            self.turn = self.order.turn
            self.writer.fill(_NOBODY)
            self.reader.fill(_NOBODY)
            self.updater.fill(_NOBODY)

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
        others = (self.reader[cell] != block) & (self.reader[cell] != _NOBODY)
        self.reader[cell] = np.where(others, _SEVERAL, block)
        self.read[cell] = self.order.now(block)

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
        if (self.writer[cell] != _NOBODY).any():
            changes = np.broadcast_to(view.kind.encode(value) != view.kind.encode(view.read(0, at)), at.shape)
            self._find(x, view, at[changes], block, self.writer[cell][changes], self.written[cell][changes], "writes", "wrote")
        self._find(x, view, at, block, self.reader[cell], self.read[cell], "writes", "read")
        self._find(x, view, at, block, self.updater[cell], self.updated[cell], "writes", "updated")
        self.writer[cell] = block
        self.written[cell] = self.order.now(block)

    def note_update(self, x: Any, view: View, at: np.ndarray) -> None:
        """Records atomic updates; those that race with another block's plain access are findings. Only the last one is kept: a
        block whose own update it is comes after those before.

        Args:
            x: the state, which gets the findings.
            view: the tensor.
            at: flat positions.
        """
        self._catch_up()
        cell, block = at * view.cells, x.block.number
        self._find(x, view, at, block, self.writer[cell], self.written[cell], "updates", "wrote")
        self._find(x, view, at, block, self.reader[cell], self.read[cell], "updates", "read")
        self.updater[cell] = block
        self.updated[cell] = self.order.now(block)

    def _find(
        self, x: Any, view: View, at: np.ndarray, block: int, other: np.ndarray, time: np.ndarray, mine: str, theirs: str
    ) -> None:
        foreign = (other != _NOBODY) & (other != block)
        if not foreign.any():
            return
        conflict = foreign & ~((other >= 0) & self.order.seen(block, np.maximum(other, 0), time))
        if conflict.any():
            from tilelang.interpreter.access import element_text

            who = int(other[conflict].flat[0])
            name = f"block {who}" if who >= 0 else "another block"
            x.find(
                "race", f"block {block} {mine} {element_text(view, at, conflict)}, which {name} {theirs}, with nothing in between"
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
