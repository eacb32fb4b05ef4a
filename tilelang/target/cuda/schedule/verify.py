"""The proof that barriers suffice and can be reached: a dataflow analysis of the finished code, independent of their placement.

The code becomes a graph of what it does one after the other. A fixpoint gives for each place the accesses that may have
happened since the last barrier on some way there, and the asynchronous copies that may be in flight. No access may conflict
with one of the former or touch what one of the latter fills, and no barrier of the compiler's may stand where threads disagree
whether they reach it. What fails here is a defect of the compiler, and would otherwise be a race or a deadlock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tilelang.errors import OrderProofError
from tilelang.ir.access import READ
from tilelang.target.cuda.arch import WARP
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
    owner,
    roles_at,
)
from tilelang.target.cuda.schedule.conflicts import Conflicts


class State(NamedTuple):
    """What has happened on some way to a place.

    Attributes:
        accesses: those since the last barrier.
        copies: copies in flight.
        left: copies that are over for the program, which the wait that it placed may have left in flight.
    """

    accesses: frozenset[Access] = frozenset()
    copies: frozenset[Access] = frozenset()
    left: frozenset[Access] = frozenset()


def verify_order(root: Block, conflicts: Conflicts) -> None:
    """Checks the code of a kernel.

    Raises:
        OrderProofError: two accesses without a barrier or a wait between them, or a barrier that not all threads reach.
    """
    _check_control(root, False)
    pending = [root]
    while pending:
        graph = _Graph()
        # Groups with a barrier of their own are checked as kernels of their threads, after the code around them.
        graph.add(pending.pop(), [graph.node(_nothing, [])], [])
        graph.check(conflicts)
        pending += [group.body for group in graph.groups if group.barrier is not None]
        for group in graph.groups:
            _check_warps(group, conflicts)


def _check_control(code: Code, divergent: bool) -> None:
    """No barrier stands where the threads that it is for may disagree."""
    if isinstance(code, Barrier) and divergent and not code.of_program:
        raise OrderProofError("a barrier", "threads disagree on whether they reach it")
    if isinstance(code, (LoopCode, BranchCode)):
        divergent = divergent or code.divergent
    for child in children(code):
        _check_control(child, divergent)


def _check_warps(group: GroupCode, conflicts: Conflicts) -> None:
    """In code that each warp runs at its own pace, warps do not meet; nor do scattered threads."""
    if group.condition is None:
        accesses = combined_accesses(group)
        found = conflicts.between(accesses, accesses, 1 if group.scattered else WARP, group.takers)
        if found is not None:
            raise OrderProofError(_name(found[0]), "warps meet in it that nothing orders")


@dataclass
class _Graph:
    """What code does, as nodes with their predecessors; the code of groups is one node, and checked by itself.

    Attributes:
        steps: of each node, what it makes of a state.
        touched: of each node, what it accesses.
        before: of each node, its predecessors.
    """

    steps: list[Callable[[State], State]] = field(default_factory=list)
    touched: list[list[Access]] = field(default_factory=list)
    before: list[list[int]] = field(default_factory=list)
    groups: list[GroupCode] = field(default_factory=list)

    def node(self, step: Callable[[State], State], before: list[int], touched: Iterable[Access] = ()) -> int:
        """A new node after others."""
        self.steps.append(step)
        self.touched.append(list(touched))
        self.before.append(list(before))
        return len(self.steps) - 1

    def add(self, code: Code, before: list[int], jumps: list[dict[str, list[int]]]) -> list[int]:
        """Adds code after some nodes; gives those that it ends in."""
        if isinstance(code, Block):
            return self._block(code, before, jumps)
        # Threads are in divergent code at different times, so no barrier inside of it orders anything: it is one step.
        if isinstance(code, (Leaf, GroupCode)) or (isinstance(code, (LoopCode, BranchCode)) and code.divergent):
            return [self._at_once(code, before)]
        if isinstance(code, Barrier):
            return [self.node(_barrier, before)]
        if isinstance(code, Wait):
            return [self.node(lambda state: _complete(state, code), before)]
        if isinstance(code, Jump):
            jumps[-1][code.keyword] += before
            return []
        if isinstance(code, LoopCode):
            return self._loop(code, before, jumps)
        otherwise = before if code.otherwise is None else self.add(code.otherwise, before, jumps)
        return [*self.add(code.then, before, jumps), *otherwise]

    def _at_once(self, code: Code, before: list[int]) -> int:
        accesses = combined_accesses(code)
        started = frozenset(access for access in accesses if access.agent is Agent.CP_ASYNC)
        done = frozenset(access for access in accesses if not access.is_bulk_load) - started
        # Leaves before the code stand for what its conditions read; they are evaluated here.
        done |= frozenset(control_accesses(code))
        return self.node(lambda state: State(state.accesses | done, state.copies | started, state.left), before, accesses)

    def _block(self, code: Block, before: list[int], jumps: list[dict[str, list[int]]]) -> list[int]:
        position = 0
        while position < len(code.items):
            roles = roles_at(code.items, position)
            self.groups += roles
            concurrent = Block(list(roles)) if len(roles) > 1 else code.items[position]
            before = [self._at_once(concurrent, before)] if roles else self.add(concurrent, before, jumps)
            position += max(1, len(roles))
        return before

    def _loop(self, code: LoopCode, before: list[int], jumps: list[dict[str, list[int]]]) -> list[int]:
        if code.carried and isinstance(code.body.items[0], Wait):  # its groups count those from before the loop, too
            before = [self.node(lambda state: _complete(state, Wait(0)), before)]
        # A node of its own for the top of the loop, to which the ends of iterations lead back.
        head = self.node(_nothing, before)
        left: dict[str, list[int]] = {"break": [], "continue": []}
        self.before[head] += self.add(code.body, [head], [*jumps, left])
        self.before[head] += left["continue"]
        return [self.node(lambda state: _outside(state, code.carried), [head, *left["break"]])]

    def check(self, conflicts: Conflicts) -> None:
        """Finds the state before each node, and checks what it touches."""
        for touched, (earlier, in_flight, _) in zip(self.touched, self._states()):
            for access in touched:
                if conflicts.with_copies([access], in_flight):
                    raise OrderProofError(_name(access), "it is used before a copy of it is complete")
            found = conflicts.between(touched, earlier)
            if found is not None:
                raise OrderProofError(_name(found[0]), "no barrier orders two accesses of it")

    def _states(self) -> Iterator[State]:
        """The state before each node: the least fixpoint."""
        after = [State()] * len(self.steps)
        following: list[list[int]] = [[] for _ in self.steps]
        for number, before in enumerate(self.before):
            for other in before:
                following[other].append(number)
        # States only grow (each step is monotone in sets), and there are finitely many accesses, so this ends.
        waiting = deque(range(len(self.steps)))
        while waiting:
            number = waiting.popleft()
            state = self.steps[number](self._joined(number, after))
            if state != after[number]:
                after[number] = state
                waiting.extend(following[number])
        return (self._joined(number, after) for number in range(len(self.steps)))

    def _joined(self, number: int, after: list[State]) -> State:
        states = [after[other] for other in self.before[number]]
        return State(*(frozenset().union(*parts) for parts in zip(*states)))


def _nothing(state: State) -> State:
    return state


def _barrier(state: State) -> State:
    return state._replace(accesses=frozenset())


def _complete(state: State, wait: Wait) -> State:
    """What copies that are complete after a wait did is the threads' own."""
    done = wait.completed(state.copies)
    over, left = done, state.left
    if wait.users:
        over = done | left
        left = frozenset(copy for copy in over if owner(copy.buffer) is copy.buffer)  # pipelines wait for slots by themselves
    if not wait.pending and not wait.rings:
        left = frozenset()
    accesses = {Access(copy.buffer, copy.kind, maps=copy.maps) for copy in over}
    return State(state.accesses | accesses, state.copies - done, left)


def _outside(state: State, rings: frozenset[Any]) -> State:
    """After a pipelined loop its slots have no numbers, and its last iterations have read them."""
    done, in_flight = (
        {Access(owner(a.buffer), a.kind, a.agent) if owner(a.buffer) in rings else a for a in part} for part in state[:2]
    )
    return State(frozenset(done | {Access(ring, READ) for ring in rings}), frozenset(in_flight), state.left)


def _name(access: Access) -> str:
    return str(owner(access.buffer).name)
