"""How shared tiles lie in memory: as the user says, as the hardware that reads and writes them wants, else row by row.

Requests are met in this order: panels that the tensor memory accelerator writes; layouts that operators demand; a swizzle that
the user asks for without saying which (``make_swizzled_layout``); a swizzle for tiles that nests access by columns, as a
transpose does. A tile without a request gets the layout under which its nests cost least.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_shared
from tilelang.ir.visit import mentions
from tilelang.layout import make_swizzled_layout, row_major
from tilelang.layout.panels import panel_bytes_of
from tilelang.layout.swizzle import word_swizzled
from tilelang.target.cuda.inference.problem import Problem
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.operators import TileDemand, rule_of
from tilelang.target.cuda.tile.nest import Nest
from tilelang.target.cuda.tile.tree import Operator


def is_panels(layout: Any, buffer: Any) -> bool:
    """Whether a layout is one that warp group products and the tensor memory accelerator address."""
    return layout is not None and panel_bytes_of(layout, canonical(str(buffer.dtype)).stored_bits) is not None


def choose_shared(
    problem: Problem, fixed: Mapping[Any, Any], plans: Mapping[Operator, Any], requested: Mapping[Any, Any]
) -> tuple[dict[Any, Any], list[Any]]:
    """The layout of every shared tile, and the tiles for which no statement asks for one.

    The user has fixed some layouts, and asked for (``requested``) a swizzle of some tiles, whichever it is."""
    tree = problem.tree
    demanded = _demanded(plans) if problem.swizzle else {}
    crossed = _read_across(problem) if problem.swizzle else {}
    # The tensor memory accelerator writes panels only; those that an operator demands may be narrower.
    moved = (tile for tile in problem.moved_in_bulk if not is_panels(demanded.get(tile.buffer), tile.buffer))
    panels = {tile.buffer: tile.layout for tile in moved}
    found, unclaimed = dict(fixed), []
    for buffer in [*tree.allocations, *tree.aliases]:
        if is_shared(buffer) and buffer not in found:
            rows = row_major([as_int(extent) for extent in buffer.shape])
            choices = (panels, demanded, requested, crossed)
            wanted = next((choice[buffer] for choice in choices if buffer in choice), None)
            # Views of other shapes must find the same bytes, which only row-major order gives.
            found[buffer] = rows if wanted is None or buffer in problem.aliased else wanted
            unclaimed += [buffer] if wanted is None and buffer not in problem.aliased else []
    return found, unclaimed


def choices_of_layout(buffer: Any, problem: Problem) -> list[Any]:
    """How a tile may lie for which no statement asks for a layout: by rows, or with chunks or words of its rows swizzled."""
    shape = [as_int(extent) for extent in buffer.shape]
    if len(shape) < 2 or buffer in problem.exposed or not problem.swizzle:
        return [row_major(shape)]
    return [row_major(shape), make_swizzled_layout(buffer), word_swizzled(shape, canonical(str(buffer.dtype)).stored_bits)]


def _demanded(plans: Mapping[Operator, Any]) -> dict[Any, Any]:
    """The layouts that operators demand of their shared operands."""
    demands: Iterable[TileDemand] = (tile for node, plan in plans.items() for tile in rule_of(node.op).tiles(node.op, plan))
    found: dict[Any, TileDemand] = {}
    for tile in demands:
        if tile.buffer not in found or tile.rank < found[tile.buffer].rank:
            found[tile.buffer] = tile
    return {buffer: tile.layout for buffer, tile in found.items()}


def _read_across(problem: Problem) -> dict[Any, Any]:
    """Tiles that neighbouring iterations of a nest access by columns, and of which no statement takes neighbours."""
    accesses = ((access, node.nest) for node in problem.nests for access in node.nest.accesses)
    buffers = {access.buffer for access, nest in accesses if is_shared(access.buffer) and _is_column(access, nest)}
    return {
        buffer: word_swizzled([as_int(extent) for extent in buffer.shape], canonical(str(buffer.dtype)).stored_bits)
        for buffer in buffers - problem.exposed
    }


def _is_column(access: Access, nest: Nest) -> bool:
    """Whether the innermost axis of a nest moves the row of an access, and not the place in it."""
    inner = [axis.var for axis in nest.axes if axis.extent != 1][-1:]
    indices = access.site.indices
    return len(indices) > 1 and mentions(indices[-2], inner) and not mentions(indices[-1], inner)
