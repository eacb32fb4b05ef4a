"""Fragments below divergent branches: the threads of each side have a copy of their own.

The threads that take a side of a branch get a copy of each fragment that the side uses, and keep it: in the next branch that they
take they use it again. The next statement of all threads merges the copies. An element that was changed in one copy has that
value; one that was changed to different values in several copies has no value, and reading it is a finding.
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
    held = base
    for owners, version in base.versions or ():
        if not (threads & ~owners).any():  # all of the threads have this copy
            held = version
    copy = held.fork(np.zeros(1, np.int64))
    touched = None if held is base else held.touched
    copy.touched = np.zeros((1, base.cell_count), bool) if touched is None else touched.copy()
    copy.pending, copy.strands, copy.access = held.pending, held.strands, None
    return copy


def leave(x: Any, copies: Sequence[tuple[Storage, Storage]], threads: np.ndarray) -> None:
    """Saves the private copies of a side for its threads' next branch.

    Args:
        x: the state in which the side ran.
        copies: what :func:`enter` gave.
        threads: the numbers of the threads.
    """
    for base, copy in copies:
        if np.any(copy.touched):
            kept = [(owners & ~threads, version) for owners, version in base.versions or ()]
            base.versions = [*((owners, version) for owners, version in kept if owners.any()), (threads, copy)]
            if all(other is not base for other in x.block.divided):
                x.block.divided.append(base)


def meet(x: Any) -> None:
    """Merges the private copies into the fragments."""
    divided, x.block.divided = x.block.divided, []
    for base in divided:
        versions, base.versions = base.versions, None
        cells = base.cells()
        seen = np.zeros(base.cell_count, bool)  # changed by a copy that was merged before
        disputed = np.zeros(base.cell_count, bool)  # changed to different values
        # Disputed elements hold no value from here on, so the record of what is written is needed again.
        if base.written is None:
            base.written = np.ones((1, base.cell_count), bool)
        for _, version in versions:
            touched, theirs = version.touched[0], version.cells()[0]
            disputed |= touched & seen & (theirs != cells[0]).any(-1)
            cells[0] = np.where(touched[:, None], theirs, cells[0])
            base.written[0] |= touched
            seen |= touched
        base.set_cells(cells)
        base.written[0] &= ~disputed
        base.pending = next((version.pending for _, version in versions if version.pending is not None), base.pending)
