"""How code touches memory: one vocabulary for every step of the CUDA target."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

READ, WRITE, UPDATE, ADDRESS = "read", "write", "update", "address"
"""Kinds of access; an update is atomic, and behind an address that is handed on anything may happen."""


class Agent(enum.Enum):
    """Who makes an access. All but a thread's own are asynchronous: they are complete after a wait for that agent."""

    THREAD = "thread"
    CP_ASYNC = "cp.async"
    TENSOR_CORE = "wgmma"
    BULK = "bulk copy"


@dataclass(frozen=True, slots=True)
class ThreadMap:
    """Which thread touches which element of a buffer, where an element's index says so.

    Attributes:
        buffer: the buffer, by the name that the indices are of; None where one thread makes all accesses.
        digits: parts of the thread's number that an index tells, each as (axis, weight, low, extent, offset):
            ``(index - offset) // weight % extent`` is ``thread // low % extent``. The offset is less than ``weight * extent``.
        first: the thread that is number 0.
        threads: how many may take part.
        place: stands for the index as it is written, where it is computed from numbers of threads and iterations alone.
    """

    buffer: Any
    digits: frozenset[tuple[int, int, int, int, int]]
    first: int
    threads: int
    place: int | None = None

    def separates(self, other: ThreadMap, group: int = 1) -> bool:
        """Whether an element that threads of two aligned groups of ``group`` touch, one by each map, does not exist."""
        if self.first != other.first or (self.buffer != other.buffer and max(self.threads, other.threads) > 1):
            return False
        known = group
        for low, extent in sorted((low, extent) for _, _, low, extent, _ in self.digits & other.digits):
            if low <= known:
                known = max(known, low * extent)
        return known >= max(self.threads, other.threads)


@dataclass(frozen=True, slots=True)
class Access:
    """One access of a piece of storage.

    Attributes:
        storage: the buffer that owns the memory, or one slot of it.
        kind: :data:`READ`, :data:`WRITE`, :data:`UPDATE` or :data:`ADDRESS`.
        agent: who makes it.
        operation: of an update.
        maps: which threads touch which elements, by one of several statements each; None where that is not known.
    """

    storage: Any
    kind: str
    agent: Agent = Agent.THREAD
    operation: str = ""
    maps: frozenset[ThreadMap] | None = None

    @property
    def synchronous(self) -> bool:
        """Whether it has happened when the statement is over."""
        return self.agent is Agent.THREAD

    @property
    def is_bulk_load(self) -> bool:
        """Whether the tensor memory accelerator fills memory."""
        return self.agent is Agent.BULK and self.kind != READ

    @property
    def is_bulk_store(self) -> bool:
        """Whether the tensor memory accelerator reads memory, to store it elsewhere."""
        return self.agent is Agent.BULK and self.kind == READ

    def commutes_with(self, other: Access) -> bool:
        """Whether the order of two accesses of the same memory by different threads makes no difference."""
        if self.kind == other.kind == UPDATE:
            return self.operation == other.operation != ""
        return self.kind == other.kind == READ

    def is_disjoint_from(self, other: Access, group: int = 1) -> bool:
        """Whether no threads of two aligned groups touch the same element of one storage, one by each access."""
        if self.maps is None or other.maps is None or self.storage != other.storage:
            return False
        return all(one.separates(two, group) for one in self.maps for two in other.maps)


def any_conflict(left: Iterable[Access], right: Iterable[Access], overlap: Any, group: int = 1) -> tuple[Access, Access] | None:
    """Two accesses, one of each collection, that different threads must not make in another order.

    Args:
        left, right: the accesses before and after a place.
        overlap: whether two storages share bytes.
        group: the threads of an aligned group of so many are taken to be in order.
    """
    right = list(right)
    for one in left:
        for two in right:
            if not one.commutes_with(two) and overlap(one.storage, two.storage) and not one.is_disjoint_from(two, group):
                return one, two
    return None


def meets_copies(accesses: Iterable[Access], copies: Iterable[Access], overlap: Callable[[Any, Any], bool]) -> bool:
    """Whether accesses need asynchronous copies to be complete: they touch what one writes, or write what one reads.

    Args:
        accesses: those of the statement at hand.
        copies: the accesses of copies that are not complete.
        overlap: whether two storages share bytes.
    """
    copies = list(copies)
    pairs = ((access, copy) for access in accesses for copy in copies if not access.kind == copy.kind == READ)
    return any(overlap(access.storage, copy.storage) for access, copy in pairs)
