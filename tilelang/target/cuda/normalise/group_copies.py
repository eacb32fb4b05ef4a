"""Groups of threads have copies of the fragments that they use: they fill these themselves, and the block gets what they change.

A fragment lies in registers that are numbered from the first thread of the group that uses it. What all threads put into one that
groups then use, each group puts into its own copy:

    T.clear(acc)                            with T.ws(0): T.clear(acc)
    with T.ws(0): T.gemm(A0, B, acc)        with T.ws(1): T.clear(acc)
    with T.ws(1): T.gemm(A1, B, acc)   ->   with T.ws(0): T.gemm(A0, B, acc)
                                            with T.ws(1): T.gemm(A1, B, acc)

The nest on the left, which numbers all threads of the block, would reach the copy of the first group only. Groups of different
sizes have fragments of different names, as a thread of a larger group holds a smaller part.

Where groups cannot repeat what all threads do, the copies that they have changed are merged before the block uses the tile again:

    T.copy(A, tile)                           T.copy(A, tile); start = tile (in shared memory)
    with T.ws(0): tile[0:8] *= 2              with T.ws(0): tile_0 = start; tile_0[0:8] *= 2; copy_0 = tile_0
    with T.ws(1): tile[8:16] += 1      ->     with T.ws(1): tile_1 = start; tile_1[8:16] += 1; copy_1 = tile_1
    T.copy(tile, B)                           tile = what copy_0 or copy_1 have in another way than start, or else start
                                              T.copy(tile, B)

An element to which a group has stored what it held before needs no record of that: the bits are the same. Inside of a group this
holds for the groups in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import DivergenceError
from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.memory import FRAGMENT, SHARED, is_fragment, is_memory
from tilelang.ir.region import Region
from tilelang.ir.span import location_of
from tilelang.target.cuda.analysis.groups import are_separate, contains, homes_of, threads_of, widest
from tilelang.target.cuda.analysis.uniformity import computes_once
from tilelang.target.cuda.tile.build import axes_of, load_at, store_at, typed
from tilelang.target.cuda.tile.nest import Nest
from tilelang.target.cuda.tile.read import copy_between
from tilelang.target.cuda.tile.rename import buffer_like, renamed_inside, spliced
from tilelang.target.cuda.tile.tree import Loop, Operator, Parallel, Repeat, Sequence, ThreadGroup, TileTree, walk

# What groups hold ----------------------------------------------------------------------------------------------------


def _users_of(tree: TileTree, threads: Mapping[Any, range], root: Any) -> set[range]:
    """The threads that run the statements which use a buffer or a view of it."""
    return {running for node, running in threads.items() if any(tree.root_of(each.buffer) == root for each in node.touched)}


class _GroupCopies:
    """What groups hold and change.

    Attributes:
        threads: those that run each node, in program order.
    """

    def __init__(self, tree: TileTree, block: range):
        self.tree, self.threads = tree, threads_of(tree, block)
        self._homes = homes_of(self.threads, tree.root_of)
        self._widest: dict[Any, range] = {}
        self._stores: dict[Any, list[Any]] = {}
        for node, running in self.threads.items():
            for access in node.touched if running != block else ():
                if access.kind != READ:
                    self._stores.setdefault(tree.root_of(access.buffer), []).append(node)

    def widest(self, buffer: Any) -> range:
        """The widest group that uses a buffer or a view of it."""
        root = self.tree.root_of(buffer)
        if root not in self._widest:
            self._widest[root] = widest(_users_of(self.tree, self.threads, root))
        return self._widest[root]

    def filled_by(self, node: Any, running: range) -> list[range]:
        """The groups that run a statement for their own copies of the fragments that it fills; none where it is left as it is."""
        if not isinstance(node, (Parallel, Operator)):
            return []
        accesses = node.touched
        found = {tuple(self._homes[self.tree.root_of(access.buffer)]) for access in accesses if is_fragment(access.buffer)}
        if len(found) != 1 or not all(self._may_be_repeated(node, access) for access in accesses):
            return []
        # Every thread has all elements of a reducer, whatever its number.
        if not self.tree.reducers.keys().isdisjoint(access.buffer for access in accesses):
            return []
        if all(access.kind == READ for access in accesses) or (isinstance(node, Parallel) and computes_once(node.nest.body)):
            return []
        chosen = [home for home in found.pop() if home != running and contains(running, home)]
        return [] if all(home.start == running.start for home in chosen) else chosen

    def lie_elsewhere(self, node: Any, buffer: Any) -> bool:
        """Whether a statement needs elements of a fragment that groups of its threads hold, and that it would not find there.

        The registers of a group that begins with the first of the threads have their numbers. An element that a statement
        outside of ``T.Parallel`` names is in every thread, unless a group has changed its copies.
        """
        running = self.threads[node]
        elsewhere = any(home.start != running.start for home in self._homes[self.tree.root_of(buffer)] if home != running)
        return elsewhere and (self._has_been_changed(buffer, node) or isinstance(node, (Parallel, Operator)))

    def _may_be_repeated(self, node: Any, access: Any) -> bool:
        """Whether each group may make an access of its own, at its own time."""
        if is_fragment(access.buffer):
            # What a group has stored is in its copy alone, and the statement of the threads around it would find it.
            return access.kind == WRITE or not self._has_been_changed(access.buffer, node)
        # One group may change the memory while another has not read it yet.
        return access.kind == READ and is_memory(access.buffer) and self.tree.root_of(access.buffer) not in self._stores

    def _has_been_changed(self, fragment: Any, node: Any) -> bool:
        """Whether a group may have changed its copy of a fragment before a statement runs."""
        stores = self._stores.get(self.tree.root_of(fragment), [])
        around = self.widest(fragment)
        return any(self.threads[store] != around and self.tree.may_follow(node, store) for store in stores)


# What groups fill ----------------------------------------------------------------------------------------------------


def fill_group_copies(tree: TileTree, block: range) -> TileTree:
    """The tree in which groups fill their own copies of fragments where they number their threads otherwise than the block."""
    groups = {node.threads: node for node in walk(tree.root) if isinstance(node, ThreadGroup) and node.threads is not None}
    copies = _GroupCopies(tree, block)
    divided: dict[Any, list[Any]] = {}
    for node, running in copies.threads.items():
        # A node each: tables of later steps are by node.
        parts = [replace(groups[home], body=Sequence([replace(node)])) for home in copies.filled_by(node, running)]
        divided |= {node: parts} if parts else {}
    return _with_own_names(replace(tree, root=spliced(tree.root, divided, {})) if divided else tree, block)


def _with_own_names(tree: TileTree, block: range) -> TileTree:
    """The tree in which groups that no one layout suits, or that have threads in common, have fragments of different names."""
    threads = threads_of(tree, block)
    values: dict[range, dict[Any, Any]] = {}
    allocations = dict(tree.allocations)
    aliased = tree.aliased() | {buffer for buffer, *_ in tree.hints.layouts}
    for buffer, homes in homes_of(threads, tree.root_of).items():
        users = _users_of(tree, threads, buffer)
        # All threads may use the fragment too, or a view or a layout may name it: then it has to stay one buffer.
        alike = len({len(home) for home in homes}) == 1 and are_separate(homes)
        if not alike and users == set(homes) and buffer not in aliased:
            for home in homes[1:]:
                new = buffer_like(buffer, FRAGMENT)
                allocations[new] = allocations[buffer]
                values.setdefault(home, {})[buffer] = new
    root = renamed_inside(tree.root, lambda node: values.get(threads[node], {}), {})
    return replace(tree, root=root, allocations=allocations)


# What groups change --------------------------------------------------------------------------------------------------


def merge_copies(tree: TileTree, block: range, spread: Collection[Any] = ()) -> TileTree:
    """The tree in which fragments that groups change for the threads around them, and their copies, are buffers of their own.

    Of those in ``spread`` groups use elements that lie in other threads."""
    for buffer in spread:
        tree = _divided(tree, block, buffer)
    # One may make another one of them: a statement that groups could repeat for two fragments cannot for one of the two.
    while (found := next(_used_around(tree, block), None)) is not None:
        tree = found.tree_with_copies()
    return tree


def _divided(tree: TileTree, block: range, buffer: Any) -> TileTree:
    """The tree in which groups have copies of a fragment, and groups inside of them copies of those."""
    # A layout that the program gives the fragment is that of the threads around: it is what the groups cannot use.
    merge = _Merge.of(tree, block, threads_of(tree, block), buffer, with_layout=True)
    if merge is None:
        return tree
    tree = merge.tree_with_copies()
    for own in merge.own.values():
        tree = _divided(tree, block, own[buffer])
    return tree


def _used_around(tree: TileTree, block: range) -> Iterator[_Merge]:
    """The merges of fragments that a statement of more threads uses than the groups, which they cannot run for their copies."""
    copies = _GroupCopies(tree, block)
    for node, running in copies.threads.items():
        if copies.filled_by(node, running):
            continue
        for buffer in {tree.root_of(access.buffer) for access in node.touched if is_fragment(access.buffer)}:
            if running == copies.widest(buffer) and copies.lie_elsewhere(node, buffer):
                merge = _Merge.of(tree, block, copies.threads, buffer)
                if merge is not None:
                    yield merge


def _may_be_divided(tree: TileTree, buffer: Any, views: Collection[Any], with_layout: bool) -> bool:
    """Whether a buffer is no reducer, and, unless ``with_layout``, the program gives neither it nor one of its views a layout."""
    named = () if with_layout else {annotated for annotated, *_ in tree.hints.layouts}
    return {buffer, *views}.isdisjoint(named) and not tree.allocations[buffer] and canonical(str(buffer.dtype)).lanes == 1


class _Merge:
    """The copies of one fragment.

    Attributes:
        outer: the threads around all groups; they use the fragment itself.
        group_of: the threads of each other statement -> the widest group that has them.
        views: of the fragment; the order is that of their declarations.
        own: the fragment of each group, and under each view's name one of that.
        start: what the fragment holds where the groups begin.
        ends: what each group's copy holds where they end.
    """

    def __init__(self, tree: TileTree, block: range, threads: Mapping[Any, range], buffer: Any, group_of: dict[range, range]):
        self.tree, self.block, self.buffer, self.threads, self.group_of = tree, block, buffer, threads, group_of
        self.outer = widest(_users_of(tree, threads, buffer))
        self.views = _views_of(tree, buffer)
        self.span = next(node for node in threads if self._uses(node)).span
        self.branches = {node.threads: node for node in walk(tree.root) if isinstance(node, ThreadGroup)}
        groups = _by_start(group_of.values())
        self.own = {
            group: {each: buffer_like(each, FRAGMENT, f"_{number}") for each in (buffer, *self.views)}
            for number, group in enumerate(groups)
        }
        self.start = buffer_like(buffer, SHARED, "_start")
        self.ends = {group: buffer_like(buffer, SHARED, f"_end_{number}") for number, group in enumerate(groups)}

    @classmethod
    def of(
        cls, tree: TileTree, block: range, threads: Mapping[Any, range], buffer: Any, with_layout: bool = False
    ) -> _Merge | None:
        """The copies of the groups that use a fragment besides the threads around them; None where there are no such groups, or
        where one is inside of two others, both of which would have to see what it stores."""
        users = _users_of(tree, threads, buffer)
        inside = users - {widest(users)}
        groups = [one for one in inside if not any(one != other and contains(other, one) for other in inside)]
        group_of = {user: [group for group in groups if contains(group, user)] for user in inside}
        around = all(contains(widest(users), group) for group in groups)
        if (
            not inside
            or not around
            or any(len(found) > 1 for found in group_of.values())
            or not _may_be_divided(tree, buffer, _views_of(tree, buffer), with_layout)
        ):
            return None
        return cls(tree, block, threads, buffer, {user: found[0] for user, found in group_of.items()})

    def tree_with_copies(self) -> TileTree:
        """The tree in which groups have their copies.

        Raises:
            DivergenceError: what a group would find is not what the language says.
        """
        new = [*(own[self.buffer] for own in self.own.values()), self.start, *self.ends.values()]
        views = {own[view]: own[self.tree.aliases[view]] for own in self.own.values() for view in self.views}
        # Copies move all elements, also those that nothing has written, and a register without a value has no meaning in C++.
        zero = self._around(self._stored(typed(0, str(self.buffer.dtype))), self.block)
        root = Sequence([zero, *self._node(self.tree.root, self.block).items])
        allocations = {**self.tree.allocations, **dict.fromkeys(new, {})}
        return replace(self.tree, root=root, allocations=allocations, aliases={**self.tree.aliases, **views})

    def _uses(self, node: Any) -> bool:
        return any(self._is_named(access) for access in node.touched)

    def _is_named(self, access: Any) -> bool:
        return self.tree.root_of(access.buffer) == self.buffer

    def _node(self, node: Any, running: range) -> Any:
        """A node in which statements of the outer threads use the fragment.

        Args:
            node: the node.
            running: the threads that come to it.
        """
        if isinstance(node, Sequence):
            return node.regrouped(self._parts(node.items, running))
        return node.with_parts(lambda part: self._node(part, node.runners(running)))

    def _parts(self, items: list[Any], running: range) -> list[list[Any]]:
        """What each statement becomes."""
        users = [{self.threads[node] for node in walk(item) if self._uses(node)} for item in items]
        parts = [[self._node(item, running) if self.outer in using else item] for item, using in zip(items, users)]
        for run in _runs(users, self.outer):
            for place in run:
                parts[place] = [renamed_inside(items[place], self._own_buffers, {})]
            groups = _by_start({self.group_of[user] for place in run for user in users[place]})
            storing = [group for group in groups if any(self._stores(items[place], group) for place in run)]
            if storing and not any(users[run[-1] + 1 :]):
                self._check_next(items[run[-1]], storing)
            parts[run[0]] = [*self._begun(groups, running), *parts[run[0]]]
            parts[run[-1]] = [*parts[run[-1]], *self._ended(storing, running)]
        return parts

    def _check_next(self, item: Any, storing: list[range]) -> None:
        """Checks who uses next what groups change at the end of statements, where their copies are merged.

        Another group must not see the changes before the outer threads have used the fragment.

        Raises:
            DivergenceError: another group may use it next.
        """
        order = [node for node in self.threads if self._uses(node)]
        last = next(node for node in reversed(order) if any(node is inner for inner in walk(item)))
        loops = [node for node in self.tree.around[last] if isinstance(node, (Loop, Repeat))]
        following = [next(node for node in order if loop in self.tree.around[node]) for loop in loops]
        for node in (*following, *order[order.index(last) + 1 :][:1]):
            if self.threads[node] != self.outer and storing != [self.group_of[self.threads[node]]]:
                raise DivergenceError(
                    f"another group of threads may have changed {self.buffer.name}, and no statement of both has used it since",
                    hint="use it once without the conditions, or exchange the values through shared memory",
                ).at(location_of(node.span))

    def _own_buffers(self, node: Any) -> dict[Any, Any]:
        group = self.group_of.get(self.threads[node])
        return {} if group is None else self.own[group]

    def _stores(self, item: Any, group: range) -> bool:
        accesses = (access for node in walk(item) if self.group_of.get(self.threads[node]) == group for access in node.touched)
        return any(self._is_named(access) and access.kind != READ for access in accesses)

    def _begun(self, groups: list[range], running: range) -> list[Any]:
        start = self._around(self._copy(self.buffer, self.start), running)
        return [start, *(self._in(group, self._copy(self.start, self.own[group][self.buffer])) for group in groups)]

    def _ended(self, groups: list[range], running: range) -> list[Any]:
        """The statements after which the outer threads' fragment has what groups have changed."""
        left = [self._in(group, self._copy(self.own[group][self.buffer], self.ends[group])) for group in groups]
        _, offsets = axes = axes_of([Region.whole(self.buffer)])
        value = before = load_at(Region.whole(self.start), offsets)
        for group in groups:
            after = load_at(Region.whole(self.ends[group]), offsets)
            value = ir.Select(ir.NE(_bits(after), _bits(before)), after, value)
        return [*left, self._around(self._stored(value, axes), running)] if groups else []

    def _around(self, stmt: Any, running: range) -> Any:
        """A statement of the outer threads, at a place that others may come to."""
        return stmt if running == self.outer else self._in(self.outer, stmt)

    def _in(self, group: range, stmt: Any) -> ThreadGroup:
        return replace(self.branches[group], body=Sequence([stmt]))

    def _copy(self, source: Any, target: Any) -> Parallel:
        return copy_between(Region.whole(source), Region.whole(target), self.span)

    def _stored(self, value: Any, axes: Any = None) -> Parallel:
        """The statement that stores a value to all elements, at the given axes."""
        region = Region.whole(self.buffer)
        names, offsets = axes or axes_of([region])
        return Parallel(Nest.build(names, store_at(region, offsets, value, self.span), self.span, "T.copy"))


def _views_of(tree: TileTree, buffer: Any) -> list[Any]:
    return [view for view in tree.aliases if tree.root_of(view) == buffer]


def _runs(users: list[set[range]], outer: range) -> Iterator[list[int]]:
    """The places of statements in which groups alone use a fragment, up to the next one of the outer threads."""
    run: list[int] = []
    for place, using in enumerate(users):
        if outer in using and run:
            yield run
            run = []
        elif using and outer not in using:
            run.append(place)
    if run:
        yield run


def _by_start(groups: Iterable[range]) -> list[range]:
    return sorted(set(groups), key=lambda group: group.start)


def _bits(value: Any) -> Any:
    """A value as a number whose equality is that of its bits."""
    dtype = canonical(str(value.ty))
    return ir.tirx.reinterpret(f"uint{dtype.bits}", value) if dtype.is_float else value
