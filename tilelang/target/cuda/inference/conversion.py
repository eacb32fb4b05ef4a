"""``convert_layout``: a fragment's elements brought to the threads and registers of another layout.

The operator exists during layout inference only. Each is carried out in the cheapest way that its two layouts allow: by moves
between registers where every thread already holds what it needs, else by way of a tile in shared memory.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.layout import make_swizzled_layout, row_major
from tilelang.target.cuda.inference.cost import bank_passes
from tilelang.target.cuda.inference.layouts import Layouts
from tilelang.target.cuda.inference.loop_layout import LoopLayout, loop_from_fragment, register_form
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.inference.sections import SHARED, ConvertLayout, spliced
from tilelang.target.cuda.tile.nest import Access
from tilelang.target.cuda.tile.tree import Operator, Parallel, TileTree, copy_between


def carried_out(problem: Problem, layouts: Layouts) -> tuple[TileTree, Layouts, dict[Any, list[Parallel]]]:
    """The kernel with its conversions as copies.

    Returns:
        The tree, the layouts with those of the copies, and what each conversion became: one copy, or two through shared memory.
    """
    found = [node for node in problem.operators if isinstance(node.op, ConvertLayout)]
    if not found:
        return problem.tree, layouts, {}
    tiles: dict[Any, Any] = {}
    loops: dict[Any, LoopLayout] = {}
    values = {node: _copies(node, layouts, problem.threads_of[node].count, tiles, loops) for node in found}
    root = spliced(problem.tree.root, values, {})
    tree = replace(problem.tree, root=root, allocations={**problem.tree.allocations, **dict.fromkeys(tiles, {})})
    memory, loops = {**layouts.memory, **tiles}, {**layouts.loops, **loops}
    new = replace(layouts, memory=memory, loops=loops, threads_of=problem.with_tree(tree).threads_of)
    return tree, new, values


def _copies(
    node: Operator, layouts: Layouts, threads: int, tiles: dict[Any, Any], loops: dict[Any, LoopLayout]
) -> list[Parallel]:
    """The copies that a conversion is; adds the shared tile, if there is one, and how the copies are distributed."""
    op = node.op
    source, target = layouts.fragments[op.src.buffer], layouts.fragments[op.dst.buffer]
    direct = copy_between(op.src, op.dst, node.span)
    loaded, stored = direct.nest.accesses
    loop = loop_from_fragment(direct.nest, stored, target, threads)
    if register_form(loaded.indices, source, loop) is not None:
        loops[direct] = loop
        return [direct]
    shape, name = list(op.src.buffer.shape), f"{op.dst.buffer.name}_scratch"
    tile = ir.decl_buffer(shape, op.src.dtype, name, scope=SHARED, layout=None)
    fill = copy_between(op.src, Region.whole(tile), node.span)
    drain = copy_between(Region.whole(tile), op.dst, node.span)
    loops[fill] = loop_from_fragment(fill.nest, fill.nest.accesses[0], source, threads)
    loops[drain] = loop_from_fragment(drain.nest, drain.nest.accesses[1], target, threads)
    tiles[tile] = _tile_layout(tile, [(fill.nest.accesses[1], loops[fill]), (drain.nest.accesses[0], loops[drain])])
    return [fill, drain]


def _tile_layout(tile: Any, uses: list[tuple[Access, LoopLayout]]) -> Any:
    """Row by row or swizzled: the layout with fewer bank conflicts."""
    choices = [row_major([as_int(extent) for extent in tile.shape]), make_swizzled_layout(tile)]
    return min(choices, key=lambda layout: sum(bank_passes(access, loop, layout, 1) for access, loop in uses))
