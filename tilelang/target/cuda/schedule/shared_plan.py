"""Where each shared buffer lies: offsets in one pool, by liveness.

Two buffers may share bytes where one is last used before the other is first used. A buffer that a loop touches lives through the
whole loop unless the first thing that the loop does to it is to fill it. What concurrent groups of threads use is alive at the
same time, and so is what divergent code uses. The source of a bulk store is in use until the store was waited for, and what the
program loads by bulk copies until it is read: it has waited for the load then.

Shared bytes are paid for by a barrier between the last use of one buffer and the first use of the next. Small buffers (scratch of
reductions, statistics of rows) therefore have bytes of their own, unless fewer blocks would then fit a multiprocessor.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from tilelang.errors import SharedMemoryError
from tilelang.ir.access import READ, UPDATE
from tilelang.records import Record
from tilelang.target.cuda.arch import arch_of
from tilelang.target.cuda.ir.code import (
    Block,
    BranchCode,
    Code,
    GroupCode,
    Jump,
    Leaf,
    LoopCode,
    Slot,
    children,
    find,
    is_run,
    leaves,
    may_jump,
    owner,
    roles_at,
)
from tilelang.target.cuda.ir.instructions import WaitBulk
from tilelang.target.cuda.schedule.turns import writes_in_turn

_BARRIER_ALIGNMENT = 8

_SMALL = 1024
"""Bytes of a buffer that shares none with others if it can."""

_RESERVED = 1024
"""Bytes of a multiprocessor's shared memory that each block takes beside its own (CUDA C++ programming guide, Shared Memory)."""

_BLOCKS, _THREADS = 32, 2048
"""Blocks and threads of a multiprocessor at most, in any architecture."""


class SharedPlan(Record):
    """Offset and size in bytes of each buffer, and the size of the pool."""

    places: Mapping[Any, tuple[int, int]]
    size: int

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two buffers share bytes."""
        if a is b or a == b:
            return True
        # Two slots with different numbers never are the same bytes (the same slot was equal above).
        if isinstance(a, Slot) and isinstance(b, Slot) and a.buffer == b.buffer:
            return False
        a, b = owner(a), owner(b)
        if a == b:
            return True
        if a not in self.places or b not in self.places:
            return False
        (first, size), (second, other) = self.places[a], self.places[b]
        return first < second + other and second < first + size


def plan_shared(
    root: Block,
    sizes: Mapping[Any, tuple[int, int]],
    kernel: str,
    target: Any,
    threads: int,
    barriers: Mapping[Any, int] | None = None,
    may_share: bool = True,
) -> SharedPlan:
    """Offsets for the buffers of ``sizes`` (bytes, alignment), and behind them for barriers (bytes), which live throughout.

    Args:
        kernel: its name, for the error.
        threads: those of a block.
        may_share: whether buffers may have the same bytes at different times, which only barriers between them make right.

    Raises:
        SharedMemoryError: the pool does not fit the target.
    """
    lifetimes, limit = _Lifetimes(root), arch_of(target).shared_bytes
    plan = _plan(lifetimes, sizes, barriers or {}, own=0 if may_share else math.inf)
    if plan.size > limit:
        largest = ", ".join(f"{buffer.name} {sizes[buffer][0]}" for buffer in _by_size(lifetimes, sizes)[:4])
        raise SharedMemoryError(kernel, plan.size, limit, target.arch, largest)
    if not may_share:
        return plan
    wider = _plan(lifetimes, sizes, barriers or {}, own=_SMALL)
    return wider if _resident(wider.size, threads, limit) == _resident(plan.size, threads, limit) else plan


def _resident(pool: int, threads: int, limit: int) -> int:
    """How many blocks fit a multiprocessor, whose shared memory is that of the largest block and what is reserved for it."""
    return min(_BLOCKS, max(1, _THREADS // threads), (limit + _RESERVED) // (pool + _RESERVED))


def _plan(lifetimes: _Lifetimes, sizes: Mapping[Any, tuple[int, int]], barriers: Mapping[Any, int], own: float) -> SharedPlan:
    """A plan in which buffers of up to ``own`` bytes share none with others."""
    # First fit, largest first: small buffers then fill the gaps that large ones leave.
    places: dict[Any, tuple[int, int]] = {}
    for buffer in _by_size(lifetimes, sizes):
        size, align = sizes[buffer]
        # Only buffers that are alive at the same time keep each other off; all others may lie under this one.
        busy = sorted(places[other] for other in places if size <= own or lifetimes.meet(buffer, other))
        places[buffer] = (_first_gap(busy, size, align), size)
    total = max((offset + size for offset, size in places.values()), default=0)
    for barrier, size in barriers.items():
        places[barrier] = (-(-total // _BARRIER_ALIGNMENT) * _BARRIER_ALIGNMENT, size)
        total = sum(places[barrier])
    return SharedPlan(places, total)


def _by_size(lifetimes: _Lifetimes, sizes: Mapping[Any, tuple[int, int]]) -> list[Any]:
    """The buffers that are used, the largest first."""
    spans = lifetimes.spans
    return sorted((b for b in sizes if b in spans), key=lambda b: (-sizes[b][0], spans[b][0], b.name))


def _first_gap(busy: list[tuple[int, int]], size: int, align: int) -> int:
    offset = 0
    for start, length in busy:
        if offset + size <= start:
            break
        offset = max(offset, -(-(start + length) // align) * align)
    return offset


class _Lifetimes:
    """When each buffer is alive.

    Attributes:
        spans: first and last leaf, by number.
        homes: for each run of concurrent groups, buffer -> the group in whose order the buffer lives: its only user, or the only
            reader of what the others write; None where there are several.
    """

    def __init__(self, root: Block):
        self._stored: frozenset[Any] = frozenset()  # sources of bulk stores that may be under way
        self._loading: frozenset[Any] = frozenset()  # what bulk loads that nothing has read yet may be filling
        self._left: list[tuple[frozenset[Any], frozenset[Any]]] = []  # both, where loops are left or continued
        self.spans: dict[Any, tuple[int, int]] = {}
        self.homes: list[dict[Any, Any]] = []
        self._walk(root, 0, self.spans)

    def meet(self, a: Any, b: Any) -> bool:
        """Whether two buffers are alive at the same time."""
        (first, last), (start, end) = self.spans[a], self.spans[b]
        # Numbers of leaves order what happens in one group of threads. Groups that run at the same time have no common clock: two
        # buffers of different groups always meet.
        return (first <= end and start <= last) or any(a in home and b in home and home[a] is not home[b] for home in self.homes)

    def _walk(self, code: Code, clock: int, spans: dict[Any, tuple[int, int]]) -> int:
        if isinstance(code, Leaf):
            # A bulk store reads its source until it is waited for, which is after its statement.
            for buffer in {*map(owner, code.storages()), *self._stored, *self._loading}:
                _extend(spans, buffer, clock, clock)
            waited = any(not wait.pending for wait in find(code, WaitBulk))
            sources = {owner(access.buffer) for access in code.accesses if access.is_bulk_store}
            self._stored = frozenset() if waited else self._stored | sources
            loads = {owner(access.buffer) for access in code.accesses if access.is_bulk_load}
            self._loading = self._loading.difference(map(owner, code.storages(READ, UPDATE))) | loads
            return clock + 1
        if isinstance(code, Jump):
            self._left.append((self._stored, self._loading))
        if isinstance(code, LoopCode) or isinstance(code, BranchCode) and code.divergent:
            return self._repeated(code, clock, spans)
        if isinstance(code, BranchCode):
            return self._either(code, clock, spans)
        items = children(code)
        while items:
            groups = roles_at(items, 0)
            if len(groups) > 1:
                clock = self._concurrent(groups, clock, spans)
            else:
                clock = self._walk(items[0], clock, spans)
            items = items[max(1, len(groups)) :]
        return clock

    def _either(self, code: BranchCode, clock: int, spans: dict[Any, tuple[int, int]]) -> int:
        """A branch: a store from before it is waited for only if both sides wait, and what was loaded is read only if both do."""
        before = self._stored, self._loading
        after = [] if code.otherwise is not None else [before]
        for side in children(code):
            self._stored, self._loading = before
            clock = self._walk(side, clock, spans)
            after.append((self._stored, self._loading))
        self._join(after)
        return clock

    def _join(self, ways: Iterable[tuple[frozenset[Any], frozenset[Any]]]) -> None:
        """Bulk copies under way after one of some ways."""
        self._stored, self._loading = (frozenset[Any]().union(*parts) for parts in zip(*ways))

    def _repeated(self, code: LoopCode | BranchCode, start: int, spans: dict[Any, tuple[int, int]]) -> int:
        """A loop, or a branch that threads run at different times."""
        inner: dict[Any, tuple[int, int]] = {}
        clock, before = start, (self._stored, self._loading)
        outer, self._left = self._left, [] if isinstance(code, LoopCode) else self._left
        for part in children(code):
            clock = self._walk(part, clock, inner)
        if isinstance(code, LoopCode):
            self._join([before, *self._left, (self._stored, self._loading)][is_run(code) :])
            self._left = outer
        # A buffer that the loop reads before it fills it has a value from the iteration before: it lives from the end of one
        # iteration to the beginning of the next, hence throughout. So does whatever divergent code touches.
        carried = code.carried if isinstance(code, LoopCode) else frozenset()
        kept: set[Any] = set()
        if isinstance(code, LoopCode) and not code.divergent:
            kept = _filled_first(code.body) - carried - self._stored - self._loading
        for buffer in inner.keys() | carried:
            _extend(spans, buffer, *(inner[buffer] if buffer in kept else (start, clock)))
        return clock + 1

    def _concurrent(self, groups: list[GroupCode], start: int, spans: dict[Any, tuple[int, int]]) -> int:
        clock, used = start, {}
        before, loading = self._loading, set[Any]()
        for group in groups:
            used[group] = {}
            self._loading = before
            clock = self._walk(group, clock, used[group])
            loading |= self._loading
        read = {group: {owner(b) for leaf in leaves(group) for b in leaf.storages(READ, UPDATE) - leaf.fills} for group in groups}
        homes: dict[Any, Any] = {}
        for buffer in {buffer for inner in used.values() for buffer in inner}:
            users = [group for group in groups if buffer in used[group]]
            readers = [group for group in users if buffer in read[group]]
            # Groups run at the same time, so what several touch is in use throughout the run. Only the end of a buffer with
            # one reader is known: that reader's last use, since the writers wait for it before they write again, if nothing is
            # written in vain.
            home = users[0] if len(users) == 1 else None
            in_turn = [reader for reader in readers if _is_read_in_turn(buffer, users, reader)] if home is None else []
            if in_turn:
                loading.discard(buffer)
                home = in_turn[0] if len(readers) == 1 else None
            homes[buffer] = home
            first, last = used[home][buffer] if home is not None else (start, clock)
            _extend(spans, buffer, first if len(users) == 1 else start, last)
        self._loading = frozenset(loading)
        self.homes.append(homes)
        return clock


def _is_read_in_turn(buffer: Any, users: list[GroupCode], reader: GroupCode) -> bool:
    """Whether a group certainly reads all that others write to a buffer."""
    return all(writes_in_turn(group, reader, buffer) for group in users if group is not reader)


def _extend(spans: dict[Any, tuple[int, int]], buffer: Any, first: int, last: int) -> None:
    old = spans.get(buffer, (first, last))
    spans[buffer] = (min(old[0], first), max(old[1], last))


def _filled_first(body: Block) -> set[Any]:
    """Buffers whose first access in the body, not under a condition, overwrites them as a whole."""
    seen: set[Any] = set()
    filled: set[Any] = set()
    for item in body.items:
        if may_jump(item):
            break  # what follows may be left out
        # A leaf of a branch or an inner loop may not run, so that old values may survive it: those count as seen, never as
        # filled.
        if isinstance(item, Leaf):
            filled |= item.fills - item.storages(READ, UPDATE) - seen
        seen |= {storage for leaf in leaves(item) for storage in leaf.storages()}
    return filled
