"""The search: choices and copies of fragments until every statement finds its elements, the cheapest that are found.

One solve decides most kernels without any conflict. Where statements disagree about a fragment, the resolutions are compared by
what the whole kernel costs then (:mod:`tilelang.target.cuda.inference.cost`), conflicts that are left included:

* the nest is distributed before others are, so that they follow it;
* every thread holds the whole fragment;
* in a section around the statement, as long as the whole loop or as short as the statement, a copy stands for the fragment: in
  the layout that suits the section, or in shared memory;
* what would be in flight over the fragment is complete at its end, so that copies can stand around it.

The search goes on from the cheapest kernel that it knows, until that one has no conflict.

It ends. Let U be the kernel's uses (a statement and a fragment that it touches) and F its fragments. A resolution never repeats a
choice, and every copy makes some number smaller that no other resolution makes larger:

* a copy in shared memory, of a view, or by a conversion takes at least one use from the fragments, or from their views;
* a copy in registers takes its section's uses from the fragment. One that is a copy itself keeps another use
  (:func:`_only_renames`), so that each copy either divides a group of uses, of which there are at most U, or is the first to
  take all uses of a fragment, which happens at most F times. A conversion adds no use: where one has a conflict itself, the
  state is given up.

An operator that would be in flight is made complete at its end once.

So there are at most 3 U + F copies in a state, and at most U nests and 3 U + 2 F fragments, at each number of threads, to choose;
no state lies deeper than the sum. Past the first states the search goes straight down, so that states are at most that depth
times the dead ends allowed (:data:`_DEAD_ENDS`), and each has a few resolutions at every level of the nesting around a statement.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import LayoutConflictError
from tilelang.ir.expr import as_int
from tilelang.ir.memory import FRAGMENT, SHARED, is_fragment
from tilelang.records import Record
from tilelang.target.cuda.analysis.waiting import is_in_flight, may_be_at_once, waits_for_products
from tilelang.target.cuda.inference.conversion import carried_out
from tilelang.target.cuda.inference.cost import cost
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.sections import (
    Rewritten,
    Section,
    as_conversion,
    at_once,
    family_of,
    is_ever_in_flight,
    is_handed_on,
    is_written,
    partly_written,
    touched_outside,
    with_copy,
    with_copy_for_head,
    with_copy_of_view,
)
from tilelang.target.cuda.inference.solver import WHOLE_BITS, Choices, Conflicts, slow_nests, solve
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Sequence, ThreadGroup, TileTree, walk

_CONFLICT, _ELEMENT = 40, 8
"""Cycles that a fragment with conflicts will cost at the least: a barrier, and those for each of its elements in a thread."""

_STATES = 12
"""States whose resolutions are compared with each other; then the search goes straight on."""

_DEAD_ENDS = 32
"""States without any resolution, after which the conflict is reported."""


def search(problem: Problem, layouts: Layouts, conflicts: Conflicts) -> tuple[TileTree, Layouts]:
    """The layouts of a kernel, and the kernel with conversions between layouts as statements.

    Args:
        layouts: what one solve gives without any choices.
        conflicts: the statements that these do not suit.

    Raises:
        LayoutConflictError: a statement that some threads alone run needs elements in other threads.
    """
    state = _cheapest(_State(problem, solved=(layouts, conflicts)))
    tree, layouts, copies = carried_out(state.problem, state.layouts)
    conversions = {copy: error for node, error in state.conversions.items() for copy in copies.get(node, [node])}
    return tree, replace(layouts, conversions=conversions, partly_written=partly_written(tree, conversions))


def _cheapest(start: _State) -> _State:
    """The best state without conflicts: the cheapest one is looked at first, and its first conflict resolved in every way.

    After a number of states the best one without conflicts is taken; where there is none yet, the resolutions of the last state
    go before all others until there is one.

    Raises:
        LayoutConflictError: a conflict without any resolution.
    """
    # Without a conflict there is nothing to resolve. A nest that one thread runs for all is legal and slow, and so is a copy
    # without vectors: distributing it freely is tried all the same, and compared by cost.
    starts = [start] if start.conflicts else [start.choosing(first=node) for node in slow_nests(start.problem, start.layouts)]
    number, dead_ends = itertools.count(), 0
    best = min((state for state in (start, *starts) if not state.conflicts), key=lambda state: state.score, default=None)
    waiting: list[tuple[int, float, int, _State]] = [(0, 0.0, next(number), state) for state in starts if state.conflicts]
    for seen in itertools.count(1):
        # States wait by their score, a lower bound of what they can become: none of them can beat the best from here
        # on.
        if not waiting or dead_ends == _DEAD_ENDS or (best is not None and (seen > _STATES or waiting[0][1] >= best.score)):
            break
        state = heapq.heappop(waiting)[-1]
        # One conflict at a time: its resolution often removes the conflicts after it, which follow from the same disagreement.
        ways = [way for way in _resolutions(state, *state.first_conflict) if not math.isinf(way.score)]
        dead_ends += not ways
        best = min(
            (way for way in (*ways, best) if way is not None and not way.conflicts), key=lambda way: way.score, default=None
        )
        for way in ways:
            if way.conflicts:
                # After some states the newest goes first whatever it costs: the search then goes straight down and
                # ends.
                heapq.heappush(waiting, (0 if seen < _STATES else -seen, way.score, next(number), way))
    if best is None:
        raise start.first_conflict[-1]
    return best


class _State(Record, eq=False):
    """A kernel with some choices, and what they lead to.

    Attributes:
        conversions: nodes that fill copies and bring them back, with the conflict that each resolves.
        copies: what stands for a fragment in a section.
        solved: the layouts under the choices and what they do not suit, where that is known.
    """

    problem: Problem
    choices: Choices = Choices()
    conversions: Mapping[Any, LayoutConflictError] = field(default_factory=dict)
    copies: frozenset[Any] = frozenset()
    solved: tuple[Layouts, Conflicts] | None = None

    @cached_property
    def _solved(self) -> tuple[Layouts, Conflicts]:
        return self.solved or solve(self.problem, self.choices)

    @property
    def layouts(self) -> Layouts:
        """The layouts under the choices."""
        return self._solved[0]

    @property
    def conflicts(self) -> Conflicts:
        """The statements that these do not suit."""
        return self._solved[1]

    @property
    def first_conflict(self) -> tuple[Any, Any, LayoutConflictError]:
        """The first statement that these do not suit, a fragment that it does not find, and why."""
        node, found = next(iter(self.conflicts.items()))
        return node, *next(iter(found.items()))

    @cached_property
    def score(self) -> float:
        """What the kernel costs, with a low estimate for the fragments of conflicts; infinite where a conversion is one."""
        if any(node in self.conversions for node in self.conflicts):
            return math.inf
        tree, layouts, copies = carried_out(self.problem, self.layouts)
        through_memory = [copy for group in copies.values() if len(group) > 1 for copy in group]
        through_memory += [node for node in self.conversions if node not in copies]
        total = cost(self.problem, tree, layouts, through_memory)
        disputed = {buffer: len(self.problem.threads_of[node]) for node, found in self.conflicts.items() for buffer in found}
        sizes = (math.prod(map(as_int, buffer.shape)) / threads for buffer, threads in disputed.items())
        return total + sum(_CONFLICT + _ELEMENT * size for size in sizes)

    def choosing(self, first: Parallel | None = None, whole: tuple[Any, int] | None = None) -> _State:
        """The state with one more choice."""
        firsts = self.choices.first if first is None else (*self.choices.first, first)
        wholes = self.choices.whole if whole is None else (*self.choices.whole, whole)
        return replace(self, choices=Choices(firsts, wholes), solved=None)

    def rewriting(self, new: Rewritten, reason: LayoutConflictError) -> _State:
        """The state of the kernel with a copy in it."""
        # What was chosen before names nodes of the old tree.
        firsts = tuple(new.renewed.get(node, node) for node in self.choices.first)
        conversions = {new.renewed.get(node, node): error for node, error in self.conversions.items()}
        conversions.update(dict.fromkeys(new.conversions, reason))
        copies = self.copies.union(new.copies.values())
        return _State(self.problem.with_tree(new.tree), Choices(firsts, self.choices.whole), conversions, copies)


# Resolutions of a conflict ---------------------------------------------------------------------------------------------


def _resolutions(state: _State, node: Any, buffer: Any, reason: LayoutConflictError) -> Iterator[_State]:
    """States in which a statement finds a fragment's elements, or those of a copy of it."""
    family, found = set(family_of(state.problem.tree, buffer)), False
    for choice in _choices(state, node, buffer):
        # A resolution ends this conflict; others, here or elsewhere, may take its place and are next.
        if not family & set(choice.conflicts.get(node, ())):
            found = True
            yield choice
    for new in _copies(state, node, buffer) if node not in state.layouts.per_thread else ():
        way, stands_for_it = state.rewriting(new, reason), new.renewed.get(node, node)
        left = {way.problem.tree.root_of(other) for other in way.conflicts.get(stands_for_it, ())}
        if not left & {*family, *new.copies.values()}:
            found = True
            yield way
    # The conflict remains then, of statements that conversions can stand around. What is in flight saves more than they do.
    if may_be_at_once(node) or not found:
        new = at_once(state.problem.tree, family)
        yield from [] if new is None else [state.rewriting(new, reason)]


def _choices(state: _State, node: Any, buffer: Any) -> Iterator[_State]:
    problem = state.problem
    # Distributed early, the nest fixes the fragment, and statements that merely followed before follow it now.
    if isinstance(node, Parallel) and node not in state.choices.first and node not in problem.private:
        yield state.choosing(first=node)
    # With every element in every thread no index can miss, at the price of doing all work on the fragment in each thread.
    whole = (problem.tree.root_of(buffer), len(problem.threads_of[node]))
    if whole not in state.choices.whole and _bits(whole[0]) <= WHOLE_BITS:
        yield state.choosing(whole=whole)


def _copies(state: _State, node: Any, buffer: Any) -> Iterator[Rewritten]:
    """The kernel with a copy of the fragment in a section around the statement, or around those that it disagrees with."""
    tree = state.problem.tree
    family = set(family_of(tree, buffer))
    if _is_whole_copy(node) and node not in state.problem.uniformity.divergent:
        yield as_conversion(tree, node)
    for moved in _moved(state, node, family):
        yield from _copies_around(state, moved, buffer, family)


def _copies_around(state: _State, node: Any, buffer: Any, family: set[Any]) -> Iterator[Rewritten]:
    """The kernel with a copy of the fragment in a section around a statement."""
    tree = state.problem.tree
    for section in _sections(state, node, family):
        inner = (inner for top in section.nodes for inner in walk(top))
        uses = [use for use in inner if section.is_user(use) and any(access.buffer in family for access in use.touched)]
        # The operator is complete at a later wait; a copy back at the end of the section would read too early.
        if any(map(is_in_flight, uses)):
            continue
        alone = section.nodes == [node]
        if isinstance(node, (Branch, Loop)) and alone:
            yield with_copy_for_head(tree, section, buffer)
            continue
        if buffer in state.layouts.fragments:
            if not _only_renames(state, uses, family):
                yield with_copy(tree, section, buffer, FRAGMENT)
        # The copy of a family has views as the family has, and what suits a view may be no layout of the allocation.
        if alone and (buffer not in state.layouts.fragments or buffer in tree.aliases):
            yield with_copy_of_view(tree, section, buffer)
        if all(_works_on_shared(use, family) for use in uses) and (alone or not is_written(section.nodes, family)):
            yield with_copy(tree, section, buffer, SHARED)


def _moved(state: _State, node: Any, family: set[Any]) -> list[Any]:
    """The statements of a conflict that may use a copy of the fragment.

    They are the statement that does not find the elements; or, where that is only complete at a later wait, those whose demands
    differ from its own.
    """
    if not is_in_flight(node):
        return [node]
    plans = state.layouts.plans
    others = [other for other in state.problem.operators if not is_in_flight(other)]
    demands = {other: rule_of(other.op).demands(other.op, plans.get(other)) for other in others}
    return [other for other, demanded in demands.items() if any(buffer in family for buffer, _ in demanded)]


def _only_renames(state: _State, uses: list[Any], family: set[Any]) -> bool:
    """Whether a copy of a fragment would take all uses of one that is a copy itself, so that it has nothing else to suit."""
    return bool(family & state.copies) and not touched_outside(state.problem.tree, {*uses, *state.conversions}, family)


def _bits(buffer: Any) -> int:
    return math.prod(map(as_int, buffer.shape)) * canonical(str(buffer.dtype)).stored_bits


def _is_whole_copy(node: Any) -> bool:
    """Whether a nest copies a whole fragment to another of its type."""
    transfer = rule_of(node.op).transfer(node.op) if isinstance(node, Parallel) else None
    if transfer is None or node.nest.layout is not None:
        return False
    ends = (transfer.source, transfer.target)
    source, target = ([region.dtype, *map(as_int, region.buffer.shape)] for region in ends)
    return source == target and all(is_fragment(region) and region.is_whole for region in ends)


def _works_on_shared(node: Any, family: set[Any]) -> bool:
    """Whether a statement may use a tile in shared memory in place of a fragment."""
    return not isinstance(node, Operator) or rule_of(node.op).takes_shared(node.op, family)


def _sections(state: _State, node: Any, family: set[Any]) -> Iterator[Section]:
    """Sections around a statement, the narrowest first.

    They are, at each level up to the group of its threads, the statement that contains it, and all statements from the first to
    the last with a conflict over the same fragment; those alone where they do not change it, so that a copy for all of them
    costs no more than one for the statement.
    """
    rivals = {node, *(other for other, found in state.conflicts.items() if any(buffer in family for buffer in found))}
    # Statements that disagree with the fragment in the same way share one copy; one conversion is cheaper than one for each.
    serves_all = family <= state.layouts.fragments.keys() and all(_works_on_shared(rival, family) for rival in rivals)
    for parent, place in _ancestry(state.problem.tree, node):
        if not _may_have_copy(state, [parent.items[place]], family):
            continue
        hit = [at for at, item in enumerate(parent.items) if any(inner in rivals for inner in walk(item))]
        alone, run = Section(parent, place, place + 1), Section(parent, hit[0], hit[-1] + 1)
        sections = [alone]
        if len(run.nodes) > 1 and _may_have_copy(state, run.nodes, family):
            sections = [run] if serves_all and not is_written(run.nodes, family) else [alone, run]
        for section in sections:
            yield section if is_written(section.nodes, family) else replace(section, users=frozenset(rivals))


def _may_have_copy(state: _State, nodes: list[Any], family: set[Any]) -> bool:
    """Whether all threads come to some statements, as to conversions around them, and store what these store to a fragment, and
    no foreign code gets its registers in them."""
    if is_handed_on(nodes, family):
        return False
    # A conversion before the wait for what is in flight would read too early.
    if any(map(waits_for_products, nodes)) and is_ever_in_flight(state.problem.tree, family):
        return False
    divergent = state.problem.uniformity.divergent
    stored = any(inner in divergent and is_written([inner], family) for top in nodes for inner in walk(top))
    return not stored and not any(node in divergent for node in nodes)


def _ancestry(tree: TileTree, node: Any) -> list[tuple[Sequence, int]]:
    """The sequences that contain a node, innermost first, with its place in each, up to the group of its threads."""
    nodes = [*tree.around[node], node]
    # Sections never reach over a group of threads: other threads run outside of it, and a conversion there would need elements of
    # the group while the group is elsewhere.
    groups = [at for at, each in enumerate(nodes) if isinstance(each, ThreadGroup) and each.threads is not None]
    nodes = nodes[groups[-1] + 1 if groups else 0 :]
    pairs = list(zip(nodes, nodes[1:]))
    return [(parent, parent.items.index(child)) for parent, child in reversed(pairs) if isinstance(parent, Sequence)]
