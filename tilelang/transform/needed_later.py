"""Liveness of memory of threads after each ``T.Parallel``: which elements are read before they are stored to again.

The analysis walks the program backwards, with the set of elements whose values are needed after each statement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import children, flattened, is_parallel, walk
from tilelang.transform.first_use import FirstUse, Memory, uses

Needed = frozenset[tuple[Memory, tuple[int, ...]]]


class NeededLater:
    """What is needed after each ``T.Parallel`` of a program."""

    def __init__(self, memories: Iterable[Memory], body: Any):
        self._memories = list(memories)
        self._all: Needed = frozenset((memory, element) for memory in self._memories for element in memory.elements)
        self._after: dict[Any, Needed] = {}
        self._opaque: dict[Any, bool] = {}
        self._before(body, frozenset())

    def after(self, loop: Any, memory: Memory) -> set[tuple[int, ...]]:
        """The elements of which the values are needed after a ``T.Parallel``."""
        return {element for other, element in self._after[loop] if other is memory}

    def _before(self, stmt: Any, after: Needed) -> Needed:
        """What is needed before a statement, from what is needed after it."""
        if isinstance(stmt, (ir.Break, ir.Continue)):
            # Control goes on at another place, where any element may be read.
            return self._all
        if isinstance(stmt, ir.SeqStmt):
            for part in reversed(flattened(stmt)):
                after = self._before(part, after)
            return after
        if is_parallel(stmt):
            self._after[stmt] = self._after.get(stmt, frozenset()) | after
        if self._is_opaque(stmt):
            return self._through(stmt, after)
        if isinstance(stmt, (ir.For, ir.While)):
            # Two passes reach the fixed point: what an iteration reads is needed at the end of the one before it.
            for _ in range(2):
                after = after | self._before(stmt.body, after)
            return after | self._read_by(stmt)
        sides = children(stmt)
        passes = isinstance(stmt, ir.IfThenElse) and stmt.else_case is None
        return self._read_by(stmt).union(after if passes else (), *(self._before(side, after) for side in sides))

    def _is_opaque(self, stmt: Any) -> bool:
        """Whether a statement can be analysed as a whole: it contains no other ``T.Parallel``, and no jump."""
        if stmt not in self._opaque:
            inner = () if is_parallel(stmt) else walk(stmt)
            self._opaque[stmt] = not any(is_parallel(part) or isinstance(part, (ir.Break, ir.Continue)) for part in inner)
        return self._opaque[stmt]

    def _through(self, stmt: Any, after: Needed) -> Needed:
        """What is needed before such a statement."""
        named = {use.buffer for part in walk(stmt) for use in uses(part)}
        for memory in self._memories:
            if not named.isdisjoint(memory.buffers):
                found = FirstUse(memory, stmt)
                after = (after - {(memory, each) for each in found.stored}) | {(memory, each) for each in found.read}
        return after

    def _read_by(self, stmt: Any) -> Needed:
        """What a loop or branch reads itself."""
        named = {use.buffer for use in uses(stmt)}
        return frozenset((memory, each) for memory, each in self._all if not named.isdisjoint(memory.buffers))
