"""Boxes: the regions of buffers that tile operators read and write, as NumPy arrays.

The array of a box has the region's extents. Where threads access different places, or memory of their own, it has an axis of
threads in front.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from tilelang.interpreter import strands
from tilelang.interpreter.access import both, check_arrived, check_free, check_written, element_text, mark_written, row_of, some
from tilelang.interpreter.compiler import Compiler
from tilelang.interpreter.expressions import compiled
from tilelang.interpreter.memory import View, compact
from tilelang.interpreter.state import Lanes
from tilelang.ir.expr import constant
from tilelang.ir.region import Region


@dataclass(slots=True)
class Box:
    """A region while the program runs.

    Attributes:
        view: the buffer.
        mins: the first index of each axis, a number or an array over the threads.
        extents: of each axis.
    """

    view: View
    mins: tuple[Any, ...]
    extents: tuple[int, ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents without axes of length one."""
        return tuple(extent for extent in self.extents if extent != 1)

    @property
    def is_whole(self) -> bool:
        """Whether it is the whole of a compact buffer."""
        return self.extents == self.view.shape and self.view.base == 0 and all(type(low) is int and low == 0 for low in self.mins)

    @property
    def differs(self) -> bool:
        """Whether its place differs between threads."""
        return any(np.ndim(low) for low in self.mins)


def box_of(c: Compiler, region: Region) -> Callable[[Lanes], Box]:
    """The function that gives a region's box."""
    slot = c.view(region.buffer)
    mins = [compiled(c, constant(low)) for low in region.mins]
    extents = [compiled(c, constant(extent)) for extent in region.extents]
    if all(isinstance(value, int) for value in (*region.mins, *region.extents)):
        fixed = tuple(region.mins), tuple(region.extents)
        return lambda x: Box(x.views[slot], *fixed)

    def evaluate(x: Lanes) -> Box:
        lows = [low(x) for low in mins]
        return Box(
            x.views[slot],
            tuple(_of_active(x, low) if np.ndim(low) else int(low) for low in lows),
            tuple(max(0, int(extent(x))) for extent in extents),
        )

    return evaluate


def _of_active(x: Lanes, low: np.ndarray) -> np.ndarray:
    """A first index for every lane; those that are not active, whose variables may hold anything, get that of an active one."""
    low = low.astype(np.int64)
    return low if x.mask is True else np.where(x.mask, low, low[np.argmax(x.mask)])


@lru_cache(maxsize=1024)
def _grid(strides: tuple[int, ...], extents: tuple[int, ...]) -> np.ndarray:
    """The flat position of each element of a box from its first one on."""
    at = np.zeros(extents, np.int64)
    for axis, (stride, extent) in enumerate(zip(strides, extents)):
        at += (np.arange(extent, dtype=np.int64) * stride).reshape([-1 if a == axis else 1 for a in range(len(extents))])
    return at


def positions(x: Lanes, box: Box) -> tuple[np.ndarray, Any]:
    """The flat position of each element, and which are inside; with an axis of threads in front where its place differs."""
    view, rank = box.view, len(box.extents)
    at: Any = _grid(view.strides, box.extents) + view.base
    inside: Any = True
    for axis, (low, extent, (size, stride)) in enumerate(zip(box.mins, box.extents, view.axes)):
        wide = np.ndim(low) > 0
        first = low.reshape((-1,) + (1,) * rank) if wide else low
        at = at + first * stride
        # Only where the region may leave the axis are its elements compared with the bounds one by one.
        if (int(low.min()) if wide else low) < 0 or (int(low.max()) if wide else low) + extent > size:
            index = first + np.arange(extent).reshape([-1 if a == axis else 1 for a in range(rank)])
            inside = both(inside, (index >= 0) & (index < size))
    if inside is True:
        return at, True
    inside = np.broadcast_to(inside, at.shape)
    if not view.is_tensor and not inside.all():
        _note_outside(x, box)
    return np.where(inside, at, 0), inside


def check_overlap(x: Lanes, source: Box, target: Box, operator: str, order: Sequence[int] | None = None) -> None:
    """Reports an operator that writes what it reads for another element: the order of its elements is not specified.

    Args:
        x: the state.
        source, target: what is read, and what is written for it, element by element.
        operator: its name.
        order: the axes of the source as those of the target, counted from the last one; None where they follow each other alike.
    """
    view = target.view
    if not x.checks or source.view.storage is not view.storage or source.view.kind is not view.kind:
        return
    if source.differs or target.differs:
        return
    (reads, given), (writes, kept) = positions(x, source), positions(x, target)
    given, kept = np.broadcast_to(given, reads.shape), np.broadcast_to(kept, writes.shape)
    if order is not None:
        reads, given = reads.transpose(order), given.transpose(order)
    reads, writes = reads[given], writes[kept]
    common = np.intersect1d(reads, writes)
    if common.size and not np.array_equal(reads, writes):
        first = element_text(view, common, np.ones(common.shape, bool))
        x.find("race", f"{first} is written and read for another element of the {operator}")


def _note_outside(x: Lanes, box: Box) -> None:
    parts = []
    for low, extent in zip(box.mins, box.extents):
        first = int(np.ravel(low)[0])
        parts.append(f"{first}:{first + extent}" if extent != 1 else str(first))
    size = tuple(box.view.shape)
    x.find("out-of-bounds", f"{box.view.name}[{', '.join(parts)}] leaves {box.view.name}, which is {size}")


def read(x: Lanes, box: Box) -> np.ndarray:
    """The values of a box, with an axis of threads before the box's where they differ; outside of a tensor its safe value."""
    view, storage = box.view, box.view.storage
    if x.checks and (storage.blocks is not None or not x.strand.is_alone):
        _note_read(x, box)
    elif _is_row_major(box) and storage.written is None and storage.pending is None:
        return view.read(0, slice(0, view.size)).reshape(box.extents)
    at, inside = positions(x, box)
    row: Any = 0
    if storage.rows > 1:
        row = row_of(x, storage).reshape((-1,) + (1,) * len(box.extents))
    if inside is not True and not inside.any():  # the tensor may have no elements at all
        return np.full(np.broadcast_shapes(np.shape(row), at.shape), 0 if view.safe is None else view.safe, view.kind.value)
    lanes = _active_rows(x, row, box, len(box.extents))
    if storage.written is not None and x.checks:
        check_written(x, view, row, at, both(inside, lanes))
    if storage.pending is not None:
        check_arrived(x, view, row, at, both(inside, lanes))
    value = view.read(row, at)
    if inside is True:
        return value
    return np.where(inside, value, 0 if view.safe is None else view.safe).astype(value.dtype)


def _note_read(x: Lanes, box: Box) -> None:
    """Notes that the block, and the group of threads that runs, read a box."""
    at = _inside(*positions(x, box))
    if box.view.storage.blocks is not None:
        box.view.storage.blocks.note_read(x, box.view, at)
    if not x.strand.is_alone:
        strands.note(x, box.view, at, writes=False)


def _inside(at: np.ndarray, inside: Any) -> np.ndarray:
    """The positions that are inside of the buffer, as a flat array."""
    return at.ravel() if inside is True else at[inside]


def _is_row_major(box: Box) -> bool:
    """Whether a box is all elements of a buffer one after the other, the same for all threads."""
    view = box.view
    return (
        box.is_whole and view.storage.rows == 1 and view.kind.bits != 4 and list(view.strides) == compact(view.shape, view.kind)
    )


def _active_rows(x: Lanes, row: Any, box: Box, rank: int) -> Any:
    """The mask of active lanes for values with an axis of threads; True for values without one."""
    if x.mask is True or (not np.ndim(row) and not box.differs):
        return True
    return x.mask.reshape((-1,) + (1,) * rank)


def write(x: Lanes, box: Box, value: Any) -> None:
    """Stores values; stores outside of a tensor are dropped.

    Args:
        x: the state.
        box: the destination.
        value: of the box's extents, with an axis of threads in front where threads differ.
    """
    view, storage = box.view, box.view.storage
    if not some(x.mask):
        return
    rank = len(box.extents)
    differs = box.differs or np.ndim(value) > rank or (x.mask is not True and storage.private)
    # Private memory has one row while all threads agree on it, which is the common case and the cheap one.
    if storage.private and differs:
        storage.spread(x.lanes)
    # Where nothing else runs beside these threads, no other access can conflict: there is nothing to record, and one copy does.
    in_flight = storage.pending is not None or storage.reading is not None
    if storage.blocks is None and not in_flight and x.strand.is_alone and not differs and _is_row_major(box):
        view.storage.elements(view.kind)[0, : view.size] = np.broadcast_to(view.kind.encode(value), box.extents).ravel()
        _all_written(view)
        return
    at, inside = positions(x, box)
    if x.checks and (storage.blocks is not None or not x.strand.is_alone):
        _note_write(x, view, at, inside, value)
    if in_flight:
        check_free(x, view, 0, at, inside)
    if not differs:
        row = np.arange(storage.rows).reshape((-1,) + (1,) * rank) if storage.rows > 1 else 0
        _put(view, row, at, inside, value)
        return
    rows = np.arange(x.lanes).reshape((-1,) + (1,) * rank)
    shape = (x.lanes, *box.extents)
    active = inside if x.mask is True else both(x.mask.reshape(rows.shape), inside)
    if not storage.private and x.checks:
        _check_agreement(x, view, np.broadcast_to(at, shape), np.broadcast_to(value, shape), active)
    _put(view, rows if storage.rows > 1 else 0, np.broadcast_to(at, shape), active, value)


def _note_write(x: Lanes, view: View, at: np.ndarray, inside: Any, value: Any) -> None:
    """Notes that the block, and the group of threads that runs, write positions."""
    shape = np.broadcast_shapes(at.shape, np.shape(value))
    chosen = np.broadcast_to(True if inside is True else inside, shape)
    at = np.broadcast_to(at, shape)[chosen]
    if view.storage.blocks is not None:
        view.storage.blocks.note_write(x, view, at, np.broadcast_to(value, shape)[chosen])
    if not x.strand.is_alone:
        strands.note(x, view, at, writes=True)


def _all_written(view: View) -> None:
    """Marks all elements of a view as written."""
    storage = view.storage
    if storage.written is not None and view.size * view.cells == storage.written.shape[1]:
        storage.written = None
    elif storage.written is not None:
        storage.written[:, : view.size * view.cells] = True


def _put(view: View, row: Any, at: Any, active: Any, value: Any) -> None:
    """Stores values at flat positions of rows, where ``active``."""
    if active is True:
        view.write(row, at, value)
        mark_written(view, row, at)
        return
    shape = np.broadcast_shapes(np.shape(at), np.shape(row), np.shape(active))
    chosen = np.broadcast_to(active, shape)
    row = np.broadcast_to(row, shape)[chosen] if np.ndim(row) else row
    at = np.broadcast_to(at, shape)[chosen]
    view.write(row, at, np.broadcast_to(value, shape)[chosen])
    mark_written(view, row, at)


def _check_agreement(x: Lanes, view: View, at: Any, value: Any, active: Any) -> None:
    """Reports elements to which threads give different values in one statement."""
    flat = at.ravel() if active is True else at[np.broadcast_to(active, at.shape)]
    given = value.ravel() if active is True else value[np.broadcast_to(active, at.shape)]
    # Sorted by position, stores to one element are neighbours.
    order = np.argsort(flat, kind="stable")
    same = flat[order][1:] == flat[order][:-1]
    differs = same & (given[order][1:] != given[order][:-1])
    if differs.any():
        place = flat[order][1:][np.argmax(differs)]
        x.find("race", f"threads write different values to {element_text(view, place, True)}")
