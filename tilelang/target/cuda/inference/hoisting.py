"""Loop-invariant conversions: one that gives the same in every iteration of a loop stands before the loop."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.target.cuda.analysis.uniformity import is_return
from tilelang.target.cuda.inference.sections import family_of, is_certainly_run, is_written, spliced, touches
from tilelang.target.cuda.tile.tree import Loop, Operator, Scalar, TileTree, touched_by, walk


def hoisted(tree: TileTree, conversions: Iterable[Operator]) -> TileTree:
    """The kernel with each conversion before the loops that neither write its source nor anything else to its destination."""
    for node in conversions:
        loop = _loop_around(tree, node)
        while loop is not None and _is_invariant(tree, node, loop):
            renewed: dict[Any, Any] = {}
            root = spliced(tree.root, {node: []}, renewed)
            without = renewed[loop]
            tree = replace(tree, root=spliced(root, {without: [node, without]}, {}))
            loop = _loop_around(tree, node)
    return tree


def _loop_around(tree: TileTree, node: Operator) -> Loop | None:
    """The loop whose body has a node as one of its statements."""
    loops = (loop for loop in walk(tree.root) if isinstance(loop, Loop))
    return next((loop for loop in loops if any(item is node for item in loop.body.items)), None)


def _is_invariant(tree: TileTree, node: Operator, loop: Loop) -> bool:
    """Whether a conversion may be made once, before the loop: all iterations then find what they found after it."""
    items = loop.body.items
    place = next(place for place, item in enumerate(items) if item is node)
    source, target = (set(family_of(tree, region.buffer)) for region in (node.op.src, node.op.dst))
    rest = [*items[:place], *items[place + 1 :]]
    if is_written(rest, source | target) or any(touches(item, target) or _may_leave(item) for item in items[:place]):
        return False
    return is_certainly_run(loop.stmt.extent) or not _is_used_outside(tree, loop, target)


def _may_leave(item: Any) -> bool:
    """Whether a statement, or one inside it, may end the iteration."""
    scalars = (inner for inner in walk(item) if isinstance(inner, Scalar))
    return any(isinstance(inner.stmt, (ir.Break, ir.Continue)) or is_return(inner) for inner in scalars)


def _is_used_outside(tree: TileTree, loop: Loop, family: set[Any]) -> bool:
    within = set(walk(loop))
    return any(access.buffer in family for node in walk(tree.root) if node not in within for access in touched_by(node))
