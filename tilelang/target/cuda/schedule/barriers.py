"""Barriers and waits, exactly where a thread may touch what another one did.

The code is walked in program order with the accesses since the last barrier. A leaf that reads what was written, or writes what
was read or written, gets a barrier before it; one that touches a buffer which an asynchronous copy fills gets a wait as well,
and so does one that tells other threads to go on. Buffers conflict where their bytes overlap, so memory that liveness gave to
two buffers is covered too. Loops are walked twice: what is pending at the end of an iteration, or where one is left, is pending
at the start of the next. What threads wrote and an asynchronous unit reads (wgmma, TMA stores) gets a proxy fence before the
first barrier that follows, one for it alone where there is none; where threads of another scope wrote it, the program's own
barrier orders the two, and the readers fence after it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tilelang.target.cuda.codegen.code import (
    Barrier,
    Block,
    BranchCode,
    Code,
    Jump,
    Leaf,
    LoopCode,
    ScopeCode,
    Wait,
    leaves,
    owner,
    roles_at,
)

_FENCE = "tl::fence_proxy_async();"


@dataclass
class _Pending:
    """Accesses since the last barrier."""

    reads: set[Any] = field(default_factory=set)
    writes: set[Any] = field(default_factory=set)
    copies: set[Any] = field(default_factory=set)
    plain: set[Any] = field(default_factory=set)  # those of the copies that the program takes to be complete
    unfenced: set[Any] = field(default_factory=set)  # written by threads since the last fence for asynchronous units
    foreign: frozenset[Any] = frozenset()  # written by threads of other scopes, at any time
    fenced: bool = False  # whether nothing but asynchronous reads came since the last fence

    def copy(self) -> _Pending:
        sets = map(set, (self.reads, self.writes, self.copies, self.plain, self.unfenced))
        return _Pending(*sets, self.foreign, self.fenced)

    def join(self, other: _Pending) -> None:
        self.reads |= other.reads
        self.writes |= other.writes
        self.copies |= other.copies
        self.plain |= other.plain
        self.unfenced |= other.unfenced
        self.fenced &= other.fenced

    def leave(self) -> _Pending:
        """What is pending at a jump; nothing is behind it, where nobody comes."""
        left = self.copy()
        for found in (self.reads, self.writes, self.copies, self.plain, self.unfenced):
            found.clear()
        self.fenced = True
        return left

    def barrier(self) -> None:
        self.reads.clear()
        self.writes.clear()

    def complete(self, wait: Wait) -> None:
        """Copies that are complete after a wait count as written."""
        if wait.rings:
            done = {buffer for buffer in self.copies if owner(buffer) in wait.rings}
        else:
            done = set(self.copies) if wait.pending == 0 or wait.users else set()
        self.writes |= done
        self.copies -= done
        self.plain -= done

    def forget_slots(self, rings: frozenset[Any]) -> None:
        """After the loop that numbered them, slots of the rings stand for any of their buffer's."""
        for found in (self.reads, self.writes, self.copies, self.plain):
            slots = {buffer for buffer in found if owner(buffer) in rings}
            found -= slots
            found |= {owner(buffer) for buffer in slots}


def insert_barriers(root: Block, overlap: Callable[[Any, Any], bool]) -> None:
    """Adds barriers and waits to ``root`` in place.

    Args:
        overlap: whether two shared buffers share bytes.
    """
    asynchronous = {owner(buffer) for leaf in leaves(root) for buffer in leaf.async_reads | _filled_by_accelerator(leaf)}
    _Inserter(overlap, asynchronous).block(root, _Pending())


class _Inserter:
    """Walks the code.

    Attributes:
        asynchronous: buffers that an asynchronous unit reads or fills somewhere.
        jumps: of each loop around the place, what is pending at its ``break`` and ``continue`` statements.
    """

    def __init__(self, overlap: Callable[[Any, Any], bool], asynchronous: set[Any]):
        self.overlap = overlap
        self.asynchronous = asynchronous
        self.jumps: list[dict[str, list[_Pending]]] = []

    def block(self, block: Block, pending: _Pending) -> None:
        position = 0
        while position < len(block.items):
            roles = roles_at(block.items, position)
            added = self.roles(roles, pending) if roles else self.item(block.items[position], pending)
            block.items[position:position] = added
            position += max(1, len(roles)) + len(added)

    def roles(self, scopes: list[ScopeCode], pending: _Pending) -> list[Code]:
        """Handles neighbouring scopes of different threads, which run side by side: what orders them is the program's own."""
        summaries = {scope: _summary(scope) for scope in scopes}
        for scope in scopes:
            others = [summary for other, summary in summaries.items() if other is not scope]
            foreign = frozenset(owner(buffer) for leaf in others for buffer in leaf.writes | leaf.copies)
            if scope.barrier:
                self.block(scope.body, _Pending(foreign=foreign))
        return self.leaf(_summary(Block([scope.body for scope in scopes])), pending)

    def item(self, code: Code, pending: _Pending) -> list[Code]:
        """Handles one item; gives what must come before it."""
        if isinstance(code, Leaf):
            return self.leaf(code, pending)
        if isinstance(code, Barrier):
            self.barrier(code, pending)
        elif isinstance(code, Wait):
            pending.complete(code)
        elif isinstance(code, Jump):
            self.jumps[-1][code.keyword].append(pending.leave())
        elif isinstance(code, Block):
            self.block(code, pending)
        elif isinstance(code, LoopCode):
            return self.loop(code, pending)
        elif isinstance(code, BranchCode):
            return self.branch(code, pending)
        return []

    def leaf(self, code: Leaf, pending: _Pending) -> list[Code]:
        added: list[Code] = []
        written = code.writes | code.copies
        touched = code.reads | written
        if (code.hands_over and pending.plain) or self.any_overlap(touched, pending.copies):
            added.append(Leaf(["tl::cp_async_commit();"]))
            added.append(Wait(0))
            pending.complete(added[-1])
        filled = _filled_by_accelerator(code)
        ordered = not self.any_overlap(touched, pending.writes) and not self.any_overlap(written | filled, pending.reads)
        if not ordered or self.any_overlap(code.async_reads | filled, pending.unfenced):
            added.append(Barrier())
            self.barrier(added[-1], pending)
        if not code.async_reads:
            pending.fenced = code.lines == [_FENCE]
        elif not pending.fenced and self.any_overlap(map(owner, code.async_reads), pending.foreign):
            added.append(Leaf([_FENCE]))
            pending.fenced = True
        pending.reads |= code.reads - filled
        pending.writes |= code.writes
        pending.copies |= code.copies
        pending.plain |= set() if code.detached else code.copies
        pending.unfenced |= written
        return added

    def barrier(self, code: Barrier, pending: _Pending) -> None:
        """What was written is fenced here where an asynchronous unit may read it; copies that are not complete yet are not."""
        ready = {buffer for buffer in pending.unfenced - pending.copies if self.any_overlap([buffer], self.asynchronous)}
        code.fence |= bool(ready)
        pending.unfenced -= ready
        pending.barrier()

    def any_overlap(self, left: Any, right: Any) -> bool:
        return any(self.overlap(a, b) for a in left for b in right)

    def loop(self, code: LoopCode, pending: _Pending) -> list[Code]:
        if code.divergent:
            return self.leaf(_summary(code), pending)
        if code.carried and isinstance(code.body.items[0], Wait):
            # Every copy issued before the loop is in the group of its first step or an older one.
            pending.complete(Wait(0))
        before = pending.copy()
        self.jumps.append({"break": [], "continue": []})
        for _ in range(2):
            self.block(code.body, pending)
            for end in self.jumps[-1]["continue"]:
                pending.join(end)
            pending.unfenced = set(map(owner, pending.unfenced))
        for end in [before, *self.jumps.pop()["break"]]:
            pending.join(end)
        pending.forget_slots(code.carried)
        pending.reads |= code.carried
        return []

    def branch(self, code: BranchCode, pending: _Pending) -> list[Code]:
        if code.divergent:
            return self.leaf(_summary(code), pending)
        other = pending.copy()
        self.block(code.then, pending)
        if code.otherwise is not None:
            self.block(code.otherwise, other)
        pending.join(other)
        return []


def _filled_by_accelerator(leaf: Leaf) -> frozenset[Any]:
    """Tiles whose loads by the tensor memory accelerator a leaf starts: after what the threads did to them before; when they are
    there is for the program's own barriers."""
    return leaf.fills - leaf.writes - leaf.copies


def _summary(code: Code) -> Leaf:
    """All accesses of some code as one leaf."""
    found = list(leaves(code))
    read = frozenset().union(*(leaf.reads - _filled_by_accelerator(leaf) for leaf in found))
    return Leaf(
        [],
        frozenset().union(*(leaf.reads for leaf in found)),
        frozenset().union(*(leaf.writes for leaf in found)),
        frozenset().union(*(leaf.copies for leaf in found)),
        frozenset().union(*map(_filled_by_accelerator, found)) - read,
        frozenset().union(*(leaf.async_reads for leaf in found)),
        detached=all(leaf.detached for leaf in found if leaf.copies),
        hands_over=any(leaf.hands_over for leaf in found),
    )
