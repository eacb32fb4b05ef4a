"""``convert_layout``: a fragment's elements brought to the threads and registers of another layout.

Each is carried out in the cheapest way that its two layouts allow: by moves between registers where every thread already holds
what it needs; by shuffles where a lane of its warp does (:mod:`tilelang.target.cuda.inference.warp_shuffle`); by way of a tile in
shared memory. The operator stays in the tree where shuffles are the way, and becomes copies where they are not. One that gives
the same in every iteration of a loop stands before the loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field, replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.memory import SHARED
from tilelang.ir.region import Region
from tilelang.layout.fragment import FragmentLayout
from tilelang.records import Record
from tilelang.target.cuda.analysis.uniformity import is_return
from tilelang.target.cuda.arch import is_whole_warps
from tilelang.target.cuda.inference.cost import BARRIER, nest_cost
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.inference.loop_layout import LoopLayout, register_form, whole_loop
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.sections import family_of, is_ever_in_flight, is_written, touched_outside, touches
from tilelang.target.cuda.inference.shared_layouts import choices_of_layout
from tilelang.target.cuda.inference.warp_shuffle import warp_shuffle
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.tile.convert_layout import ConvertLayout
from tilelang.target.cuda.tile.read import copy_between
from tilelang.target.cuda.tile.rename import spliced
from tilelang.target.cuda.tile.tree import Loop, Operator, Parallel, Scalar, TileTree, is_certainly_run, walk


def carried_out(problem: Problem, layouts: Layouts) -> tuple[TileTree, Layouts, dict[Any, list[Parallel]]]:
    """The kernel with its conversions as copies.

    Returns:
        The tree, the layouts with those of the copies, and what each conversion became: itself, one copy, or two through shared
        memory.
    """
    found = [node for node in problem.operators if isinstance(node.op, ConvertLayout)]
    if not found:
        return problem.tree, layouts, {}
    fragments = layouts.fragments
    ways = {
        node: problem.known(_way, node, fragments[node.op.src.buffer], fragments[node.op.dst.buffer], problem=problem)
        for node in found
    }
    tiles = {tile: layout for way in ways.values() for tile, layout in way.tiles.items()}
    copies = {copy: loop for way in ways.values() for copy, loop in way.copies.items()}
    # A way without copies is by shuffles, for which the operator itself stays and is lowered later.
    values = {node: list(way.copies) or [node] for node, way in ways.items()}
    root = spliced(_hoisted(problem.tree, found).root, values, {})
    tree = replace(problem.tree, root=root, allocations={**problem.tree.allocations, **dict.fromkeys(tiles, {})})
    memory, loops = {**layouts.memory, **tiles}, {**layouts.loops, **copies}
    new = replace(layouts, memory=memory, loops=loops, threads_of=problem.with_tree(tree).threads_of)
    return tree, new, values


class _Way(Record, eq=False):
    """How a conversion is carried out.

    Attributes:
        copies: in order, with how each is distributed; none where lanes exchange the elements.
        tiles: the shared tile that it needs, with its layout.
    """

    copies: Mapping[Parallel, LoopLayout]
    tiles: Mapping[Any, Any] = field(default_factory=dict)


def _way(node: Operator, source: FragmentLayout, target: FragmentLayout, *, problem: Problem) -> _Way:
    """The cheapest way from one layout to another."""
    op = node.op
    direct = copy_between(op.src, op.dst, node.span)
    loaded, stored = direct.nest.accesses
    loop = whole_loop(direct.nest.axes, stored.site.indices, target)
    # Every thread already holds what it is to have: a copy between its own registers suffices.
    if register_form(loaded.site.indices, source, loop) is not None:
        return _Way({direct: loop})
    shape, name = list(op.src.buffer.shape), f"{op.dst.buffer.name}_scratch"
    tile = ir.decl_buffer(shape, op.src.dtype, name, scope=SHARED, layout=None)
    fill = copy_between(op.src, Region.whole(tile), node.span)
    drain = copy_between(Region.whole(tile), op.dst, node.span)
    # Each half is distributed as its own fragment is, so that threads meet in the scratch tile only.
    filling = whole_loop(fill.nest.axes, fill.nest.accesses[0].site.indices, source)
    draining = whole_loop(drain.nest.axes, drain.nest.accesses[1].site.indices, target)

    def passes(layout: Any) -> float:
        return nest_cost(fill.nest, filling, (source, layout), problem=problem) + nest_cost(
            drain.nest, draining, (layout, target), problem=problem
        )

    # The scratch tile is written as the source lies and read as the target lies; only together can they choose its swizzle.
    layout = min(choices_of_layout(tile, problem), key=passes)
    # A lane's value can only be read where that lane runs the shuffle as well, and an element needs bytes of its own.
    in_lanes = is_whole_warps(problem.threads_of[node]) and not is_packed(op.src.dtype)
    by_lanes, by_memory = warp_shuffle(source, target) if in_lanes else None, passes(layout) + 2 * BARRIER
    if by_lanes is not None and by_lanes.cost < by_memory:
        return _Way({})
    return _Way({fill: filling, drain: draining}, {tile: layout})


# Loop-invariant conversions --------------------------------------------------------------------------------------------


def _hoisted(tree: TileTree, conversions: Iterable[Operator]) -> TileTree:
    """The kernel with each conversion before the loops that neither write its source nor anything else to its destination."""
    for node in conversions:
        loop = _loop_around(tree, node)
        # One loop at a time, outwards: what the inner loop leaves alone the outer one may still change.
        while loop is not None and _is_invariant(tree, node, loop):
            renewed: dict[Any, Any] = {}
            root = spliced(tree.root, {node: []}, renewed)
            without = renewed[loop]
            tree = replace(tree, root=spliced(root, {without: [node, without]}, {}))
            loop = _loop_around(tree, node)
    return tree


def _loop_around(tree: TileTree, node: Operator) -> Loop | None:
    """The loop whose body has a node as one of its statements."""
    loop = next(iter(tree.around[node][-2:-1]), None)  # the innermost is the body, a sequence
    return loop if isinstance(loop, Loop) else None


def _is_invariant(tree: TileTree, node: Operator, loop: Loop) -> bool:
    """Whether a conversion may be made once, before the loop: all iterations then find what they found after it."""
    items = loop.body.items
    place = next(place for place, item in enumerate(items) if item is node)
    source, target = (set(family_of(tree, region.buffer)) for region in (node.op.src, node.op.dst))
    # The wait for what is in flight may stand in the loop.
    if is_ever_in_flight(tree, source | target):
        return False
    rest = [*items[:place], *items[place + 1 :]]
    # Before the loop, the conversion would show the new values to earlier statements of the first iteration, too, and would
    # happen even where a jump skips it.
    if is_written(rest, source | target) or any(touches(item, target) or _may_leave(item) for item in items[:place]):
        return False
    # Where the loop may run no iteration, the target keeps its old values, which nothing outside may then read.
    return is_certainly_run(loop.stmt.extent) or not touched_outside(tree, set(walk(loop)), target)


def _may_leave(item: Any) -> bool:
    """Whether a statement, or one inside it, may end the iteration."""
    scalars = (inner for inner in walk(item) if isinstance(inner, Scalar))
    return any(isinstance(inner.stmt, (ir.Break, ir.Continue)) or is_return(inner) for inner in scalars)
