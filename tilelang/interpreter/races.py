"""Races between lanes: iterations of a ``T.Parallel``, or threads of a block.

Each cell of a storage keeps who wrote it last, who read it last, and when. Times are numbers of *intervals*: accesses of
different lanes in one interval are in no order, those in two intervals are. So an access conflicts with an earlier one in the
same interval if another lane made that one and one of the two is a write. A write of the value that is there already conflicts
with nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tilelang.interpreter.memory import View

_MANY = -2
"""In the place of a lane's number: several lanes."""

_ALL = -3
"""In the place of a lane's number: all lanes access one cell."""


class Access:
    """Who touched each cell of a storage last.

    Attributes:
        writer, reader, updater: a lane, or -2 for several readers or atomic updates.
        written, read, updated: the interval of that access.
    """

    __slots__ = ("writer", "reader", "updater", "written", "read", "updated")

    def __init__(self, cells: int):
        self.writer = np.full(cells, -1, np.int32)
        self.reader = np.full(cells, -1, np.int32)
        self.updater = np.full(cells, -1, np.int32)
        self.written = np.zeros(cells, np.int64)
        self.read = np.zeros(cells, np.int64)
        self.updated = np.zeros(cells, np.int64)


def access_of(view: View) -> Access:
    """The record of a view's storage."""
    storage = view.storage
    if storage.access is None:
        storage.access = Access(storage.data.shape[1] * 8 // storage.cell_bits)
    return storage.access


def _first_cell(view: View, at: Any) -> Any:
    return at if view.cells == 1 else at * view.cells


def record_reads(x: Any, view: View, at: Any, active: Any) -> None:
    """Records reads; those that race with another lane's write in the same interval are findings.

    Args:
        x: the state, which gets the findings.
        view: the buffer.
        at: flat positions.
        active: the lanes that read.
    """
    access, now = access_of(view), x.interval_of(view.storage)
    at, lane = _taking_part(x, _first_cell(view, at), active)
    conflict = (access.written[at] == now) & (access.writer[at] != lane)
    if np.any(conflict):
        _report(x, view, at, conflict, lane, access.writer[at], "reads", "writes")
    _find_updates(x, view, access, at, lane, "reads")
    _note_several(now, access.reader, access.read, at, lane)


def record_updates(x: Any, view: View, at: Any, active: Any) -> None:
    """Records atomic updates; those that race with another lane's plain access in the same interval are findings.

    Args:
        x, view, at, active: as for :func:`record_reads`.
    """
    access, now = access_of(view), x.interval_of(view.storage)
    at, lane = _taking_part(x, _first_cell(view, at), active)
    for other, when, theirs in ((access.writer, access.written, "writes"), (access.reader, access.read, "reads")):
        conflict = (when[at] == now) & (other[at] != lane)
        if np.any(conflict):
            _report(x, view, at, conflict, lane, other[at], "updates", theirs)
    _note_several(now, access.updater, access.updated, at, lane)


def _find_updates(x: Any, view: View, access: Access, at: Any, lane: Any, mine: str) -> None:
    """Reports plain accesses of what another lane updates in the same interval.

    Args:
        x, view: as for :func:`record_reads`.
        access: of the view.
        at: cells.
        lane: who accesses them.
        mine: what it does.
    """
    conflict = (access.updated[at] == x.interval_of(view.storage)) & (access.updater[at] != lane)
    if np.any(conflict):
        _report(x, view, at, conflict, lane, access.updater[at], mine, "updates")


def _note_several(now: int, who: np.ndarray, when: np.ndarray, at: Any, lane: Any) -> None:
    """Records accesses of a kind that several lanes may make of one element.

    Args:
        now: the interval.
        who, when: the record of that kind.
        at: cells.
        lane: who accesses them.
    """
    several = (when[at] == now) & (who[at] != lane)
    who[at] = np.where(several, _MANY, lane)
    if np.ndim(at):
        # Of several lanes with one cell, the assignment above kept the last: each of the others finds a number that is not
        # its own.
        shared = who[at] != np.where(several, _MANY, lane)
        if np.any(shared):
            who[at[shared]] = _MANY
    when[at] = now


def record_writes(x: Any, view: View, at: Any, value: Any, active: Any) -> None:
    """Records writes; those that race with another lane's access in the same interval are findings.

    Args:
        x: the state, which gets the findings.
        view: the buffer.
        at: flat positions.
        value: what is written; a write that changes nothing races with nothing.
        active: the lanes that write.
    """
    # The same value to the same element for all threads: a statement of the block, which happens once.
    if not np.ndim(at) and x.nest is None and active is True and x.since is None:
        return
    access, now = access_of(view), x.interval_of(view.storage)
    cell, lane = _taking_part(x, _first_cell(view, at), active)
    earlier = (access.written[cell] == now) & (access.writer[cell] != lane)
    if np.any(earlier) and np.any(earlier := earlier & _changes(view, at, value, active)):
        _report(x, view, cell, earlier, lane, access.writer[cell], "writes", "writes")
    read = (access.read[cell] == now) & (access.reader[cell] != lane)
    if np.any(read):
        _report(x, view, cell, read, lane, access.reader[cell], "writes", "reads")
    _find_updates(x, view, access, cell, lane, "writes")
    access.writer[cell] = lane
    access.written[cell] = now
    if np.ndim(cell):
        _find_duplicates(x, view, access, cell, lane, value, active)


def _find_duplicates(x: Any, view: View, access: Access, cell: Any, lane: Any, value: Any, active: Any) -> None:
    """Reports elements to which several lanes of one statement write different values; the record has the last of these lanes."""
    last = access.writer[cell]
    lost = last != lane
    if not lost.any():
        return
    stored = np.broadcast_to(view.kind.encode(value), (x.lanes,))
    mine = stored if active is True else stored[active]
    # Lanes are listed in ascending order, so bisection finds the one whose value was kept.
    position = np.searchsorted(lane, last)
    differs = lost & (mine != mine[position]) & ~((mine != mine) & (mine[position] != mine[position]))
    if differs.any():
        _report(x, view, cell, differs, lane, last, "writes", "writes")


def _changes(view: View, at: Any, value: Any, active: Any) -> Any:
    """Whether a write gives its element another value than it has; NaN is no other value than NaN."""
    if active is not True:
        at = at[active] if np.ndim(at) else at
        value = value[active] if np.ndim(value) else value
    stored = np.asarray(view.kind.encode(value))
    present = np.asarray(view.kind.encode(view.read(0, at)))
    return (stored != present) & ~((stored != stored) & (present != present))


def _taking_part(x: Any, at: Any, active: Any) -> tuple[Any, Any]:
    """The cells that the active lanes access, and their numbers; one cell and ``_ALL`` where several access the same."""
    if active is True:
        # One position for all lanes stays one number: a record with "all" differs from every lane's own number, and so conflicts
        # with it.
        return at, x.performers if np.ndim(at) else x.performers[0] if x.lanes == 1 else np.int32(_ALL)
    at = np.broadcast_to(at, (x.lanes,))
    return at[active], x.performers[active]


def _report(x: Any, view: View, cell: Any, conflict: Any, lane: Any, other: Any, mine: str, theirs: str) -> None:
    """Reports the first of some conflicts.

    Args:
        x: the state, which gets the finding.
        view: the buffer.
        cell: the cells that are accessed.
        conflict: whether each of these accesses conflicts.
        lane, other: who makes it, and who made the earlier one.
        mine, theirs: what they do.
    """
    first = int(np.argmax(conflict))

    def pick(values: Any) -> int:
        values = np.asarray(values)
        return int(np.broadcast_to(values, np.shape(conflict)).flat[first])

    from tilelang.interpreter.access import element_text

    at = np.asarray(cell) if view.cells == 1 else np.asarray(cell) // view.cells
    where = element_text(view, at, conflict)
    x.find("race", f"{x.lane_text(pick(lane))} {mine} {where}, which {x.lane_text(pick(other))} {theirs}")
