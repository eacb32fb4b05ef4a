"""What all threads put into a fragment that groups of threads then use, each group puts into its own copy.

    T.clear(acc)                            with T.ws(0): T.clear(acc)
    with T.ws(0): T.gemm(A0, B, acc)        with T.ws(1): T.clear(acc)
    with T.ws(1): T.gemm(A1, B, acc)   ->   with T.ws(0): T.gemm(A0, B, acc)
                                            with T.ws(1): T.gemm(A1, B, acc)

A fragment lies in registers that are numbered from the first thread of the group that uses it, so the nest on the left, which
numbers all threads of the block, would reach the copy of the first group only. Groups of different sizes have fragments of
different names, as a thread of a larger group holds a smaller part.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir.access import READ, WRITE
from tilelang.ir.memory import FRAGMENT, is_fragment, is_memory
from tilelang.target.cuda.analysis.fragment_homes import homes_of, threads_of
from tilelang.target.cuda.analysis.uniformity import computes_once
from tilelang.target.cuda.tile.rename import buffer_like, renamed_inside, spliced
from tilelang.target.cuda.tile.tree import Operator, Parallel, Sequence, ThreadGroup, TileTree, walk


def fill_group_copies(tree: TileTree, block: range) -> TileTree:
    """The tree in which groups fill their own copies of fragments where they number their threads otherwise than the block."""
    groups = {node.threads: node for node in walk(tree.root) if isinstance(node, ThreadGroup) and node.threads is not None}
    copies = GroupCopies(tree, block)
    divided: dict[Any, list[Any]] = {}
    for node, running in copies.threads.items():
        # A node each: tables of later steps are by node.
        parts = [ThreadGroup(groups[home].stmt, Sequence([replace(node)]), home) for home in copies.filled_by(node, running)]
        divided |= {node: parts} if parts else {}
    return _with_own_names(replace(tree, root=spliced(tree.root, divided, {})) if divided else tree, block)


def _with_own_names(tree: TileTree, block: range) -> TileTree:
    """The tree in which groups of different sizes, which no one layout suits, have fragments of different names."""
    threads = threads_of(tree, block)
    values: dict[range, dict[Any, Any]] = {}
    allocations = dict(tree.allocations)
    aliased = tree.aliased() | {buffer for buffer, *_ in tree.hints.layouts}
    for buffer, homes in homes_of(threads, tree.root_of).items():
        users = users_of(threads, buffer)
        # All threads may use the fragment too, or a view or a layout may name it: then it has to stay one buffer.
        if len({len(home) for home in homes}) > 1 and users == set(homes) and buffer not in aliased:
            for home in homes[1:]:
                new = buffer_like(buffer, FRAGMENT)
                allocations[new] = allocations[buffer]
                values.setdefault(home, {})[buffer] = new
    root = renamed_inside(tree.root, lambda node: values.get(threads[node], {}), {})
    return replace(tree, root=root, allocations=allocations)


def users_of(threads: Mapping[Any, range], buffer: Any) -> set[range]:
    """The threads that run the statements which use a buffer."""
    return {running for node, running in threads.items() if any(each.buffer == buffer for each in node.touched)}


class GroupCopies:
    """What groups hold and change.

    Attributes:
        threads: those that run each node, in program order.
    """

    def __init__(self, tree: TileTree, block: range):
        self.tree, self.threads = tree, threads_of(tree, block)
        self._homes = homes_of(self.threads, tree.root_of)
        self._stores: dict[Any, list[Any]] = {}
        for node, running in self.threads.items():
            for access in node.touched if running != block else ():
                if access.kind != READ:
                    self._stores.setdefault(tree.root_of(access.buffer), []).append(node)

    def filled_by(self, node: Any, running: range) -> list[range]:
        """The groups that run a statement for their own copies of the fragments that it fills; none where it is left as it is."""
        if not isinstance(node, (Parallel, Operator)):
            return []
        accesses = node.touched
        found = {tuple(self._homes[self.tree.root_of(access.buffer)]) for access in accesses if is_fragment(access.buffer)}
        if len(found) != 1 or not all(self._may_be_repeated(node, access) for access in accesses):
            return []
        if all(access.kind == READ for access in accesses) or (isinstance(node, Parallel) and computes_once(node.nest.body)):
            return []
        chosen = [home for home in found.pop() if home != running and running.start <= home.start and home.stop <= running.stop]
        return [] if all(home.start == running.start for home in chosen) else chosen

    def lie_elsewhere(self, node: Any, buffer: Any, block: range) -> bool:
        """Whether a statement of all threads needs elements of a fragment that groups hold, and that it would not find there.

        The registers of a group that begins with the block's first thread have the block's numbers. An element that a statement
        outside of ``T.Parallel`` names is in every thread, unless a group has changed its copies.
        """
        homes = [home for home in self._homes[self.tree.root_of(buffer)] if home != block]
        changed = any(self.tree.may_follow(node, store) for store in self._stores.get(self.tree.root_of(buffer), []))
        return any(home.start != block.start for home in homes) and (changed or isinstance(node, (Parallel, Operator)))

    def _may_be_repeated(self, node: Any, access: Any) -> bool:
        """Whether each group may make an access of its own, at its own time."""
        stores = self._stores.get(self.tree.root_of(access.buffer), [])
        if is_fragment(access.buffer):
            # What a group has stored is in its copy alone, and the statement of all threads would find it.
            return access.kind == WRITE or not any(self.tree.may_follow(node, store) for store in stores)
        # One group may change the memory while another has not read it yet.
        return access.kind == READ and is_memory(access.buffer) and not stores
