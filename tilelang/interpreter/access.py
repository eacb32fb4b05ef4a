"""Reading and writing elements from many lanes at once, with the checks: bounds, initialisation, races.

A position is one number where all lanes access the same element, or an array over the lanes; so is a value. Only the elements of
active lanes are read and checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.interpreter import strands
from tilelang.interpreter.memory import Storage, View
from tilelang.interpreter.races import record_reads, record_writes

Mask = Any
"""True where all lanes take part, or an array of bools over the lanes."""


def both(a: Mask, b: Mask) -> Mask:
    """The lanes that are in both of two masks."""
    if a is True:
        return b
    return a if b is True else a & b


def some(mask: Mask) -> bool:
    """Whether any lane is active."""
    return mask if isinstance(mask, bool) else bool(mask.any())


def locate(x: Any, view: View, indices: Sequence[Any]) -> tuple[Any, Mask]:
    """The flat position of an element, and whether it lies inside; positions outside are replaced by 0.

    An index that leaves a tile is a finding, one that leaves a tensor is not.

    Args:
        x: the state.
        view: the buffer.
        indices: one an axis, numbers or arrays over the lanes.
    """
    at: Any = view.base
    inside: Mask = True
    for index, (size, stride) in zip(indices, view.axes):
        if isinstance(index, np.ndarray) and index.ndim:
            if index.size and (int(index.min()) < 0 or int(index.max()) >= size):
                inside = both(inside, (index >= 0) & (index < size))
            # An int32 index times a stride may exceed int32.
            at = at + index.astype(np.int64) * stride
        else:
            index = int(index)
            if not 0 <= index < size:
                inside = False
            at = at + index * stride
    if inside is True:
        return at, True
    if not view.is_tensor:
        _note_outside(x, view, indices, inside)
    if inside is False or not inside.any():  # there is no position 0 either, if the tensor has no elements
        return 0, False
    return np.where(inside, at, 0), inside


def _note_outside(x: Any, view: View, indices: Sequence[Any], inside: Mask) -> None:
    outside = both(x.mask, np.logical_not(inside)) if inside is not False else x.mask
    if not some(outside):
        return
    lane = 0 if outside is True else int(np.argmax(outside))
    place = ", ".join(str(int(index[lane] if getattr(index, "ndim", 0) else index)) for index in indices)
    x.find("out-of-bounds", f"{view.name}[{place}] is outside of {view.name}, which is {_shape(view)}")


def _shape(view: View) -> str:
    return f"({', '.join(map(str, view.shape))}{',' if len(view.shape) == 1 else ''})"


def row_of(x: Any, storage: Storage) -> Any:
    """The row of a storage that each lane accesses."""
    return 0 if storage.data.shape[0] == 1 else x.lane_ids


def load(x: Any, view: View, indices: Sequence[Any], tracked: bool = False, noted: bool = True) -> Any:
    """The values of elements; reads outside of a tensor give its safe value.

    Args:
        x: the state.
        view: the buffer.
        indices: one an axis, numbers or arrays over the lanes.
        tracked: whether other lanes may write the buffer, so that the read is checked against their writes.
        noted: whether to check it against those of other blocks and groups of threads, which an atomic load does not race with.
    """
    at, inside = locate(x, view, indices)
    storage = view.storage
    if inside is False:
        return _outside_value(view)
    row = row_of(x, storage)
    if storage.written is not None and x.checks:
        check_written(x, view, row, at, both(x.mask, inside))
    if storage.pending is not None:
        check_arrived(x, view, row, at, both(x.mask, inside))
    if noted and storage.blocks is not None and x.checks:
        storage.blocks.note_read(x, view, _active_positions(x, at, both(x.mask, inside)))
    if noted and not x.strand.is_alone and x.checks:
        strands.note(x, view, _active_positions(x, at, both(x.mask, inside)), writes=False)
    if tracked and x.checks and not storage.private:
        record_reads(x, view, at, both(x.mask, inside))
    value = view.read(row, at)
    return value if inside is True else np.where(inside, value, _outside_value(view))


def _active_positions(x: Any, at: Any, active: Mask) -> np.ndarray:
    """The positions of the active lanes, as an array."""
    if active is True:
        return np.atleast_1d(at)
    return np.broadcast_to(at, (x.lanes,))[active]


def _outside_value(view: View) -> Any:
    return view.kind.value.type(0) if view.safe is None else view.safe


def check_written(x: Any, view: View, row: Any, at: Any, active: Mask) -> None:
    """Reports elements that are read and hold no value.

    Args:
        x: the state, which gets the finding.
        view: the buffer.
        row: of the storage, for each lane.
        at: flat positions.
        active: the lanes that read.
    """
    written = view.storage.written
    if written is None:
        return
    known = written[row, at] if view.cells == 1 else written[np.asarray(row)[..., None], cells_of(view, at)].all(-1)
    if view.storage.pending is not None:  # what has yet to arrive is for check_arrived
        known = known | _awaited(view, view.storage.pending, row, at)
    if active is True:
        fine = known.all()
    else:
        fine = not (active & ~known).any()
    if not fine:
        missing = ~np.asarray(known) if active is True else active & ~known
        missing = np.broadcast_to(missing, np.broadcast_shapes(np.shape(at), np.shape(row), np.shape(missing)))
        x.find("uninitialised", f"{element_text(view, at, missing)} is read, but {_why_missing(view, at, missing)}")


def _why_missing(view: View, at: Any, missing: np.ndarray) -> str:
    """Why the first missing element holds no value."""
    lost, cells = view.storage.lost, cells_of(view, _first(at, missing))
    if lost is not None and lost[cells].any():
        return "several threads or iterations have left different values in it"
    return "nothing has written it"


def check_arrived(x: Any, view: View, row: Any, at: Any, active: Mask, how: str = "used") -> None:
    """Reports elements that are accessed while an asynchronous copy or product has yet to write them.

    Args:
        x, view, row, at, active: as for :func:`check_written`.
        how: what is done with them: ``"used"``, ``"written"``.
    """
    _find_awaited(x, view, view.storage.pending, row, at, active, f"is {how} before what writes it")


def check_free(x: Any, view: View, row: Any, at: Any, active: Mask) -> None:
    """Reports elements that are written while an asynchronous copy or product has yet to write them, or may still read them.

    Args:
        x, view, row, at, active: as for :func:`check_written`.
    """
    check_arrived(x, view, row, at, active, "written")
    _find_awaited(x, view, view.storage.reading, row, at, active, "is written before what reads it")


def _find_awaited(x: Any, view: View, marks: np.ndarray | None, row: Any, at: Any, active: Mask, what: str) -> None:
    """Reports elements whose cells are marked."""
    if marks is None:
        return
    found = _awaited(view, marks, row, at)
    found = found if active is True else active & found
    if np.any(found):
        x.find("async", f"{element_text(view, at, found)} {what} asynchronously was waited for")


def _awaited(view: View, marks: np.ndarray, row: Any, at: Any) -> Any:
    """Which elements something asynchronous has yet to write or to read, by the marks of their cells."""
    return marks[row, at if view.cells == 1 else at * view.cells] != 0


def element_text(view: View, at: Any, chosen: Any) -> str:
    """The name of the first chosen element, such as ``tile[3, 5]``.

    Args:
        view: the buffer.
        at: flat positions.
        chosen: a bool for each of them; True for all.
    """
    flat = _first(at, np.asarray(chosen)) - view.base
    place = [0] * len(view.axes)
    # From the largest stride on, each index is what is left over it. A column-major tensor has its largest stride last.
    for axis in sorted(range(len(place)), key=lambda axis: -view.axes[axis][1]):
        size, stride = view.axes[axis]
        if size > 1 and stride > 0:
            place[axis], flat = divmod(flat, stride)
    return f"{view.name}[{', '.join(map(str, place))}]"


def _first(at: Any, chosen: np.ndarray) -> int:
    """The first chosen position."""
    return int(np.broadcast_to(at, chosen.shape).flat[int(np.argmax(chosen))]) if np.ndim(at) else int(at)


def cells_of(view: View, at: Any) -> Any:
    """The cells of the elements at flat positions, with an axis of an element's cells behind where it has several."""
    return at if view.cells == 1 else np.asarray(at)[..., None] * view.cells + np.arange(view.cells)


def store(x: Any, view: View, indices: Sequence[Any], value: Any, tracked: bool = True) -> None:
    """Stores one element for each active lane; stores outside of a tensor are dropped.

    Args:
        x: the state.
        view: the buffer.
        indices: one an axis, numbers or arrays over the lanes.
        value: in the buffer's element type, a number or an array over the lanes.
        tracked: whether to check the store against accesses of other lanes.
    """
    at, inside = locate(x, view, indices)
    if inside is False:
        return
    active = both(x.mask, inside)
    storage = view.storage
    if not storage.private:
        x.run.progress += 1
    if storage.pending is not None or storage.reading is not None:
        check_free(x, view, row_of(x, storage), at, active)
    # All lanes store one value to one element: one store, without arrays over the lanes.
    if active is True and not np.ndim(at) and not np.ndim(value):
        row = slice(None) if storage.data.shape[0] > 1 else 0
        if x.checks and not storage.private:
            if tracked:
                record_writes(x, view, at, value, True)
            _note_write(x, view, np.atleast_1d(at), value)
        # A slice would be an axis of its own beside the positions of nibbles, which are chosen by arrays.
        view.write(row if view.kind.bits != 4 else np.arange(storage.rows), at, value)
        mark_written(view, row, at)
        return
    if storage.private and storage.data.shape[0] == 1:
        # Memory of threads has one row as long as all threads hold the same; from this store on they may differ.
        storage.spread(x.lanes)
    at, value, active = spread(x, at, value, active)
    row = 0 if storage.data.shape[0] == 1 else x.lane_ids if active is True else x.lane_ids[active]
    if tracked and x.checks and not storage.private:
        record_writes(x, view, at, value, active)
    if active is not True:
        at, value = at[active], value[active]
    if x.checks:
        _note_write(x, view, at, value)
    view.write(row, at, value)
    mark_written(view, row, at)


def _note_write(x: Any, view: View, at: np.ndarray, value: Any) -> None:
    """Notes that the block, and the group of threads that runs, write flat positions."""
    if view.storage.blocks is not None:
        view.storage.blocks.note_write(x, view, at, value)
    if not x.strand.is_alone:
        strands.note(x, view, at, writes=True)


def spread(x: Any, at: Any, value: Any, active: Mask) -> tuple[Any, Any, Mask]:
    """Positions, values and mask as arrays over the lanes.

    Args:
        x: the state, which knows how many lanes there are.
        at, value, active: each an array, or one number for all lanes.
    """
    shape = (x.lanes,)
    return np.broadcast_to(at, shape), np.broadcast_to(value, shape), active


def mark_written(view: View, row: Any, at: Any) -> None:
    """Notes that elements hold values.

    Args:
        view: the buffer.
        row: of the storage, for each position.
        at: flat positions.
    """
    storage = view.storage
    for record in (storage.written, storage.touched):
        if record is None:
            continue
        if view.cells == 1:
            record[row, at] = True
        else:
            record[row if isinstance(row, slice) else np.asarray(row)[..., None], cells_of(view, at)] = True
    # Once every element holds a value nothing is left to check. To find out takes time in proportion to the buffer, so it is
    # done after large stores only.
    if storage.written is not None and np.size(at) > 16 and storage.written.all():
        storage.written = None
