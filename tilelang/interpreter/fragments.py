"""Fragments below divergent branches: the threads of each side have a copy of their own.

The threads that take a side of a branch get a copy of each fragment that the side uses, and keep it: in the next branch that they
take they use it again. The next statement of all threads that uses the fragment merges the copies, and so does a branch for some
threads those of its own threads, and in a branch the next statement of its threads those of branches inside. An element that was
changed in one copy has that value; one that was changed to different values in several copies, or by some of a branch's threads
together with others, has no value, and reading it is a finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tilelang.interpreter.memory import Storage


def enter(x: Any, slots: Sequence[int]) -> list[tuple[Storage, Storage]]:
    """Gives the threads of a side private copies of the fragments that it uses; returns (fragment, copy) pairs."""
    copies: dict[int, tuple[Storage, Storage]] = {}
    present = [slot for slot in slots if x.views[slot] is not None]
    if not present:
        return []
    x.views = list(x.views)
    for slot in present:
        base = x.views[slot].storage
        if id(base) not in copies:
            copies[id(base)] = base, _copy_for(base, x.mask)
        x.views[slot] = x.views[slot].over(copies[id(base)][1])
    return list(copies.values())


def _copy_for(base: Storage, threads: np.ndarray) -> Storage:
    """A private storage of a fragment for a group of threads."""
    here = [(owners, version) for owners, version in base.versions or () if (threads & owners).any()]
    held = next((version for owners, version in here if not (threads & ~owners).any()), base)  # all of the threads have it
    copy = held.fork(np.zeros(1, np.int64))
    copy.owners = threads
    copy.touched = np.zeros((1, base.cell_count), bool) if held is base else _changed(held)[None].copy()
    copy.pending, copy.reading, copy.strands, copy.access = held.pending, held.reading, held.strands, None
    if held is base and here:
        _merge(copy, [version for owners, version in here if not (owners & ~threads).any()])
        for version in (version for owners, version in here if (owners & ~threads).any()):
            copy.lose(_changed(version))
    return copy


def leave(x: Any, copies: Sequence[tuple[Storage, Storage]], threads: np.ndarray) -> None:
    """Saves the private copies of a side for its threads' next branch.

    Args:
        x: the state in which the side ran.
        copies: what :func:`enter` gave.
        threads: the numbers of the threads.
    """
    for base, copy in copies:
        left = _left_by(copy, threads)
        for owners, version in left:
            kept = [(others & ~owners, other) for others, other in base.versions or ()]
            base.versions = [*((others, other) for others, other in kept if others.any()), (owners, version)]
        if left and all(other is not base for other in x.block.divided):
            x.block.divided.append(base)


def _left_by(copy: Storage, threads: np.ndarray) -> list[tuple[np.ndarray, Storage]]:
    """What the threads of a side hold after it: those of branches inside their own copies, if no statement has merged these.

    An element that a branch inside has changed is changed by that one alone; of the side's other changes all have a copy.
    """
    assert copy.touched is not None
    inside, stored = copy.versions or [], bool(np.any(copy.touched))
    for _, version in inside:
        copy.touched[0] &= ~_changed(version)
    for owners, version in inside:
        assert version.touched is not None
        version.touched[0] |= copy.touched[0]
        threads = threads & ~owners
    return [(threads, copy), *inside] if stored and threads.any() else inside


def meet(x: Any, slots: Sequence[int]) -> None:
    """Merges the private copies into fragments, where all threads that hold these run what uses them."""
    if x.block.divided:
        used = {id(x.views[slot].storage) for slot in slots if x.views[slot] is not None}
        united = [base for base in x.block.divided if id(base) in used and _is_held_by(base, x.mask)]
        for base in united:
            versions, base.versions = base.versions or [], None
            _merge(base, [version for _, version in versions])
        x.block.divided = [base for base in x.block.divided if all(base is not other for other in united)]


def _is_held_by(base: Storage, threads: Any) -> bool:
    """Whether the threads are all that hold a fragment, or a copy of it."""
    held = True if base.owners is None else base.owners
    return bool(np.all(threads == held))


def _merge(target: Storage, versions: Sequence[Storage]) -> None:
    """Gives a fragment, or a copy of it, the elements that were changed in copies."""
    cells = target.cells()
    seen = np.zeros(target.cell_count, bool)  # changed by a copy that was merged before
    disputed = np.zeros(target.cell_count, bool)  # changed to different values
    for version in versions:
        touched, theirs = _changed(version), version.cells()[0]
        disputed |= touched & seen & (theirs != cells[0]).any(-1)
        cells[0] = np.where(touched[:, None], theirs, cells[0])
        if target.written is not None:
            target.written[0] |= touched
        if version.written is not None:
            disputed |= touched & ~version.written[0]
        seen |= touched
    target.set_cells(cells)
    if target.touched is not None:
        target.touched[0] |= seen
    target.lose(disputed)
    target.pending = next((version.pending for version in versions if version.pending is not None), target.pending)
    target.reading = next((version.reading for version in versions if version.reading is not None), target.reading)


def _changed(copy: Storage) -> np.ndarray:
    """Which elements the threads of a copy have changed."""
    assert copy.touched is not None
    return copy.touched[0]
