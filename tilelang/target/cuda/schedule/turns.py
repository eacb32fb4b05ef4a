"""Whether a group of threads writes a tile in turn with another that reads it: as often, so that each content is read.

Nothing else tells the end of what a group writes: a content that no thread reads is waited for by none. Each group is taken as
the runs of its writes, or reads, between statements by which it waits for others or signals to them; runs of one loop nest are
counted. A loop is told by what it counts, and one that may be left early is like no other.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.target.cuda.ir.code import BranchCode, Code, GroupCode, Leaf, LoopCode, children, may_jump, owner
from tilelang.target.cuda.ir.values import Binary


def writes_in_turn(writer: GroupCode, reader: GroupCode, buffer: Any) -> bool:
    """Whether what a group writes to a buffer is certainly read by another one, the only one that reads it."""
    if writer.keeps_turns and reader.keeps_turns:
        return True
    written, read = _runs(writer, buffer, False), _runs(reader, buffer, True)
    return all(read[path] >= count for path, count in written.items())


def _runs(group: GroupCode, buffer: Any, is_reader: bool) -> Counter[tuple[Any, ...]]:
    """How many runs of accesses each loop nest of a group has."""
    kinds = (READ, UPDATE) if is_reader else (WRITE, UPDATE)
    found: Counter[tuple[Any, ...]] = Counter()
    running: set[tuple[Any, ...]] = set()
    for path, leaf in _leaves(group.body, (), is_reader):
        if leaf.hands_over or leaf.waits or leaf.synchronises:
            running.clear()
        if path not in running and any(owner(storage) == buffer for storage in leaf.storages(*kinds)):
            running.add(path)
            found[path] += 1
    return found


def _leaves(code: Code, path: tuple[Any, ...], is_reader: bool) -> Iterator[tuple[tuple[Any, ...], Leaf]]:
    """The leaves of code with the loops around them. A branch of a reader, which may leave a content unread, is like no loop."""
    if isinstance(code, Leaf):
        yield path, code
        return
    if isinstance(code, LoopCode):
        path = (*path, _counted(code))
    elif is_reader and isinstance(code, BranchCode) and code.threads is None:
        path = (*path, code)
    for part in children(code):
        yield from _leaves(part, path, is_reader)


def _counted(loop: LoopCode) -> Any:
    """What tells that two loops have as many iterations; the loop itself where nothing does."""
    if len(loop.counters) != 1 or any(map(may_jump, loop.body.items)):
        return loop
    ((name, first),), ((_, following),), condition = loop.counters, loop.advance, loop.condition
    if not isinstance(condition, Binary) or not isinstance(following, Binary) or not condition.left == following.left == name:
        return loop
    return first, condition.op, condition.right, following.op, following.right
