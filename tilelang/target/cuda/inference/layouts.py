"""The result of layout inference: where every tile of a kernel lives, and which threads run what.

The solver fills such a table; :meth:`Layouts.frozen` is what all later steps see.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import field, fields
from itertools import product
from math import prod
from types import MappingProxyType
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import LayoutConflictError
from tilelang.ir.access import READ, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment
from tilelang.ir.span import location_of
from tilelang.layout.fragment import FragmentLayout
from tilelang.records import Record
from tilelang.target.cuda.analysis.groups import are_separate, contains
from tilelang.target.cuda.inference.loop_layout import LoopLayout
from tilelang.target.cuda.tile.tree import Operator, Parallel, Scalar, TileTree


class Layouts(Record, eq=False):
    """Layouts of a kernel.

    Attributes:
        fragments: layout of each fragment.
        memory: layout of each shared buffer.
        loops: distribution of each nest.
        plans: how each operator is computed whose layouts depend on that.
        threads_of: the threads that run each node.
        reducers: fragments of which each thread has its own partial values.
        per_thread: nests that each thread runs for itself, its stores to memory included.
        conversions: copies that bring a fragment's elements to other places for some statements, with the error to raise where
            only some of the threads run one.
        partly_written: fragments that these move as a whole although the program may not have written every element before.
    """

    fragments: Mapping[Any, FragmentLayout] = field(default_factory=dict)
    memory: Mapping[Any, Any] = field(default_factory=dict)
    loops: Mapping[Parallel, LoopLayout] = field(default_factory=dict)
    plans: Mapping[Operator, Any] = field(default_factory=dict)
    threads_of: Mapping[Any, range] = field(default_factory=dict)
    reducers: Mapping[Any, str] = field(default_factory=dict)
    per_thread: Set[Any] = field(default_factory=set)
    conversions: Mapping[Any, LayoutConflictError] = field(default_factory=dict)
    partly_written: Set[Any] = field(default_factory=set)

    def place_of(self, buffer: Any) -> Any:
        """Where a fragment or a shared buffer lies; None of a tensor."""
        return self.fragments.get(buffer) or self.memory.get(buffer)

    def held(self, buffer: Any) -> int:
        """How many elements of an array or a fragment each thread holds."""
        layout = self.fragments.get(buffer)
        return max(1, prod(map(as_int, buffer.shape))) if layout is None else layout.registers

    def frozen(self) -> Layouts:
        """The same table, read-only."""
        tables = (getattr(self, each.name) for each in fields(self))
        frozen: list[Any] = [frozenset(each) if isinstance(each, Set) else MappingProxyType(dict(each)) for each in tables]
        return Layouts(*frozen)


def register_bits(buffer: Any, layout: FragmentLayout) -> int:
    """Bits of each thread's registers that a fragment takes."""
    return layout.registers * canonical(str(buffer.dtype)).stored_bits


def check_fragments(tree: TileTree, layouts: Any) -> None:
    """Checks that the threads of every statement are those that hold the elements of its fragments.

    Raises:
        LayoutConflictError: some elements are in threads that do not run the statement.
    """
    for _, error in misplaced(tree, layouts):
        raise error
    nodes = [node for node in tree.around if node in layouts.threads_of]
    if len({layouts.threads_of[node] for node in nodes}) > 1:
        _check_copies(tree, layouts, nodes)
        _check_reducers(layouts, nodes)


def misplaced(tree: TileTree, layouts: Any) -> Iterator[tuple[Any, LayoutConflictError]]:
    """The fragments of which a statement needs elements of threads that do not run it, each with the error.

    Threads with numbers of their own, as two warp groups that run the same code, have a copy each.
    """
    homes: dict[Any, list[tuple[Any, Any]]] = {}
    # Narrow groups first: the narrowest that touch a fragment are its homes, which the wider ones are compared with.
    for node in sorted(tree.around, key=lambda node: len(layouts.threads_of.get(node, ()))):
        touched = node.touched if isinstance(node, (Parallel, Operator, Scalar)) else ()
        for buffer in {access.buffer for access in touched if is_fragment(access.buffer)}:
            layout, threads = layouts.fragments.get(buffer), layouts.threads_of[node]
            if layout is None or layout.is_whole:
                continue
            found = homes.setdefault(buffer, [])
            if all(len(threads) == len(home) and threads != home for home, _ in found):
                found.append((threads, node))
            # A layout numbers threads from 0 in whatever group runs the statement. If threads 128 to 255 read what 0 to 255 have
            # filled, they would take the elements of threads 0 to 127 for their own. A group that begins where the home begins
            # has the same numbers.
            if layout.threads > len(threads):
                yield buffer, _elsewhere(buffer, found[0][1], node, threads, range(layout.threads))
                continue
            for home, origin in found:
                alike = len(threads) == len(home) and are_separate((threads, home))
                if not alike and threads.start != home.start:
                    yield buffer, _elsewhere(buffer, origin, node, threads, home)


def _elsewhere(buffer: Any, origin: Any, node: Any, threads: range, holders: range) -> LayoutConflictError:
    reason = f"{_range_text(threads)} run this, and its elements are in {_range_text(holders)}"
    hint = f"copy it to shared memory where {_range_text(holders)} run, before the condition on threads"
    return LayoutConflictError(buffer.name, location_of(origin.span), reason, hint).at(location_of(node.span))


def _check_copies(tree: TileTree, layouts: Any, nodes: Sequence[Any]) -> None:
    """Checks that others find what some threads store to a fragment that every thread holds whole.

    They read the copies of the first threads, so only one group that begins with those may store to it alone.
    """
    touches = [(node, access) for node in nodes for access in node.touched]
    whole = {buffer for buffer, layout in layouts.fragments.items() if layout.is_whole} - layouts.reducers.keys()
    touches = [(node, access) for node, access in touches if access.buffer in whole]
    stores = [(node, access.buffer) for node, access in touches if access.kind != READ]

    for node, access in touches:
        threads = layouts.threads_of[node]
        found = (store for store, buffer in stores if access.kind != WRITE and buffer == access.buffer)
        groups = {layouts.threads_of[store]: store for store in found if tree.may_follow(node, store)}
        parts = {group: store for group, store in groups.items() if set(group) < set(threads)}
        if len(parts) == 1 and next(iter(parts)).start == threads.start:
            continue
        for group, store in parts.items():
            reason = f"{_range_text(threads)} read here what {_range_text(group)} alone have stored"
            error = LayoutConflictError(access.buffer.name, location_of(store.span), reason)
            raise error.at(location_of(node.span))


def _check_reducers(layouts: Any, nodes: Sequence[Any]) -> None:
    """Checks that the threads that add to a reducer begin and finalise it together: each has partial values of its own."""
    for buffer in layouts.reducers:
        kinds = {node: {access.kind for access in node.touched if access.buffer == buffer} for node in nodes}
        begins = [node for node in nodes if kinds[node] == {WRITE}]
        updates = [node for node in nodes if isinstance(node, Parallel) and kinds[node] - {WRITE}]
        ends = [node for node in nodes if kinds[node] - {WRITE} and node not in updates]
        for node, together in (*product(updates, (begins, ends)), *product(ends, (begins,))):
            _check_all_come(buffer, node, together, layouts.threads_of)


def _check_all_come(buffer: Any, node: Any, together: Sequence[Any], threads_of: Mapping[Any, range]) -> None:
    """Checks that all threads of a node, or none, run each of some others, and that all run one of them."""
    needed = threads_of[node]
    partial = [each for each in together if not are_separate((threads_of[each], needed))] or list(together)
    for each in partial:
        if not contains(threads_of[each], needed):
            reason = f"{_range_text(threads_of[each])} run this, and {_range_text(needed)} use it as well"
            hint = "begin and finalise a reducer where all threads run that add to it"
            raise LayoutConflictError(buffer.name, location_of(node.span), reason, hint).at(location_of(each.span))


def _range_text(threads: range) -> str:
    return f"threads {threads.start} to {threads.stop - 1}"
