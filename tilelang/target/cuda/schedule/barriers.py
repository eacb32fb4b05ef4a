"""Barriers and waits, exactly where a thread may touch what another one did.

The code is walked in program order with the accesses since the last barrier. A leaf gets a barrier before it where one of its
accesses conflicts with one of those (:class:`Conflicts`: one of them writes, they are not the same atomic operation, and
different threads may make them of the same element); one that touches a buffer which an asynchronous copy fills, or writes one
that such a copy reads, gets a wait as well, and so does one that tells other threads to go on. Buffers conflict where their
bytes overlap, so memory that liveness gave to two buffers is covered too. Where some threads have waited for another block (an
atomic access that acquires), the others come to a barrier with them before they touch a tensor; where some have waited for other
threads of the block or for the accelerator (an mbarrier), before all together touch what those touch.

Copies from before a loop that uses them are complete before it. Loops are walked twice: what is pending at the end of an
iteration, or where one is left, is pending at the start of the next. A loop whose iterations need no barrier among themselves is
one leaf: what it needs stands before it, and not in every iteration. What threads wrote and an asynchronous agent reads (wgmma,
TMA stores) gets a proxy fence before the first barrier that follows, one for it alone where there is none; where threads of
another group wrote it, the program's own barrier orders the two, and the readers fence after it.

Code below a condition that threads disagree on is one leaf: no barrier can be inside. Where its own statements have an order it
is rewritten first (schedule/divergence.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tilelang.errors import DivergenceError
from tilelang.ir.access import READ
from tilelang.ir.memory import is_global
from tilelang.ir.span import location_of
from tilelang.target.cuda.ir.access import Access, Agent
from tilelang.target.cuda.ir.code import (
    Barrier,
    Block,
    BranchCode,
    Code,
    GroupCode,
    Jump,
    Leaf,
    LoopCode,
    Wait,
    children,
    combined_accesses,
    control_accesses,
    find,
    is_run,
    leaves,
    owner,
    rebuilt,
    roles_at,
)
from tilelang.target.cuda.ir.instructions import CommitCopies, FenceAsync, Instruction, NamedBarrier, WaitBulk
from tilelang.target.cuda.ir.values import Name
from tilelang.target.cuda.schedule.conflicts import Conflicts
from tilelang.target.cuda.schedule.divergence import Divergence, check_returns

_ASYNC_PROXY = (Agent.TENSOR_CORE, Agent.BULK, Agent.BULK_OF_TENSOR)
"""Agents that access memory through the asynchronous proxy: they see what threads wrote after a proxy fence only."""

_SETS = ("accesses", "copies", "implicit", "started", "stores", "unfenced")


@dataclass
class _Pending:
    """What has happened since the last barrier.

    Attributes:
        accesses: by threads, and reads of asynchronous agents.
        copies: what asynchronous copies that are not complete read and write.
        started: what copies that the program waits for by itself, and may have left in flight, read and write: those of its own
            cp.async until it has waited for all, and its ``T.async_copy`` from its first wait on.
        stores: what bulk stores without a wait so far read, and write of tensors: a barrier does not complete them.
        implicit: what those do that the program takes to be complete.
        unfenced: storages that threads wrote since the last fence for asynchronous agents.
        written_by_others: storages that threads of other groups write, at any time.
        fenced: whether nothing but asynchronous reads came since the last fence.
        touched_by_others: storages that threads of other groups access, at any time.
        acquired: whether some threads have seen what other blocks wrote, and the others have not come to a barrier with them.
        waited: whether some threads have waited for others of the block, and the rest have not come to a barrier with them.
    """

    accesses: set[Access] = field(default_factory=set)
    copies: set[Access] = field(default_factory=set)
    implicit: set[Access] = field(default_factory=set)
    started: set[Access] = field(default_factory=set)
    stores: set[Access] = field(default_factory=set)
    unfenced: set[Any] = field(default_factory=set)
    written_by_others: frozenset[Any] = frozenset()
    touched_by_others: frozenset[Any] = frozenset()
    fenced: bool = False
    acquired: bool = False
    waited: bool = False

    def copy(self) -> _Pending:
        return replace(self, **{name: set(getattr(self, name)) for name in _SETS})

    def join(self, other: _Pending) -> None:
        for name in _SETS:
            getattr(self, name).update(getattr(other, name))
        self.fenced &= other.fenced
        self.acquired |= other.acquired
        self.waited |= other.waited

    def leave(self) -> _Pending:
        """The state at a jump. The statements after a jump are unreachable: nothing is pending there."""
        left = self.copy()
        for name in _SETS:
            getattr(self, name).clear()
        self.fenced, self.acquired, self.waited = True, False, False
        return left

    def complete(self, wait: Wait) -> None:
        """What copies that are complete after a wait did counts as threads' own accesses."""
        done = wait.completed(self.copies)
        # The program counts its own groups alone: the compiler's copies may be in a newer one than those that its wait is for.
        if wait.users and wait.pending:
            done -= self.implicit
        self.accesses |= _of_threads(done)
        self.copies -= done
        self.implicit -= done
        if wait.users:
            # Which groups a wait leaves in flight is not followed: the next one may be what completes any of these.
            self.started |= done
            self.accesses |= _of_threads(self.started)
            self.started = self.started if wait.pending else set()

    def forget_slots(self, rings: frozenset[Any]) -> None:
        """After the loop that numbered them, slots of the rings stand for any of their buffer's."""
        for found in (self.accesses, self.copies, self.implicit, self.stores):
            slots = {access for access in found if owner(access.buffer) in rings}
            found -= slots
            found |= {Access(owner(access.buffer), access.kind, access.agent) for access in slots}


def with_barriers(
    code: Block,
    conflicts: Conflicts,
    barrier: Callable[[range], Instruction] = lambda threads: NamedBarrier(threads.start, len(threads)),
    name: Callable[[str], Name] = Name,
) -> Block:
    """The code with barriers and waits.

    Args:
        conflicts: when two accesses of its memory have an order.
        barrier: a barrier of neighbouring threads.
        name: an identifier that is not used yet, like a wanted one.

    Raises:
        CompileError: threads that run code at different times would have to wait for each other in it.
    """
    root = _copied(code)
    assert isinstance(root, Block)
    _Inserter(root, conflicts, barrier, name).block(root, _Pending())
    check_returns(root)
    return root


def _copied(code: Code) -> Code:
    """Code that can be added to: its structure and its barriers are new, what they contain is the same."""
    return replace(code) if isinstance(code, Barrier) else rebuilt(code, _copied)


class _Inserter:
    """Walks the code and adds to it in place.

    Attributes:
        asynchronous: buffers that an asynchronous agent reads or fills somewhere.
        started: buffers that copies by cp.async which the program waits for by itself read or fill somewhere.
        tensors: those of them that are no shared memory.
        jumps: of each loop around the place, what is pending at its ``break`` and ``continue`` statements.
    """

    def __init__(self, root: Block, conflicts: Conflicts, barrier: Any, name: Any):
        self.conflicts = conflicts
        by_proxy = [access for leaf in leaves(root) for access in leaf.accesses if access.agent in _ASYNC_PROXY]
        self.asynchronous = {owner(access.buffer) for access in by_proxy}
        self.started = {owner(a.buffer) for leaf in leaves(root) for a in leaf.accesses if a.agent is Agent.CP_ASYNC_OF_PROGRAM}
        self.tensors = {access.buffer for access in by_proxy if access.agent is Agent.BULK_OF_TENSOR}
        self.divergence = Divergence(conflicts.between, barrier, name)
        self.jumps: list[dict[str, list[_Pending]]] = []

    def block(self, block: Block, pending: _Pending) -> None:
        position = 0
        while position < len(block.items):
            code = block.items[position]
            if isinstance(code, (BranchCode, LoopCode)) and code.divergent:
                block.items[position : position + 1] = self.divergence.ordered(code)
            # Neighbouring groups of different threads run at the same time: none of them comes before another, so they are
            # handled as one item.
            roles = roles_at(block.items, position)
            scattered = [role for role in roles if role.scattered]
            apart = self.apart(scattered)
            if apart < len(scattered):
                if scattered[apart] is roles[0]:  # its parts take turns with the other threads, with barriers of all in between
                    block.items[position : position + 1] = roles[0].body.items
                    continue
                place = roles.index(scattered[apart])
                self.check_turns(roles[:place], roles[place:])
                roles = roles[:place]
            added = self.roles(roles, pending) if roles else self.item(block.items[position], pending)
            block.items[position:position] = added
            position += max(1, len(roles)) + len(added)

    def apart(self, branches: list[GroupCode]) -> int:
        """How many of some branches that scattered threads take, which have no barrier of their own, need none."""
        found: dict[frozenset[int], list[Access]] = {}
        for count, branch in enumerate(branches):
            accesses, takers = combined_accesses(branch), branch.takers
            waits_in_part = any(_is_waited_in_part(code) for part in branch.body.items for code in children(part))
            acquires = any(leaf.acquires for leaf in leaves(branch))
            if takers is None or waits_in_part or acquires or any(find(branch, Barrier)):
                return count
            if not all(access.synchronous for access in accesses):
                return count
            # Threads that take several of the branches run these in program order.
            of_takers = [*found.pop(takers, ()), *accesses]
            if not all(map(takers.isdisjoint, found)) or self.conflicts.between(of_takers, of_takers, threads=takers):
                return count
            found[takers] = of_takers
        return len(branches)

    def check_turns(self, before: list[GroupCode], behind: list[GroupCode]) -> None:
        """Checks that a branch whose threads need barriers of all, the first of those behind, is not beside others that may wait
        for it, or for what comes behind it.

        Raises:
            DivergenceError: it is.
        """
        branch, waits = behind[0], any(leaf.waits for group in before for leaf in leaves(group))
        if not waits or not any(leaf.hands_over for group in behind for leaf in leaves(group)):
            return
        accesses = combined_accesses(branch)
        if self.conflicts.between(accesses, accesses, threads=branch.takers) is not None:
            span = next((part.span for part in branch.body.items if isinstance(part, BranchCode)), None)
            raise DivergenceError(
                "threads here and there exchange values in a branch that others may wait for in front of it",
                location_of(span),
                "place it first, or let neighbouring threads of whole warps take it",
            )

    def roles(self, groups: list[GroupCode], pending: _Pending) -> list[Code]:
        """Handles neighbouring groups of different threads, which run concurrently: the program itself orders them."""
        for group in groups:
            others = [leaf for other in groups if other is not group for leaf in leaves(other)]
            # Loads of the accelerator go through the asynchronous proxy themselves; readers of the same proxy need no fence after
            # them.
            touched = [access for leaf in others for access in leaf.accesses]
            written = frozenset(owner(access.buffer) for access in touched if access.is_stored_by_threads)
            waits = any(leaf.acquires for leaf in leaves(group.body)) or any(map(_is_waited_in_part, children(group.body)))
            # What a single thread does is in order.
            if group.scattered:
                continue
            if not group.barrier and len(group.threads) > 1 and (waits or self.divergence.has_order(group.body, group=True)):
                group.barrier = self.divergence.barrier(group.threads)
            if group.barrier:
                inside = _Pending(
                    written_by_others=pending.written_by_others | written,
                    touched_by_others=pending.touched_by_others | {owner(access.buffer) for access in touched},
                )
                self.block(group.body, inside)
        return self.as_leaf(Block(list(groups)), pending)

    def item(self, code: Code, pending: _Pending) -> list[Code]:
        """Handles one item; gives what must come before it."""
        if isinstance(code, Leaf):
            return self.leaf(code, code.accesses, pending)
        if isinstance(code, Barrier):
            return self.barrier(code, pending)
        if isinstance(code, Wait):
            pending.complete(code)
        elif isinstance(code, Jump):
            self.jumps[-1][code.keyword].append(pending.leave())
        elif isinstance(code, Block):
            self.block(code, pending)
        elif isinstance(code, (LoopCode, BranchCode)) and (code.divergent or self.is_unordered(code)):
            return self.as_leaf(code, pending)
        elif isinstance(code, LoopCode):
            return self.loop(code, pending)
        elif isinstance(code, BranchCode):
            self.branch(code, pending)
        return []

    def as_leaf(self, code: Code, pending: _Pending) -> list[Code]:
        """Handles code without a place for barriers inside as one leaf."""
        found = list(leaves(code))
        # `detached` copies are those that the program itself waits for. One copy of the compiler's is enough that the whole is to
        # be waited for.
        detached = all(leaf.detached for leaf in found for access in leaf.accesses if access.agent is Agent.CP_ASYNC)
        hands_over, acquires = (any(getattr(leaf, name) for leaf in found) for name in ("hands_over", "acquires"))
        whole = Leaf([*find(code, WaitBulk), *find(code, Wait)], detached=detached, hands_over=hands_over, acquires=acquires)
        together = isinstance(code, LoopCode) and not code.divergent
        added = self.leaf(whole, combined_accesses(code), pending, together)
        # Not all threads that come here wait: the others have seen nothing yet.
        pending.waited |= not together and any(leaf.waits for leaf in found)
        # A leaf before it stands for what its condition reads. That is read after the barrier which the code may have got.
        pending.accesses.update(control_accesses(code))
        return added

    def is_unordered(self, code: LoopCode | BranchCode) -> bool:
        """Whether code is a loop of threads' own accesses that need no barrier between any of them."""
        if not isinstance(code, LoopCode) or not _is_synchronous(code):
            return False
        # The accesses conflict with themselves where one iteration conflicts with another.
        touched = combined_accesses(code)
        return self.conflicts.between(touched, touched) is None

    def leaf(self, code: Leaf, accesses: Sequence[Access], pending: _Pending, together: bool = True) -> list[Code]:
        """Handles a leaf, of all threads ``together`` or of some; gives what must come before it."""
        added: list[Code] = []
        # A thread that tells others to go on hands over what its own copies were to bring, so they must be complete.
        if (code.hands_over and pending.implicit) or self.conflicts.with_copies(accesses, pending.copies):
            added += self.complete(pending)
        # PTX manual, "Async proxy": wgmma and the tensor memory accelerator see what threads have stored to shared memory only
        # after `fence.proxy.async` by the thread that stored, followed by a barrier. So a fence goes with the barrier between.
        by_proxy = [access for access in accesses if access.agent in _ASYNC_PROXY]
        unfenced = self.conflicts.any_overlap([access.buffer for access in by_proxy], pending.unfenced)
        ordered = all(self.conflicts.is_ordered(owner(access.buffer)) for access in by_proxy)
        late = pending.acquired and any(
            is_global(access.buffer) and self.conflicts.is_ordered(access.buffer) for access in accesses
        )
        if together and pending.waited:
            of_others = pending.touched_by_others | self.asynchronous | self.started
            late |= self.conflicts.any_overlap([access.buffer for access in accesses], of_others)
        if late or self.conflicts.between(accesses, pending.accesses) is not None or (unfenced and ordered):
            between = Barrier()
            added.append(between)
            self.barrier(between, pending)
        # The program orders these accesses by itself; only the fence between the two proxies is missing.
        elif unfenced:
            added.append(Leaf([self.fence(pending.unfenced)]))
            pending.unfenced.clear()
        async_reads = [access.buffer for access in by_proxy if access.kind == READ]
        if not async_reads:
            # Reads by the proxy leave `fenced` as it is, as they store nothing; a fence of the program's own sets it; all else
            # may have been preceded by another group's stores, and needs a new one.
            pending.fenced = code.body == [FenceAsync()]
        elif not pending.fenced and self.conflicts.any_overlap(map(owner, async_reads), pending.written_by_others):
            added.append(Leaf([self.fence(async_reads)]))
            pending.fenced = True
        self.record(code, accesses, pending)
        return added

    def record(self, code: Leaf, accesses: Sequence[Access], pending: _Pending) -> None:
        """Adds what a leaf does. A load of the accelerator is over when the program's own barrier says so."""
        copies = {access for access in accesses if access.agent is Agent.CP_ASYNC}
        # A bulk load completes on the mbarrier that it was given, and only the program waits there. What follows that wait is
        # ordered by it.
        loads = {access for access in accesses if access.is_bulk_load}
        pending.acquired |= code.acquires
        pending.accesses |= set(accesses) - copies - loads
        pending.copies |= copies
        pending.implicit |= set() if code.detached else copies
        pending.unfenced |= {access.buffer for access in accesses if access.is_stored_by_threads}
        pending.started |= {access for access in accesses if access.agent is Agent.CP_ASYNC_OF_PROGRAM}
        # Each thread has waited for its own copies: the others need a barrier before they touch what these fill.
        if any(wait.users for wait in find(code, Wait)):
            pending.accesses |= _of_threads(pending.started)
        waits = list(find(code, WaitBulk))
        pending.stores |= {access for access in accesses if access.is_bulk_store or _is_stored_in_bulk(access)}
        # The stores that a wait completes have read their source, which one thread alone knows: the others need a barrier
        # before they write there. How many are complete is not followed, so all count.
        if waits:
            pending.accesses |= pending.stores
        if any(not wait.pending for wait in waits):
            pending.stores.clear()

    def fence(self, storages: Iterable[Any]) -> FenceAsync:
        """The fence that makes what threads wrote to some storages visible to asynchronous agents."""
        return FenceAsync(not self.tensors.isdisjoint(storages))

    def complete(self, pending: _Pending) -> list[Code]:
        """The wait for all copies."""
        wait = Wait(0)
        pending.complete(wait)
        return [Leaf([CommitCopies()]), wait]

    def barrier(self, code: Barrier, pending: _Pending) -> list[Code]:
        """Copies that the program takes to be complete are, where it places a barrier itself. What was written is fenced here
        where an asynchronous agent may read it; copies that are not complete yet are not."""
        # Copies to slots of a ring are complete by the waits of their loop.
        unfinished = any(owner(access.buffer) is access.buffer for access in pending.implicit)
        before = self.complete(pending) if code.of_program and unfinished else []
        in_flight = {access.buffer for access in pending.copies}
        ready = {storage for storage in pending.unfenced - in_flight if self.conflicts.any_overlap([storage], self.asynchronous)}
        code.fence |= bool(ready)
        code.of_tensors |= not self.tensors.isdisjoint(ready)
        pending.unfenced -= ready
        pending.accesses.clear()
        pending.acquired = pending.waited = False
        return before

    def loop(self, code: LoopCode, pending: _Pending) -> list[Code]:
        waits_first = bool(code.carried) and isinstance(code.body.items[0], Wait)
        added = [] if waits_first else self.complete_before(code, pending)
        # The loop may run no iteration: what was pending before it is pending after it then.
        before = pending.copy()
        if waits_first:
            # Every copy issued before the loop is in the group of its first step or an older one, if there is a step.
            pending.complete(Wait(0))
            before = pending.copy() if is_run(code) else before
        self.jumps.append({"break": [], "continue": []})
        # Twice is enough: what is pending after an iteration depends on what it began with only by sets that grow, and the second
        # pass begins with all that the first has added. Barriers that the first pass has placed stand in the second.
        for _ in range(2):
            self.block(code.body, pending)
            for end in self.jumps[-1]["continue"]:
                pending.join(end)
            # Slots are numbered relative to the iteration: in the next one these are others.
            pending.unfenced = set(map(owner, pending.unfenced))
        for end in [before, *self.jumps.pop()["break"]]:
            pending.join(end)
        pending.forget_slots(code.carried)
        # Slower threads may still read the last slots when faster ones have left the loop.
        pending.accesses |= {Access(buffer, READ) for buffer in code.carried}
        return added

    def complete_before(self, code: LoopCode, pending: _Pending) -> list[Code]:
        """What makes the compiler's copies from before a loop complete that it uses: inside, each iteration would wait."""
        touched, before = combined_accesses(code) if pending.implicit else (), set(pending.accesses)
        if not self.conflicts.with_copies(touched, pending.implicit):
            return []
        added = self.complete(pending)
        if self.conflicts.between(touched, pending.accesses - before) is not None:
            between = Barrier()
            added.append(between)
            self.barrier(between, pending)
        return added

    def branch(self, code: BranchCode, pending: _Pending) -> None:
        other = pending.copy()
        self.block(code.then, pending)
        if code.otherwise is not None:
            self.block(code.otherwise, other)
        pending.join(other)


def _of_threads(accesses: Iterable[Access]) -> set[Access]:
    """Accesses of agents that threads have waited for, as those of threads."""
    return {Access(access.buffer, access.kind, maps=access.maps) for access in accesses}


def _is_stored_in_bulk(access: Access) -> bool:
    """Whether the accelerator changes a tensor."""
    return access.agent is Agent.BULK_OF_TENSOR and access.writes


def _is_waited_in_part(code: Code) -> bool:
    """Whether some of the threads that come to code wait in it for others of the block."""
    if isinstance(code, Leaf):
        return False
    is_of_some = isinstance(code, GroupCode) or (isinstance(code, (LoopCode, BranchCode)) and code.divergent)
    return any(leaf.waits for leaf in leaves(code)) if is_of_some else any(map(_is_waited_in_part, children(code)))


def _is_synchronous(code: Code) -> bool:
    """Whether code has nothing but accesses of threads themselves, to whole buffers, that all threads come to."""
    if isinstance(code, Leaf):
        simple = all(access.synchronous and owner(access.buffer) is access.buffer for access in code.accesses)
        return simple and not code.hands_over and not code.synchronises
    if isinstance(code, LoopCode):
        uniform = not (code.divergent or code.carried)
    else:
        uniform = isinstance(code, (Block, Jump)) or (isinstance(code, BranchCode) and not code.divergent)
    return uniform and all(map(_is_synchronous, children(code)))
