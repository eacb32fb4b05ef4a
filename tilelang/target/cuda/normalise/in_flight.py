"""A product that is in flight where a branch ends is complete at its end instead.

    with T.ws(0): T.wgmma_gemm(A, B, acc)            with T.ws(0): T.gemm(A, B, acc)
    T.sync_threads()                          ->     T.sync_threads()
    T.wait_wgmma(0)                                  T.wait_wgmma(0)

Behind the branch its accumulators are those that it has left or those from before it: device compilers move them to other
registers there, and what groups have changed is copied, before the program waits. A product that a branch starts overlaps with
nothing anyway: ptxas serialises it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from tilelang.target.cuda.analysis.waiting import awaits_all, may_be_at_once
from tilelang.target.cuda.operators import rule_of
from tilelang.target.cuda.tile.rename import spliced
from tilelang.target.cuda.tile.tree import Branch, Operator, Sequence, ThreadGroup, TileTree, walk


def complete_in_branches(tree: TileTree) -> TileTree:
    """The tree in which no branch leaves in flight what it starts, as far as that can be complete at its end."""
    if not any(map(may_be_at_once, walk(tree.root))):
        return tree
    branches = (node for node in walk(tree.root) if _is_branch(node))
    left = {node for branch in branches for side in branch.inside for node in _left_in_flight(side)}
    values = {node: [Operator(op, node.span) for op in rule_of(node.op).at_once(node.op)] for node in left}
    return replace(tree, root=spliced(tree.root, values, {})) if left else tree


def _is_branch(node: Any) -> bool:
    return isinstance(node, Branch) or (isinstance(node, ThreadGroup) and node.threads is not None)


def _left_in_flight(side: Sequence) -> list[Any]:
    """What statements leave in flight, those of branches aside."""
    found: list[Any] = []
    for node in _in_order(side):
        if awaits_all(node):
            found = []
        elif may_be_at_once(node):
            found.append(node)
    return found


def _in_order(sequence: Sequence) -> Iterator[Any]:
    """Statements in order, those of loops once; of branches none."""
    for node in sequence.items:
        if not _is_branch(node):
            yield node
            for part in node.inside:
                yield from _in_order(part)
