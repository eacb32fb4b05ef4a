"""One solve: where every tile of a kernel lives under some choices.

A constraint solve over the whole kernel. Products and the user's annotations fix fragments first. A nest that touches a fixed
fragment is distributed as that fragment is, and fixes the other fragments that it touches; a reduction fixes its result. What
nothing determines is free: nests are distributed for coalesced access, those that the choices name first, then the one with the
most memory traffic, and the solve goes on. Afterwards every statement is checked against every fragment: where they disagree
there is a conflict, which other choices or copies of the fragment resolve (:mod:`tilelang.target.cuda.inference.search`).
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tilelang.errors import LayoutConflictError, LoopLayoutError
from tilelang.ir.access import ADDRESS, READ, UPDATE, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_array, is_global, is_memory, lies_in_shared
from tilelang.ir.span import location_of
from tilelang.ir.visit import mentions
from tilelang.layout import replicated
from tilelang.layout.fragment import FragmentLayout
from tilelang.records import Record
from tilelang.target.cuda.analysis.uniformity import computes_once, replaces_what_it_reads
from tilelang.target.cuda.arch import WARP, arch_of
from tilelang.target.cuda.inference.cost import nest_cost
from tilelang.target.cuda.inference.layouts import Layouts, register_bits
from tilelang.target.cuda.inference.loop_layout import (
    Dimension,
    LoopLayout,
    fragment_from_loop,
    free_loop,
    loop_from_fragment,
    private_loop,
    register_form,
)
from tilelang.target.cuda.inference.problem import Memo, Problem
from tilelang.target.cuda.inference.shared_layouts import choices_of_layout, choose_shared, is_panels
from tilelang.target.cuda.inference.vectors import Vectors, contiguous_axis, shrink_to_threads
from tilelang.target.cuda.inference.verify import is_whole
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.build import describe
from tilelang.target.cuda.tile.nest import Axis, Nest
from tilelang.target.cuda.tile.tree import Operator, Parallel, is_default_swizzle

WHOLE_BITS = 2048
"""The largest tile that every thread keeps whole, because single elements of it are used."""

_COPIED_BITS = 4096
"""The most that a thread holds of a fragment that has copies: 128 registers."""

Conflicts = Mapping[Any, Mapping[Any, LayoutConflictError]]
"""Statement -> fragment -> why the statement does not find the fragment's elements."""


class Choices(Record, eq=False):
    """What a solve is told besides the kernel.

    Attributes:
        first: nests that are distributed freely before others, in this order.
        whole: fragments that every one of so many threads holds whole.
    """

    first: tuple[Parallel, ...] = ()
    whole: tuple[tuple[Any, int], ...] = ()


_NONE = Choices()

_WIDE, _NARROW_COPIES = 4, 2
"""Elements of a vector that a copy should not do without, and how many copies are tried."""


def solve(problem: Problem, choices: Choices = _NONE) -> tuple[Layouts, Conflicts]:
    """The layouts of a kernel under some choices, and the statements that they do not suit."""
    return _Solver(problem, choices).solve()


def _width(nest: Nest, axis: int, places: Sequence[Any], *, problem: Problem) -> int:
    """The widest vector along an axis of a nest; ``places`` are the layouts of the shared tiles among the buffers it accesses."""
    memory = {access.buffer: place for access, place in zip(nest.accesses, places)}
    return Vectors(memory.get, problem.facts, problem.tree.root_of, arch_of(problem.target)).width(nest, axis)


def _traffic(node: Parallel) -> tuple[int, int]:
    """How much a nest moves, and how far: kind of memory, elements."""
    elements = math.prod(max(axis.extent, 1) for axis in node.nest.axes)
    buffers = {access.buffer for access in node.nest.accesses}
    memory = 2 if any(map(is_global, buffers)) else 1 if any(map(lies_in_shared, buffers)) else 0
    return (memory, elements)


class _Solver:
    def __init__(self, problem: Problem, choices: Choices):
        self.problem, self.choices, self.tree = problem, choices, problem.tree
        self.threads_of = problem.threads_of
        self.fragments: dict[Any, FragmentLayout] = {}
        self.memory: dict[Any, Any] = {}
        self.loops: dict[Parallel, LoopLayout] = {}
        self.plans: dict[Operator, Any] = {}
        self.origins: dict[Any, Any] = {}  # the span of the statement that fixed a fragment
        self.requested: dict[Any, Any] = {}  # swizzles that the user asks for, whichever
        self.conflicts: dict[Any, dict[Any, LayoutConflictError]] = {}
        self.nest_work, self.operator_work = _Worklist(problem.nests), _Worklist(problem.operators)

    # The order of the solve --------------------------------------------------------------------------------------------

    def solve(self) -> tuple[Layouts, Conflicts]:
        problem = self.problem
        self._annotations()
        for node in problem.operators:
            self._plan(node)
        # Before any nest: a nest is as wide as the layouts of the shared tiles that it touches allow.
        self.memory, unclaimed = choose_shared(problem, self.memory, self.plans, self.requested)
        for buffer, threads in self.choices.whole:
            self._fix(buffer, _whole(buffer, threads), None)
        # `pending` are nests that have no distribution yet and that a fragment may still give one.
        pending = {node for node in problem.nests if any(problem.is_fragment(access.buffer) for access in node.nest.accesses)}
        free = [node for node in problem.nests if node not in pending]
        self._propagate(pending)
        # Only what the first round left open: a small fragment with a layout by a product keeps that one.
        self._replicate_indexed()
        self._propagate(pending)
        # What is still pending has no fragment that determines it. The nest that moves most is distributed for its own good, and
        # the rest follows it, so that conversions are between small tiles rather than large ones.
        by_traffic = sorted((node for node in problem.nests if node in pending), key=_traffic, reverse=True)
        for node in (*self.choices.first, *by_traffic):
            if node in pending:
                self._distribute(node, self._chosen_loop(node), pending)
                self._propagate(pending)
        # Nests without fragments constrain nothing else.
        for node in free:
            self.loops[node] = self._free(node)
        self._rest()
        # Tiles that no operator constrains: the layout that is cheapest for all nests, whose threads are known now.
        for buffer in unclaimed:
            ways = choices_of_layout(buffer, problem)
            self.memory[buffer] = min(ways, key=lambda layout: self._cost_of_users(buffer, layout)) if len(ways) > 1 else ways[0]
        self._check()
        per_thread = {node for node, is_own in problem.private.items() if is_own}
        found = (self.fragments, self.memory, self.loops, self.plans, self.threads_of, problem.tree.reducers, per_thread)
        return Layouts(*found), self.conflicts

    def _annotations(self) -> None:
        """What the user fixed; memory that has several shapes is left row-major, as they must mean the same bytes."""
        for buffer, layout, span in self.tree.hints.layouts:
            if isinstance(layout, FragmentLayout):
                if self.problem.is_fragment(buffer):  # in shared memory there are no registers to choose
                    self._fix_views(buffer, layout, span)
            elif is_default_swizzle(buffer, layout) and not is_panels(layout, buffer):
                self.requested[buffer] = layout
            elif buffer not in self.problem.aliased:
                self.memory[buffer] = layout
                self.origins[buffer] = span

    def _plan(self, node: Operator) -> None:
        """How an operator is done, and the fragments that this fixes."""
        rule = rule_of(node.op)
        plan = rule.plan(node, self.problem, self.memory)
        if plan is not None:
            self.plans[node] = plan
            for buffer, layout in rule.demands(node.op, plan):
                self._fix(buffer, layout, node)

    def _fix(self, buffer: Any, layout: FragmentLayout, node: Any) -> None:
        """Gives a fragment its layout, unless it has one: the check tells whether that one serves as well."""
        if buffer not in self.fragments:
            self._fix_views(buffer, layout, None if node is None else node.span)

    def _fix_views(self, buffer: Any, layout: FragmentLayout, span: Any) -> None:
        """Fixes a fragment and all that share its registers; nothing where the allocation itself has no such layout."""
        root = self.tree.root_of(buffer)
        found = {other: _same_registers(buffer, other, layout) for other in (root, *self.problem.views.get(root, ()))}
        if found[root] is not None:
            fixed = {other: same for other, same in found.items() if same is not None}
            self.fragments.update(fixed)
            self.origins.update(dict.fromkeys(found, span))
            for other in fixed:
                self.nest_work.mark(self.problem.users.get(other, ()))
                self.operator_work.mark(self.problem.operands.get(other, ()))

    def _conflict(self, node: Any, buffer: Any, reason: str) -> None:
        error = LayoutConflictError(buffer.name, location_of(self.origins.get(buffer)), reason)
        self.conflicts.setdefault(node, {})[buffer] = error.at(location_of(node.span))

    # Propagation -------------------------------------------------------------------------------------------------------

    def _propagate(self, pending: set[Parallel]) -> None:
        """Distributes the nests that a fragment determines, which fixes more fragments, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for node in self.nest_work.sweep():
                loop = self._determined_loop(node) if node in pending else None
                if loop is not None:
                    self._distribute(node, loop, pending)
                    changed = True
            for node in self.operator_work.sweep():
                changed |= self._take_offer(node)

    def _determined_loop(self, node: Parallel) -> LoopLayout | None:
        """The distribution that a fixed fragment, indexed by every axis of the nest, gives."""
        nest, threads = node.nest, self.threads_of[node]
        if nest.layout is not None:
            return self._user_loop(node, nest.layout)
        if node in self.problem.private:
            return self.problem.known(private_loop, nest.axes, len(threads))
        # Where several fragments determine the nest, the one with the fewest copies: a nest that replicas run again would have to
        # fill the copies of every other fragment alike.
        return min(self._loops_by_fragments(node, all_axes=True), key=lambda loop: len(loop.replicas), default=None)

    def _loops_by_fragments(self, node: Parallel, all_axes: bool) -> Iterator[LoopLayout]:
        """The distributions that fixed fragments give a nest; with ``all_axes`` those that every axis of it indexes."""
        nest, threads = node.nest, len(self.threads_of[node])
        for access in nest.accesses:
            layout = self.fragments.get(access.buffer)
            if layout is None or layout.threads > threads:
                continue
            # An index that is computed inside the body is unknown where the iterations are shared out.
            if access.site.in_body or not self.problem.is_fragment(access.buffer):
                continue
            # A quick test before the exact one. The one index of c[i * 8 + j] has both axes; such fragments are left to
            # `_chosen_loop`.
            is_whole = len(layout.shape) >= sum(axis.extent > 1 for axis in nest.axes)
            if all_axes and not (is_whole and self.problem.known(_uses_all_axes, nest.axes, access.site.indices)):
                continue
            loop = self.problem.known(loop_from_fragment, nest.axes, access.site.indices, layout)
            if loop is not None:
                yield loop

    def _user_loop(self, node: Parallel, text: str) -> LoopLayout:
        """The distribution that the user fixed, whose axes of length one need not be those of the loop."""
        nest, count = node.nest, len(self.threads_of[node])
        layout, extents = FragmentLayout.from_text(text), tuple(axis.extent for axis in nest.axes)
        # Axes of extent 1 have no modes that matter, so those of the loop and of the layout are paired without them.
        modes = iter([modes for size, modes in zip(layout.shape, layout.modes) if size > 1])
        if [size for size in layout.shape if size > 1] != [size for size in extents if size > 1] or layout.threads > count:
            raise LoopLayoutError(nest.origin, layout.shape, layout.threads, extents, count).at(location_of(nest.span))
        dims = tuple(Dimension(axis.var, next(modes) if axis.extent > 1 else (), axis.extent) for axis in nest.axes)
        return LoopLayout(dims, layout.replicas)

    def _distribute(self, node: Parallel, loop: LoopLayout, pending: set[Parallel]) -> None:
        """Gives a pending nest its distribution, and the fragments that it touches their layouts."""
        self.loops[node] = loop
        pending.discard(node)
        for access in node.nest.accesses:
            buffer = access.buffer
            if not self.problem.is_fragment(buffer) or buffer in self.fragments:
                continue
            shape = [as_int(extent) for extent in buffer.shape]
            # An index that the body computes is no function of the loop's variables, so the nest says nothing about who needs the
            # element.
            known, site = self.problem.known, access.site
            layout = None if site.in_body else known(fragment_from_loop, tuple(shape), site.indices, loop)
            if layout is not None and not _is_too_much(layout, buffer):
                self._fix(buffer, layout.spread(len(self.problem.sharers(node))), node)

    def _take_offer(self, node: Operator) -> bool:
        """Fixes the fragment that an operator gives a layout, where it has none."""
        offer = rule_of(node.op).offer(node.op, self.fragments)
        if offer is None or offer[0] in self.fragments or offer[1].threads > len(self.threads_of[node]):
            return False
        self._fix(*offer, node)
        return offer[0] in self.fragments

    def _replicate_indexed(self) -> None:
        """Small fragments whose single elements all threads use are whole in every thread."""
        # A scalar statement such as `if c[0] > 0:` is run by every thread, so every thread must hold the element. Few bits are
        # copied to all; of a larger fragment the check reports a conflict, and the search puts a copy in shared memory.
        for node in self.problem.single_accesses:
            for access in self._spread_accesses(node):
                layout = _whole(access.buffer, len(self.threads_of[node]))
                if register_bits(access.buffer, layout) <= WHOLE_BITS:
                    self._fix(access.buffer, layout, node)

    def _spread_accesses(self, node: Any) -> list[Any]:
        """What a statement outside of nests touches of fragments that are not (yet) whole in every thread."""
        layouts, threads = self.fragments, len(self.threads_of[node])
        return [
            access
            for access in self.problem.single_accesses.get(node, ())
            if access.kind in (READ, WRITE) and self.problem.is_fragment(access.buffer)
            if not is_whole(layouts.get(access.buffer), threads)
        ]

    # Free choices ------------------------------------------------------------------------------------------------------

    def _chosen_loop(self, node: Parallel) -> LoopLayout:
        """The distribution by a fixed fragment that only some axes index (the others share its replicas), or a free one."""
        loop = max(self._loops_by_fragments(node, all_axes=False), key=lambda loop: loop.threads, default=None)
        # Even where only some axes are determined, following the fragment avoids a conversion. A nest that the search has
        # chosen is distributed freely instead where following would leave nearly all threads idle: c[0, 0] += x[j] is run by
        # the one thread that holds c[0, 0].
        if loop is None or (node in self.choices.first and _is_lopsided(node.nest, loop, len(self.threads_of[node]))):
            return self._free(node)
        return loop

    def _free(self, node: Parallel) -> LoopLayout:
        nest, threads = node.nest, len(self.problem.sharers(node))
        if nest.layout is not None:
            return self._user_loop(node, nest.layout)
        if node in self.problem.private or self._starts_reducer(nest):
            return self.problem.known(private_loop, nest.axes, threads)
        place = self.problem.known(contiguous_axis, nest)
        places = tuple(self.memory.get(access.buffer) for access in nest.accesses)
        width = self.problem.known(_width, nest, place, places, problem=self.problem)
        # Idle threads cost more than narrow vectors do.
        width = width if self._prefers_wide(node) else shrink_to_threads(width, nest, threads)
        order = (place, *(axis for axis in range(len(nest.axes) - 1, -1, -1) if axis != place))
        return self.problem.known(free_loop, nest.axes, threads, width, order)

    def _starts_reducer(self, nest: Nest) -> bool:
        """Whether the nest gives a reducer its first value, which every thread does for its own copy."""
        reducers = {access.buffer for access in nest.accesses if access.buffer in self.problem.tree.reducers}
        # A reducer that is read in the nest, as in r[i] += x[i, j], is accumulated: there each thread adds its own share of the
        # iterations.
        read = {access.buffer for access in nest.accesses if access.kind == READ}
        return bool(reducers - read)

    def _prefers_wide(self, node: Parallel) -> bool:
        """Copies between memories keep 16-byte vectors, for cp.async, even where some threads idle."""
        return rule_of(node.op).transfer(node.op) is not None and all(is_memory(access.buffer) for access in node.nest.accesses)

    # What is left ------------------------------------------------------------------------------------------------------

    def _rest(self) -> None:
        """Fragments that no nest determines: whole in every thread."""
        threads = len(self.threads_of[self.tree.root])
        for buffer in self.tree.allocations:
            if self.problem.is_fragment(buffer) and buffer not in self.fragments:
                self._fix_views(buffer, _whole(buffer, threads), None)
        # Each thread has partial values of every element of a reducer.
        self.fragments.update((buffer, _whole(buffer, threads)) for buffer in self.problem.tree.reducers)

    def _cost_of_users(self, tile: Any, layout: Any) -> float:
        """Cycles of the nests that use a shared tile, if it lies so."""
        known, total = {**self.memory, **self.fragments, tile: layout}, 0.0
        for node in self.problem.users.get(tile, ()):
            places = tuple(known.get(access.buffer) for access in node.nest.accesses)
            total += self.problem.known(nest_cost, node.nest, self.loops[node], places, problem=self.problem)
        return total

    # Conflicts ---------------------------------------------------------------------------------------------------------

    def _check(self) -> None:
        """Collects the statements that do not find elements where they need them, in program order."""
        for node in self.threads_of:
            if isinstance(node, Parallel):
                self._check_nest(node)
            elif isinstance(node, Operator):
                self._check_operator(node)
            for access in self._spread_accesses(node):
                self._conflict(node, access.buffer, "one element of it is needed by all threads")

    def _check_nest(self, node: Parallel) -> None:
        loop, replaces = self.loops[node], replaces_what_it_reads(node.nest, self.tree.root_of)
        updates = any(access.kind in (UPDATE, ADDRESS) for access in node.nest.accesses)
        # Private nests are run whole by every thread. Where their values are the same for all, memory is stored by one thread
        # only; an array in registers has no such owner: x[i] = atomic_add(...) would add once for each thread.
        once = self.problem.private.get(node) is False and (replaces or updates)  # although one thread alone stores to memory
        for access in node.nest.accesses:
            if once and is_array(access.buffer) and access.kind != READ:
                self._conflict(node, access.buffer, "every thread would do again what must be done once")
            if not self.problem.is_fragment(access.buffer):
                continue
            layout = self.fragments.get(access.buffer)
            if layout is None or not _reaches(self.problem.known, access, layout, loop):
                self._conflict(node, access.buffer, f"{describe(node.nest)} here needs its elements in other threads")
            # Threads that repeat an iteration do so at different times: meanwhile the memory that one reads may have been
            # changed by another, and their copies would differ.
            # y[i] = A[i]; A[i] = 0 with two copies of y: the slower thread would find the 0.
            elif access.kind != READ and loop.replicas and (replaces or computes_once(node.nest.body)):
                self._conflict(node, access.buffer, "copies of it would be computed from memory that the statement changes")

    def _check_operator(self, node: Operator) -> None:
        rule, plan, fragments = rule_of(node.op), self.plans.get(node), self.fragments
        for region, _ in node.op.regions():
            if self.problem.is_fragment(region.buffer) and region.buffer not in fragments:
                self._conflict(node, region.buffer, "as a view it has none of its own")
        for buffer, reason in rule.misfits(node.op, plan, fragments):
            self._conflict(node, buffer, reason)
        for buffer, demanded in rule.demands(node.op, plan):
            found = fragments.get(buffer)
            if found is not None and found != demanded and not found.is_equal(demanded):
                self._conflict(node, buffer, "demands another layout than this statement")


def slow_nests(problem: Problem, layouts: Layouts) -> list[Parallel]:
    """The nests that might be faster if they were distributed first: those that few threads run for all others, because they
    hold the element of a fragment that all need, and some of the copies that move single elements in place of vectors."""
    loops = layouts.loops.items()
    lopsided = [node for node, loop in loops if _is_lopsided(node.nest, loop, len(problem.threads_of[node]))]
    narrow = [node for node, loop in loops if _is_narrow(node, loop, problem, layouts)]
    return [*lopsided, *sorted(narrow, key=_traffic, reverse=True)[:_NARROW_COPIES]]


def _is_narrow(node: Parallel, loop: LoopLayout, problem: Problem, layouts: Layouts) -> bool:
    """Whether a copy could move vectors, and no operator needs its fragments as they are."""
    fragments = {access.buffer for access in node.nest.accesses if problem.is_fragment(access.buffer)}
    if rule_of(node.op).transfer(node.op) is None or not fragments or any(problem.operands.get(each) for each in fragments):
        return False
    vectors = Vectors(layouts.place_of, problem.facts, problem.tree.root_of, arch_of(problem.target))
    place = problem.known(contiguous_axis, node.nest)
    width = shrink_to_threads(vectors.width(node.nest, place), node.nest, len(problem.sharers(node)))
    return width >= _WIDE and vectors.split(node.nest, loop)[0] == 1


def _is_lopsided(nest: Nest, loop: LoopLayout, threads: int) -> bool:
    """Whether the threads that hold one element of a fragment run a nest for all others, many times their share of it."""
    # A dimension without a variable stands for a fixed index: only the threads with that element run the nest.
    share = max(1.0, math.prod(axis.extent for axis in nest.axes) / threads)
    return any(dim.var is None for dim in loop.dims) and loop.steps > WARP * share


def _uses_all_axes(axes: Iterable[Axis], indices: Iterable[Any]) -> bool:
    return all(axis.extent == 1 or any(mentions(index, {axis.var: 0}) for index in indices) for axis in axes)


def _is_too_much(layout: FragmentLayout, buffer: Any) -> bool:
    """Whether a thread would hold more copies of other threads' elements than it has registers for."""
    return layout.replicate_size > 1 and register_bits(buffer, layout) > _COPIED_BITS


def _reaches(known: Memo, access: Access, layout: FragmentLayout, loop: LoopLayout) -> bool:
    """Whether the threads that run a loop hold what they access, and a store reaches every copy of its element."""
    # Every thread has the element, whatever the index: no arithmetic on it is needed, so that it may come from data.
    if access.kind == READ and is_whole(layout, loop.threads):
        return True
    return known(register_form, access.site.indices, layout, loop, access.kind != READ) is not None


def _same_registers(buffer: Any, other: Any, layout: FragmentLayout) -> FragmentLayout | None:
    """The layout of ``other``, which shares registers with ``buffer``; None where it has none."""
    if other.same_as(buffer):
        return layout
    # Under another type, elements that share a register may lie in different threads.
    if str(other.dtype) != str(buffer.dtype) or len(other.strides):
        return None
    return layout.reshape([as_int(extent) for extent in other.shape])


def _whole(buffer: Any, threads: int) -> FragmentLayout:
    """The layout of a fragment that each of some threads holds whole."""
    return replicated([as_int(extent) for extent in buffer.shape], threads)


class _Worklist:
    """A worklist that visits marked items in their original order; at first all are marked.

    A solve that visits only what may have changed takes the same decisions as one that visits everything each time, as long as
    visiting an item twice without a mark in between gives the same.
    """

    def __init__(self, items: Iterable[Any]):
        self.items = list(items)
        self.places = {item: place for place, item in enumerate(self.items)}
        self.due = list(range(len(self.items)))
        self.marked = set(self.due)

    def mark(self, items: Iterable[Any]) -> None:
        """Items to visit (again)."""
        for item in items:
            place = self.places[item]
            if place not in self.marked:
                self.marked.add(place)
                heapq.heappush(self.due, place)

    def sweep(self) -> Iterator[Any]:
        """The marked items; one that is marked meanwhile comes in this sweep if it lies ahead, in the next one if behind."""
        behind, last = [], -1
        while self.due:
            place = heapq.heappop(self.due)
            if place <= last:
                behind.append(place)
                continue
            last = place
            self.marked.discard(place)
            yield self.items[place]
        self.due = behind
