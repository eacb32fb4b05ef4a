"""Conditions on the thread's number around tile operators: ``if tx < 128: T.gemm(...)`` is work of those 128 threads.

A tile operator is shared out among the threads that run it. Below a condition that only some threads of the block meet these are
not all, so that such a branch becomes a :class:`~tilelang.target.cuda.tile.tree.ThreadGroup`. The condition is simply evaluated
for every thread.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import chain
from typing import Any

from tilelang.errors import DivergenceError
from tilelang.ir import nodes as ir
from tilelang.ir.span import location_of
from tilelang.target.cuda.analysis.groups import ThreadConditions
from tilelang.target.cuda.analysis.uniformity import is_store_of_all
from tilelang.target.cuda.analysis.waiting import takes_part
from tilelang.target.cuda.arch import in_one_warp, is_whole_warps
from tilelang.target.cuda.normalise.between_groups import with_groups_together
from tilelang.target.cuda.normalise.early_exit import branch_early_exits
from tilelang.target.cuda.normalise.group_copies import fill_group_copies, merge_copies
from tilelang.target.cuda.normalise.in_flight import complete_in_branches
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.nest import evaluated
from tilelang.target.cuda.tile.program import Kernel
from tilelang.target.cuda.tile.read import read_tree
from tilelang.target.cuda.tile.tree import (
    Branch,
    Operator,
    Parallel,
    Scalar,
    Sequence,
    ThreadGroup,
    TileTree,
    walk,
)


def kernel_tree(kernel: Kernel, target: Any, spread: Collection[Any] = ()) -> TileTree:
    """The tile tree of a kernel, in which groups of threads fill and change their own copies of fragments.

    Args:
        spread: fragments of which groups use elements that lie in other threads.

    Raises:
        CompileError: the threads of a tile operator are no neighbours, or no whole warps where it needs them.
    """
    tree, block = complete_in_branches(grouped_tree(kernel, target)), range(kernel.thread_count)
    groups = any(isinstance(node, ThreadGroup) and node.threads is not None for node in walk(tree.root))
    return fill_group_copies(merge_copies(tree, block, spread), block) if groups else tree


def grouped_tree(kernel: Kernel, target: Any) -> TileTree:
    """The tile tree of a kernel: exits of some threads are branches of the others, and branches of threads are groups of them.

    Raises:
        CompileError: the threads of a tile operator are no neighbours, or no whole warps where it needs them.
    """
    tree = branch_early_exits(read_tree(kernel.body, kernel.thread_count, target, kernel.gathers), dict(kernel.threads))
    return replace(tree, root=_Splitter(kernel, tree).sequence(tree.root, range(kernel.thread_count)))


class _Splitter:
    """Walks a tree with the threads that run each part of it."""

    def __init__(self, kernel: Kernel, tree: TileTree):
        bindings = (node.stmt for node in walk(tree.root) if isinstance(node, Scalar) and isinstance(node.stmt, ir.Bind))
        self.conditions = ThreadConditions(kernel.threads, {stmt.var: stmt.value for stmt in bindings})

    # The tree ----------------------------------------------------------------------------------------------------------

    def sequence(self, sequence: Sequence, threads: range) -> Sequence:
        groups = [self.node(node, threads) for node in sequence.items]
        # The statements of a pipelined loop keep their places.
        return sequence.regrouped(groups if sequence.origins else [with_groups_together(chain(*groups))])

    def node(self, node: Any, threads: range) -> list[Any]:
        """What a node becomes."""
        if isinstance(node, Branch):
            return self.branch(node, threads)
        return [node.with_parts(lambda part: self.sequence(part, node.runners(threads)))]

    def branch(self, node: Branch, threads: range) -> list[Any]:
        """The groups that a branch becomes; the branch itself where its condition or its contents do not ask for any."""
        members = rest = None
        # Which threads a group has is known only after it is made: those of some stores are together within one warp.
        together = any(_is_shared_out(inner) or is_store_of_all(inner, threads[:1]) for inner in walk(node))
        # The two sides of a branch run concurrently, and no barrier of all threads may stand in one if the other waits for it.
        if together or (node.otherwise is not None and takes_part(node)):
            members, rest = self.conditions.members(node.stmt.condition, threads)
        if members is None or (rest is not None and node.otherwise is not None):
            otherwise = None if node.otherwise is None else self.sequence(node.otherwise, threads)
            return [Branch(node.stmt, self.sequence(node.then, threads), otherwise)]
        condition = node.stmt.condition
        made = self.side(_one_sided(node, condition, node.then), rest, members, threads)
        if node.otherwise is not None:
            made += self.side(_one_sided(node, ir.Not(condition), node.otherwise), None, [not each for each in members], threads)
        return made

    def is_run_by_each(self, node: Any) -> bool:
        """Whether each thread runs all iterations of a nest, because it names the thread."""
        return isinstance(node, Parallel) and any(map(self.conditions.names_thread, evaluated(node.nest.body)))

    def side(self, node: Branch, rest: Any, members: list[bool], threads: range) -> list[Any]:
        """The statements of one side of a branch, itself a branch, as work of the threads that take it.

        Of the ``threads`` that come to it ``members`` meet the part of its condition that is about threads; ``rest`` is the
        other part."""
        chosen = [thread for thread, takes in zip(threads, members) if takes]
        if not chosen or not node.then.items:
            return []
        taken = range(chosen[0], chosen[-1] + 1)
        has_gaps = len(chosen) < len(taken)
        if has_gaps and rest is None and _are_groups(groups := self.sequence(node.then, threads).items, chosen):
            return groups
        shared = [*filter(_is_shared_out, walk(node.then))]
        reason = _refused(shared, taken, has_gaps)
        if reason is not None and not all(map(self.is_run_by_each, shared)):
            raise reason.at(location_of(node.stmt.span))
        # A group is a range of threads that can wait for each other; without tile operators the branch does as well.
        waits = len(taken) > 1 and (is_whole_warps(taken) or in_one_warp(taken))
        if has_gaps or reason is not None or not (waits or shared):
            return [Branch(node.stmt, self.sequence(node.then, threads), None)]
        body = self.sequence(node.then if rest is None else Sequence([_one_sided(node, rest, node.then)]), taken)
        if _are_groups(body.items, taken):
            return body.items
        if len(taken) < len(threads):
            return [ThreadGroup(node.stmt, body, taken, by_thread=True)]
        # All threads take this side: only statements that each thread runs for itself have to know that they are below a
        # condition.
        own = any(isinstance(inner, Scalar) for inner in walk(body))
        return [ThreadGroup(node.stmt, body, by_thread=True)] if own else body.items


def _are_groups(nodes: list[Any], threads: Collection[int]) -> bool:
    """Whether nodes are groups of some of the threads each, so that no other condition need be around them."""
    return all(isinstance(node, ThreadGroup) and node.threads and {*threads}.issuperset(node.threads) for node in nodes)


def _one_sided(node: Branch, condition: Any, body: Sequence) -> Branch:
    """A branch with one side, at the place of ``node``."""
    return Branch(ir.IfThenElse(condition, node.stmt.then_case, None, node.stmt.span), body, None)


def _is_shared_out(node: Any) -> bool:
    """Whether the threads that run a node share its work."""
    return isinstance(node, Parallel) or (isinstance(node, Operator) and rule_of(node.op).cooperative)


def _refused(shared: list[Any], taken: range, has_gaps: bool) -> DivergenceError | None:
    """Why threads cannot share out the work of some nodes; None where they can."""
    if not shared:
        return None
    if has_gaps:
        return DivergenceError(
            "a tile operator below a condition that only some threads between others meet",
            hint="give neighbouring threads a branch each (T.ws(0), then T.ws(2)), or use a loop of each thread's own",
        )
    in_warps = any(isinstance(each, Operator) and rule_of(each.op).in_warps for each in shared)
    if is_whole_warps(taken) or (in_one_warp(taken) and not in_warps):
        return None
    return DivergenceError(
        f"a tile operator below a condition that threads {taken[0]} to {taken[-1]} meet", hint="give it whole warps of 32 threads"
    )
