"""How shared tiles lie in memory: as the user says, as the units that read and write them want, else row by row.

Who asks for no more than a swizzle (``make_swizzled_layout``) wants no bank conflicts: units with their own swizzle go first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.region import Region
from tilelang.layout import make_swizzled_layout, row_major
from tilelang.target.cuda.hopper.tma import is_candidate, natural_layout
from tilelang.target.cuda.hopper.wgmma_layout import panel_bytes_of
from tilelang.target.cuda.inference.products import Product, shared_operand_layouts
from tilelang.target.cuda.tile.tree import Operator, Parallel, TileTree
from tilelang.tileop.copy import Copy

_PRODUCT_TILE = 64
"""Elements; the instructions of a warp group read operands from multiples of this."""


def is_panels(layout: Any, buffer: Any) -> bool:
    """Whether a layout is one that warp group products and the tensor memory accelerator address."""
    return layout is not None and panel_bytes_of(layout, canonical(str(buffer.dtype)).bits) is not None


def allows_panels(op: Any, chosen: Mapping[Any, Any], viewed: set[Any], facts: Facts) -> bool:
    """Whether nothing keeps the shared operands of a product from lying as warp group instructions want them.

    Args:
        chosen: layouts that the user fixed.
        viewed: buffers that share their memory with others.
    """
    for region in (op.a, op.b):
        buffer = region.buffer
        if not region.scope.startswith("shared"):
            continue
        if buffer in viewed or (buffer in chosen and not is_panels(chosen[buffer], buffer)):
            return False
        if not all(facts.divisible(low, _PRODUCT_TILE) for low in region.mins[-2:]):
            return False
    return True


def choose_shared(
    tree: TileTree,
    chosen: Mapping[Any, Any],
    wished: Mapping[Any, Any],
    products: Mapping[Operator, Product],
    nests: Iterable[Parallel],
    bulk: Iterable[Region],
    swizzle: bool,
) -> dict[Any, Any]:
    """The layout of every shared tile.

    Args:
        chosen: layouts that the user fixed.
        wished: swizzles that the user asks for.
        bulk: shared tiles that the tensor memory accelerator moves.
        swizzle: whether tiles may be swizzled against bank conflicts.
    """
    demanded = shared_operand_layouts(products) if swizzle else {}
    # The tensor memory accelerator writes panels only; those that a warp group product demands may be narrower.
    panels = {
        region.buffer: natural_layout(region) for region in bulk if not is_panels(demanded.get(region.buffer), region.buffer)
    }
    near = _near_accumulators(products, nests) if swizzle else {}
    viewed, found = tree.viewed(), dict(chosen)
    for buffer in [*tree.allocations, *tree.aliases]:
        if buffer.scope() in ("shared", "shared.dyn") and buffer not in found:
            plain = row_major([as_int(extent) for extent in buffer.shape])
            wanted = panels.get(buffer) or demanded.get(buffer) or wished.get(buffer) or near.get(buffer) or plain
            found[buffer] = plain if buffer in viewed else wanted
    return found


def _near_accumulators(products: Mapping[Operator, Product], nests: Iterable[Parallel]) -> dict[Any, Any]:
    """Tiles that are exchanged with accumulators, whose rows lie in different threads."""
    accumulators = {node.op.c.buffer for node in products}
    near: dict[Any, Any] = {}
    for node in nests:
        buffers = {access.buffer for access in node.nest.accesses}
        if buffers & accumulators:
            near.update((buffer, make_swizzled_layout(buffer)) for buffer in buffers if buffer.scope().startswith("shared"))
    return near


def moved_in_bulk(node: Parallel | Operator, hopper: bool, facts: Facts) -> list[Region]:
    """The shared tiles that the tensor memory accelerator moves in a copy."""
    op = node.op
    if not isinstance(op, Copy):
        return []
    if isinstance(node, Operator):
        return [region for region in (op.src, op.dst) if region.scope.startswith("shared")]
    stored = hopper and op.src.scope.startswith("shared") and is_candidate(op.src, op.dst, facts)
    return [op.src] if stored else []
