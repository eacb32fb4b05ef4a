"""Where each shared buffer lies: offsets in one pool, by liveness.

Two buffers may share bytes where one is last used before the other is first used. A buffer that a loop touches lives through the
whole loop unless the first thing that the loop does to it is to fill it. What threads side by side use is alive together.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilelang.errors import SharedMemoryError
from tilelang.target.cuda.code import Block, Code, Leaf, LoopCode, Slot, children, owner, roles_at

_LIMITS: Mapping[int, int] = {
    75: 65536,
    80: 166912,
    86: 101376,
    87: 166912,
    89: 101376,
    90: 232448,
    100: 232448,
    103: 232448,
    110: 232448,
    120: 101376,
    121: 101376,
}
"""Compute capability -> largest dynamic shared memory of a block in bytes (CUDA programming guide, technical specifications)."""

_BARRIER_ALIGNMENT = 8


@dataclass(frozen=True)
class SharedPlan:
    """Offset and size in bytes of each buffer, and the size of the pool."""

    places: Mapping[Any, tuple[int, int]]
    size: int

    def overlap(self, a: Any, b: Any) -> bool:
        """Whether two buffers share bytes."""
        if a is b or a == b:
            return True
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
    root: Block, sizes: Mapping[Any, tuple[int, int]], kernel: str, target: Any, barriers: Mapping[Any, int] | None = None
) -> SharedPlan:
    """Offsets for the buffers of ``sizes`` (bytes, alignment), and behind them for barriers (bytes), which live throughout.

    Raises:
        SharedMemoryError: the pool does not fit the target.
    """
    spans = _lifetimes(root)
    order = sorted((b for b in sizes if b in spans), key=lambda b: (-sizes[b][0], spans[b][0], b.name))
    places: dict[Any, tuple[int, int]] = {}
    for buffer in order:
        size, align = sizes[buffer]
        busy = sorted(places[other] for other in places if _meet(spans[buffer], spans[other]))
        places[buffer] = (_first_gap(busy, size, align), size)
    total = max((offset + size for offset, size in places.values()), default=0)
    for barrier, size in (barriers or {}).items():
        places[barrier] = (-(-total // _BARRIER_ALIGNMENT) * _BARRIER_ALIGNMENT, size)
        total = sum(places[barrier])
    limit = _LIMITS.get(target.sm, 101376)
    if total > limit:
        largest = ", ".join(f"{b.name} {sizes[b][0]}" for b in order[:4])
        raise SharedMemoryError(kernel, total, limit, target.arch, largest)
    return SharedPlan(places, total)


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] <= b[1] and b[0] <= a[1]


def _first_gap(busy: list[tuple[int, int]], size: int, align: int) -> int:
    offset = 0
    for start, length in busy:
        if offset + size <= start:
            break
        offset = max(offset, -(-(start + length) // align) * align)
    return offset


def _lifetimes(root: Block) -> dict[Any, tuple[int, int]]:
    """First and last leaf, by number, at which each buffer is alive."""
    spans: dict[Any, tuple[int, int]] = {}
    _walk(root, 0, spans)
    return spans


def _walk(code: Code, clock: int, spans: dict[Any, tuple[int, int]]) -> int:
    if isinstance(code, Leaf):
        for buffer in map(owner, code.reads | code.writes | code.copies):
            first, _ = spans.get(buffer, (clock, clock))
            spans[buffer] = (first, clock)
        return clock + 1
    start = clock
    if isinstance(code, LoopCode):
        inner: dict[Any, tuple[int, int]] = {}
        clock = _walk(code.body, clock, inner)
        filled = _filled_first(code.body)
        for buffer, (first, last) in inner.items():
            whole = buffer not in filled or buffer in code.carried
            first, last = (start, clock) if whole else (first, last)
            old = spans.get(buffer, (first, last))
            spans[buffer] = (min(old[0], first), max(old[1], last))
        for buffer in code.carried:
            old = spans.get(buffer, (start, clock))
            spans[buffer] = (min(old[0], start), max(old[1], clock))
        return clock + 1
    items = children(code)
    while items:
        together = roles_at(items, 0)
        if len(together) > 1:
            clock = _side_by_side(together, clock, spans)
        else:
            clock = _walk(items[0], clock, spans)
        items = items[max(1, len(together)) :]
    return clock


def _side_by_side(scopes: list[Any], clock: int, spans: dict[Any, tuple[int, int]]) -> int:
    start = clock
    inner: dict[Any, tuple[int, int]] = {}
    for scope in scopes:
        clock = _walk(scope, clock, inner)
    for buffer in inner:
        spans[buffer] = (min(spans.get(buffer, (start, clock))[0], start), clock)
    return clock


def _filled_first(body: Block) -> set[Any]:
    """Buffers whose first access in the body, not under a condition, overwrites them as a whole."""
    seen: set[Any] = set()
    filled: set[Any] = set()
    for item in body.items:
        if isinstance(item, Leaf):
            filled |= item.fills - item.reads - seen
            seen |= item.reads | item.writes | item.copies
        else:
            stack: list[Code] = [item]
            while stack:
                code = stack.pop()
                if isinstance(code, Leaf):
                    seen |= code.reads | code.writes | code.copies
                stack += children(code)
    return filled
