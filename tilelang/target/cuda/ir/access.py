"""Accesses of memory: the record that all steps of the CUDA target use.

Later steps fill in other fields than earlier ones. In the tile IR an access has what the program says: a buffer, its indices, the
kind. In the device IR the program's indices are gone: the buffer is the one that owns the memory, and the access says which agent
makes it and which thread touches which element.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Collection
from functools import cached_property
from itertools import product
from typing import Any

from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.ir.visit import variables
from tilelang.records import Record


class Agent(enum.Enum):
    """Who makes an access. All but a thread's own are asynchronous: they are complete after a wait for that agent.

    See the PTX manual, "Memory Consistency Model", "Proxies" and "Asynchronous operations". Single copies by cp.async that the
    program makes it waits for by itself.
    """

    THREAD = "thread"
    CP_ASYNC = "cp.async"
    CP_ASYNC_OF_PROGRAM = "cp.async of the program"
    TENSOR_CORE = "wgmma"
    BULK = "bulk copy"
    BULK_OF_TENSOR = "bulk copy, in the tensor"


_ELEMENTS = 1 << 16
"""As many elements that threads touch are looked at one by one."""

Sum = tuple[int, tuple[tuple[int, int, int], ...]]


def _numbers(index: Sum, thread: int) -> set[int]:
    """The values that an index may have in a thread."""
    found = {index[0]}
    for weight, low, extent in index[1]:
        parts = range(extent) if low == 0 else [thread // low % extent]
        found = {number + weight * part for number in found for part in parts}
    return found


class ThreadMap(Record):
    """Which thread touches which element of a buffer, as far as the element's index determines it.

    If 128 threads write a tile (32, 64), of which thread ``t`` writes row ``t // 4``, then the index of the first axis determines
    a part of the thread's number: the digit ``(0, 1, 4, 32, 0)``, since ``index // 1 % 32 == t // 4 % 32``.

    Attributes:
        buffer: the buffer, by the name that the indices are of; None where one thread makes all accesses.
        digits: the parts of the thread's number that an index determines, each as (axis, weight, low, extent, offset):
            ``(index - offset) // weight % extent == thread // low % extent``. The offset is less than ``weight * extent``.
        first: the thread that is number 0.
        threads: how many may take part.
        place: a hash of the index expressions, where they depend on numbers of threads and iterations only.
        box: the lowest and the highest index of each axis; None where that is not known.
        sums: in code that some threads run, the index of each axis as an offset and parts ``weight * (number // low % extent)``
            of the number of the thread, or of a loop where ``low`` is 0; None where that is not known.
    """

    buffer: Any
    digits: frozenset[tuple[int, int, int, int, int]]
    first: int
    threads: int
    place: int | None = None
    box: tuple[tuple[int, int] | None, ...] = ()
    sums: tuple[Sum | None, ...] = ()

    def may_meet(self, other: ThreadMap, threads: Collection[int]) -> bool:
        """Whether two different ones of some threads may touch the same element, the one by this map, the other by the other."""
        axes = [(one, two) for one, two in zip(self.sums, other.sums) if one is not None and two is not None]
        if self.buffer != other.buffer or not axes:
            return True
        first, second = ([[_numbers(sums[side], thread) for sums in axes] for thread in threads] for side in (0, 1))
        if sum(math.prod(map(len, numbers)) for numbers in (*first, *second)) > _ELEMENTS:
            return True
        touched: dict[tuple[int, ...], set[int]] = {}
        for thread, numbers in zip(threads, first):
            for element in product(*numbers):
                touched.setdefault(element, set()).add(thread)
        return any(
            touched.get(element, set()) - {thread} for thread, numbers in zip(threads, second) for element in product(*numbers)
        )

    def separates(self, other: ThreadMap, group: int = 1) -> bool:
        """Whether two threads that touch the same element, one by each map, are in the same aligned group of ``group`` threads.

        If so, no barrier wider than such a group is needed between the two accesses: with ``group=1`` none at all, as each thread
        meets only its own accesses, with ``group=32`` one of warps.
        """
        if self.first != other.first or (self.buffer != other.buffer and max(self.threads, other.threads) > 1):
            return False
        # The element is the same, so both threads' numbers have the same digits where both maps derive them from the same part of
        # the index. `known` is the modulus up to which the numbers are equal, positions within a group aside; digits must join
        # without a gap. If it reaches the number of threads, the two threads are in one group.
        known = group
        for low, extent in sorted((low, extent) for _, _, low, extent, _ in self.digits & other.digits):
            if low <= known:
                known = max(known, low * extent)
        return known >= max(self.threads, other.threads)

    def never_overlaps(self, other: ThreadMap) -> bool:
        """Whether the two touch different parts of the buffer, whichever threads do."""
        if self.buffer is None or self.buffer != other.buffer:
            return False
        return any(one and two and (one[1] < two[0] or two[1] < one[0]) for one, two in zip(self.box, other.box))


class Site(Record, eq=False):
    """Where a statement of the program accesses a buffer.

    Attributes:
        indices: of the element, or of the region's first one.
        extents: of a region; None of an element.
        fills: whether the region is the whole buffer, and its old content is not used.
        conditional: whether the access may not happen.
        local_index: whether an index uses variables that the statement's body defines.
        loaded: the buffers that an index is loaded from.
        step: number of the store or call, in program order. In an inner loop a read may follow any store of the loop, in the next
            iteration; so there all stores have the number of the first statement, and all reads that of the statement after it.
    """

    indices: tuple[Any, ...] = ()
    extents: tuple[Any, ...] | None = None
    fills: bool = False
    conditional: bool = False
    local_index: bool = False
    loaded: tuple[Any, ...] = ()
    step: int = 0

    @property
    def in_body(self) -> bool:
        """Whether the index can be computed inside of the statement's body only."""
        return self.local_index or bool(self.loaded)

    @cached_property
    def variables(self) -> frozenset[Any]:
        """What the indices are computed from."""
        return frozenset(var for index in self.indices for var in variables(index))


ANYWHERE = Site()
"""The site of an access whose indices in the program are unknown, or no longer kept."""


class Access(Record):
    """One access of a buffer.

    Attributes:
        buffer: in the tile IR as the program names it; in the device IR the one that owns the memory, or one slot of it.
        kind: :data:`~tilelang.ir.access.READ`, ``WRITE``, ``UPDATE`` or ``ADDRESS``.
        agent: who makes it.
        operation: of an update: updates by the same operation commute.
        maps: which threads touch which elements, one map for each statement that makes the access; None where that is not known.
        site: where the program makes it.
        awaited: of a bulk load, and of reads in the same code without a barrier inside, what tells this code: it waits for the
            load itself, and orders the next one after what it has read.
    """

    buffer: Any
    kind: str
    agent: Agent = Agent.THREAD
    operation: str = ""
    maps: frozenset[ThreadMap] | None = None
    site: Site = ANYWHERE
    awaited: Any = None

    @property
    def reads(self) -> bool:
        """Whether the old content may be used."""
        return self.kind != WRITE

    @property
    def writes(self) -> bool:
        """Whether the content may be changed."""
        return self.kind != READ

    @property
    def synchronous(self) -> bool:
        """Whether it is complete when its statement is."""
        return self.agent is Agent.THREAD

    @property
    def is_stored_by_threads(self) -> bool:
        """Whether threads may change the content."""
        return self.writes and self.agent not in (Agent.BULK, Agent.BULK_OF_TENSOR)

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
        in_order = self.awaited is not None and self.awaited is other.awaited
        return self.kind == other.kind == READ or (in_order and (self.is_bulk_load or other.is_bulk_load))

    def is_disjoint_from(self, other: Access, group: int = 1, threads: Collection[int] | None = None) -> bool:
        """Whether no element is touched by two threads, one by each access.

        Args:
            other: the other access.
            group: threads of one aligned group of this size may meet.
            threads: those that make the accesses, where that is known.
        """

        def is_disjoint(one: ThreadMap, two: ThreadMap) -> bool:
            known = one.never_overlaps(two) or one.separates(two, group)
            return known or (threads is not None and not one.may_meet(two, threads))

        return self._all_maps(other, is_disjoint)

    def never_overlaps(self, other: Access) -> bool:
        """Whether no element is touched by both, be it by one thread."""
        return self._all_maps(other, ThreadMap.never_overlaps)

    def _all_maps(self, other: Access, holds: Callable[[ThreadMap, ThreadMap], bool]) -> bool:
        if self.maps is None or other.maps is None or self.buffer != other.buffer:
            return False
        return all(holds(one, two) for one in self.maps for two in other.maps)
