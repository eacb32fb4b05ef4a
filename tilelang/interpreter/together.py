"""Divergent control flow in which some threads wait for others.

The threads of each side of a branch are a *group*: they run their side, and reconverge after the branch. While one group waits,
the others go on through statements that a part of the threads may execute alone. A statement of the whole block (a tile operator,
a store to shared memory) is executed when all threads have reached it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from tilelang.interpreter import fragments
from tilelang.interpreter.compiler import Step
from tilelang.interpreter.state import Lanes, union
from tilelang.interpreter.strands import Strand


def run_together(x: Lanes, steps: list[Step]) -> Iterator[None]:
    """Runs a sequence in which threads may wait; returns whether no active lane is left."""
    index = 0
    while index < len(steps):
        step = steps[index]
        sides = step.sides(x) if step.wait is not None and step.sides is not None else None
        if sides is not None:
            index, stopped = yield from _Groups(x, steps).run(index, sides)
            if stopped:
                return True
            continue
        if (yield from step.wait(x)) if step.wait is not None else step.run(x):
            return True
        index += 1
    return False


class _Group:
    """Threads that advance together.

    Attributes:
        x: their state.
        index: the statement that they run, or come to next.
        task: the generator of the statement that they have begun; None between statements.
    """

    def __init__(self, x: Lanes, index: int, task: Iterator[None] | None):
        self.x = x
        self.index = index
        self.task = task


class _Groups:
    """The groups into which a branch has split the threads that run a sequence.

    Attributes:
        x: the state before the branch.
        steps: the sequence.
        everyone: the threads that reached the branch.
        groups: those that still run.
        stopped: the states of groups of which no thread goes on in the sequence.
        parted: the threads and strands of groups that a later branch has split.
    """

    def __init__(self, x: Lanes, steps: list[Step]):
        self.x = x
        self.steps = steps
        self.everyone = x.mask
        self.groups: list[_Group] = []
        self.stopped: list[Lanes] = []
        self.parted: list[tuple[Any, Strand]] = []

    def run(self, index: int, sides: list[tuple[Any, Step]]) -> Iterator[None]:
        """Runs from a divergent branch to the point of reconvergence; returns the next statement, and whether no lane is left."""
        self._split(self.x, index, sides)
        while self.groups:
            self._gather()
            before = self.x.run.progress
            # Groups that wait ask again; those that are behind the others run their next statement. Once all are at the same
            # statement they go on together.
            moved = [self._advance(group) for group in list(self.groups)]
            if self._are_together():
                return self._merge()
            # Only when nothing else moves may a group go on alone: the others might still reach the statement that it is at, and
            # a statement of the block would then have been executed by a part of it.
            if not any(moved) and self.x.run.progress == before and not self._run_ahead():
                yield None
        return self._merge()

    def _split(self, x: Lanes, index: int, sides: list[tuple[Any, Step]]) -> None:
        taken = [(mask, step) for mask, step in sides if mask.any()]
        # The other groups come to the branch, too, at another time.
        begin = _side if len(taken) > 1 or self.groups else _as_task
        if len(taken) == 1 and not x.strand.is_alone:
            # A branch that parts no threads begins no strand: what they arrive at next publishes all that they have accessed.
            mask, step = taken[0]
            x.meet()
            self.groups.append(_Group(state := x.fork(mask), index, begin(step, state)))
            return
        for mask, step in taken:
            state = x.fork(mask)
            state.strand = x.separate(mask)
            self.groups.append(_Group(state, index, begin(step, state)))

    def _gather(self) -> None:
        """Makes one group of those that have come to the same statement, of which their threads may take a side together."""
        idle: dict[int, list[_Group]] = {}
        for group in self.groups:
            if group.task is None:
                idle.setdefault(group.index, []).append(group)
        for index, groups in idle.items():
            if len(groups) > 1:
                states = [group.x for group in groups]
                x = self.x.fork(_union_of(states))
                x.strand = self.x.separate(x.mask)
                _rejoin(x, states)
                self.groups = [group for group in self.groups if group not in groups] + [_Group(x, index, None)]

    def _are_together(self) -> bool:
        return all(group.task is None and group.index == self.groups[0].index for group in self.groups)

    def _advance(self, group: _Group) -> bool:
        """Runs a group's task until it waits; one that is behind the others then begins the next statement."""
        if group.task is None:
            behind = any(other.index > group.index for other in self.groups)
            return behind and self._begin(group)
        try:
            next(group.task)
        except StopIteration as end:
            group.task = None
            group.index += 1
            if end.value:
                self.groups.remove(group)
                self.stopped.append(group.x)
            return True
        return False

    def _begin(self, group: _Group) -> bool:
        """Begins a group's next statement."""
        if group.index >= len(self.steps):
            return False
        step = self.steps[group.index]
        sides = step.sides(group.x) if step.sides is not None else None
        if sides is None:
            group.task = _as_task(step, group.x)
        else:
            self.groups.remove(group)
            self.parted += [(group.x.mask, group.x.strand), *group.x.diverged]
            self._split(group.x, group.index, sides)
        return True

    def _run_ahead(self) -> bool:
        """Begins the next statement of groups that wait for the others, where a part of the threads may execute it."""
        ready = [g for g in self.groups if g.task is None and g.index < len(self.steps) and self.steps[g.index].alone]
        for group in ready:
            self._begin(group)
        return bool(ready)

    def _merge(self) -> tuple[int, bool]:
        """Makes one state of the groups' states; returns the next statement, and whether no lane is left."""
        x = self.x
        index = self.groups[0].index if self.groups else len(self.steps)
        states = [group.x for group in self.groups]
        _rejoin(x, states, self.stopped)
        x.diverged += self.parted
        if not states:
            return index, True
        x.synchronise()
        x.mask = self.everyone if not self.stopped and self._all_here(states) else _union_of(states)
        return index, False

    def _all_here(self, states: list[Lanes]) -> bool:
        """Whether the threads of some states are all that reached the branch."""
        here = _union_of(states)
        return bool(here.all()) if self.everyone is True else bool((here == self.everyone).all())


def _side(step: Step, x: Lanes) -> Iterator[None]:
    """The threads of a side of a branch, with private copies of the fragments that it uses."""
    mask, views = x.mask, x.views
    copies = fragments.enter(x, step.fragments)
    stopped = yield from _as_task(step, x)
    x.views = views
    fragments.leave(x, copies, mask)
    return stopped


def _as_task(step: Step, x: Lanes) -> Iterator[None]:
    """A step as a generator, which yields while it waits and returns whether no lane goes on."""
    if step.wait is not None:
        return step.wait(x)
    return _without_waiting(step, x)


def _without_waiting(step: Step, x: Lanes) -> Iterator[None]:
    """A step that never waits, as a generator: the `yield` that makes it one is not reached."""
    return step.run(x)
    yield


def _rejoin(x: Lanes, states: list[Lanes], stopped: Sequence[Lanes] = ()) -> None:
    """Gives a state what groups have done.

    Args:
        x: the state, as it was before the groups were separated.
        states: of groups that go on.
        stopped: of others.
    """
    # The groups' clocks are kept apart, as after a branch without waits (control._run_sides): only a statement of all threads
    # joins them.
    x.diverged = []
    for state in (*states, *stopped):
        state.meet()
        x.diverged.append((state.mask, state.strand))
        x.returned = union(x.returned, state.returned)
        for mine, theirs in zip(x.loops, state.loops):
            # A fork has loops of its own (Lanes.fork); what left them there has left the common ones.
            mine.broken, mine.continued = union(mine.broken, theirs.broken), union(mine.continued, theirs.continued)
    if states:
        x.values = [_joined(x.lanes, values, states) for values in zip(*(state.values for state in states))]


def _union_of(states: list[Lanes]) -> Any:
    mask = states[0].mask
    for state in states[1:]:
        mask = union(mask, state.mask)
    return mask


def _joined(lanes: int, values: tuple[Any, ...], states: list[Lanes]) -> Any:
    """The value of a variable in a merged state, of groups that may have given it different ones.

    Args:
        lanes: how many lanes there are.
        values: the value in each group; None where the group has not assigned it.
        states: of the groups.
    """
    first = values[0]
    if all(value is first for value in values):
        return first
    known = [(value, state.mask) for value, state in zip(values, states) if value is not None]
    if len({value if np.isscalar(value) else id(value) for value, _ in known}) == 1:
        return known[0][0]
    # Objects, such as descriptors and pointers, have no value for each lane: the last group's goes on.
    if any(not isinstance(value, (np.generic, np.ndarray)) for value, _ in known):
        return known[-1][0]
    result = np.array(np.broadcast_to(known[0][0], (lanes,)))
    for value, mask in known[1:]:
        result[mask] = np.broadcast_to(value, (lanes,))[mask]
    return result
