"""When two accesses have an order that barriers and waits must keep: asked where these are placed, and by the proof of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Any

from tilelang.ir.access import READ
from tilelang.records import Record
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import owner


class Conflicts(Record, eq=False):
    """The conflicts in the memory of a kernel.

    Attributes:
        overlap: whether two storages share bytes.
        is_ordered: whether barriers are to order the accesses of a storage; waits and fences do in any case.
    """

    overlap: Callable[[Any, Any], bool]
    is_ordered: Callable[[Any], bool] = lambda storage: True

    def between(
        self, accesses: Iterable[Access], earlier: Iterable[Access], group: int = 1, threads: Collection[int] | None = None
    ) -> tuple[Access, Access] | None:
        """Two accesses, one of each collection, whose order a barrier between them has to keep; None where there are none.

        Threads of one aligned ``group`` of this size are in order without a barrier. Only some ``threads`` may make them."""
        right = [access for access in earlier if self.is_ordered(owner(access.buffer))]
        for one in accesses if right else ():
            for two in right if self.is_ordered(owner(one.buffer)) else ():
                meet = not one.commutes_with(two) and self.overlap(one.buffer, two.buffer)
                if meet and not one.is_disjoint_from(two, group, threads):
                    return one, two
        return None

    def with_copies(self, accesses: Iterable[Access], copies: Iterable[Access]) -> bool:
        """Whether accesses need asynchronous copies to be complete: they touch what one writes, or write what one reads."""
        copies = list(copies)
        pairs = ((access, copy) for access in accesses for copy in copies if not access.kind == copy.kind == READ)
        return any(self.overlap(access.buffer, copy.buffer) and not access.never_overlaps(copy) for access, copy in pairs)

    def any_overlap(self, left: Iterable[Any], right: Iterable[Any]) -> bool:
        """Whether two storages, one of each collection, share bytes."""
        right = list(right)
        return any(self.overlap(a, b) for a in left for b in right)
