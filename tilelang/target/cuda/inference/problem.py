"""The input of layout inference: a kernel's statements, the threads that run each, and the statements that use each fragment."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from typing import Any

from tilelang.ir.access import ADDRESS, UPDATE
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_fragment
from tilelang.ir.visit import walk as walk_statements
from tilelang.records import Record
from tilelang.target.cuda.analysis.groups import homes_of, threads_of
from tilelang.target.cuda.analysis.uniformity import Uniformity
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.operators import TileDemand, rule_of
from tilelang.target.cuda.tile.nest import given_to_calls, taken_with_neighbours
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.tree import Operator, Parallel, Scalar, TileTree


def by_buffer(pairs: Iterable[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """The different values of each buffer, in order."""
    found: dict[Any, dict[Any, None]] = {}
    for buffer, value in pairs:
        found.setdefault(buffer, {})[value] = None
    return {buffer: list(values) for buffer, values in found.items()}


class Memo:
    """Results of pure functions: the solves of one search ask the same questions about most nests."""

    def __init__(self) -> None:
        self._given: dict[tuple[Any, ...], Any] = {}

    def __call__(self, function: Callable[..., Any], *arguments: Any, **fixed: Any) -> Any:
        """The result of a function; arguments by name are no part of the key, as they are equal whenever the others are."""
        # Nodes hash by identity, layouts by value. The search rewrites a tree in few places, so that most nodes, and with them
        # most answers, are shared between its states.
        key = (function, *arguments)
        if key not in self._given:
            self._given[key] = function(*arguments, **fixed)
        return self._given[key]


class Problem(Record, eq=False):
    """A kernel whose layouts are wanted.

    Attributes:
        tree: the kernel's statements.
        kernel: what it is a kernel of, and its threads.
        target: the CUDA target.
        facts: what is known of its variables.
        swizzle: whether shared tiles may be swizzled against bank conflicts.
        wgmma: whether products may be made by warp groups, where the target has them.
        known: results for nodes and layouts, which hold for every variant of the kernel that the search tries.
    """

    tree: TileTree
    kernel: Kernel
    target: Any
    facts: Facts
    swizzle: bool
    wgmma: bool
    known: Memo = field(default_factory=Memo)

    def with_tree(self, tree: TileTree) -> Problem:
        """The problem of a rewritten kernel, most of whose nodes are the same."""
        return self if tree is self.tree else replace(self, tree=tree)

    @cached_property
    def threads_of(self) -> Mapping[Any, range]:
        """The threads that run each node, in program order."""
        return threads_of(self.tree, range(self.kernel.thread_count))

    @cached_property
    def has_groups(self) -> bool:
        """Whether some statements are those of a part of the threads."""
        return len(set(self.threads_of.values())) > 1

    @cached_property
    def homes(self) -> Mapping[Any, list[range]]:
        """The groups of threads that have a fragment of their own."""
        return homes_of(self.threads_of, self.tree.root_of)

    def sharers(self, node: Parallel) -> range:
        """The threads that a nest is shared out among: those that run it, or the group that alone holds what it uses."""
        threads = self.threads_of[node]
        if not self.has_groups:
            return threads
        # All threads may come to a nest that fills what the first group of them alone uses: its elements have to be in the
        # registers of that group, whose threads run all iterations, and the others none.
        buffers = {self.tree.root_of(access.buffer) for access in node.nest.accesses if self.is_fragment(access.buffer)}
        homes = [home for buffer in buffers for home in self.homes[buffer] if home.start == threads.start]
        return min(homes, key=len, default=threads)

    @cached_property
    def nests(self) -> list[Parallel]:
        """Nests, in program order."""
        return [node for node in self.threads_of if isinstance(node, Parallel)]

    @cached_property
    def operators(self) -> list[Operator]:
        """Tile operators that are no nests, in program order."""
        return [node for node in self.threads_of if isinstance(node, Operator)]

    @cached_property
    def single_accesses(self) -> Mapping[Any, tuple[Access, ...]]:
        """What statements outside of nests access of fragments: each of their threads does."""
        found = {}
        for node in self.threads_of:
            accesses = () if isinstance(node, Parallel) else tuple(a for a in node.accesses if is_fragment(a.buffer))
            if accesses:
                found[node] = accesses
        return found

    @cached_property
    def moved_in_bulk(self) -> list[TileDemand]:
        """The shared tiles that the tensor memory accelerator moves."""
        ops = [node.op for node in self.threads_of if isinstance(node, (Parallel, Operator)) and node.op is not None]
        return [tile for op in ops for tile in rule_of(op).moved_in_bulk(op, self)]

    @cached_property
    def uniformity(self) -> Uniformity:
        """What its threads agree on."""
        return Uniformity(self.tree, dict(self.kernel.threads))

    @cached_property
    def private(self) -> Mapping[Parallel, bool]:
        """The nests whose iterations every thread runs all, and whether their values differ between threads."""
        return self.uniformity.private_nests()

    @cached_property
    def aliased(self) -> set[Any]:
        """Buffers that share their memory with others."""
        return self.tree.aliased()

    @cached_property
    def views(self) -> Mapping[Any, list[Any]]:
        """The views of each allocation."""
        return by_buffer((self.tree.root_of(view), view) for view in self.tree.aliases)

    @cached_property
    def users(self) -> Mapping[Any, list[Parallel]]:
        """The nests that use each buffer."""
        return by_buffer((access.buffer, node) for node in self.nests for access in node.nest.accesses)

    @cached_property
    def operands(self) -> Mapping[Any, list[Operator]]:
        """The operators that each buffer is an operand of."""
        return by_buffer((region.buffer, node) for node in self.operators for region, _ in node.op.regions())

    @cached_property
    def exposed(self) -> set[Any]:
        """The buffers whose neighbours in a tile are taken for neighbours in memory, since their addresses are handed on."""
        return set().union(*(self.known(_exposed_by, node) for node in self.threads_of if isinstance(node, (Parallel, Scalar))))

    def is_fragment(self, buffer: Any) -> bool:
        """Whether a buffer is a fragment whose elements have a place each."""
        return is_fragment(buffer) and buffer not in self.tree.reducers


def _exposed_by(node: Parallel | Scalar) -> set[Any]:
    stmt = node.nest.body if isinstance(node, Parallel) else node.stmt
    found = {access.buffer for access in node.accesses if access.kind in (UPDATE, ADDRESS)}
    return found.union(*(given_to_calls(each) | taken_with_neighbours(each) for each in walk_statements(stmt)))
