"""New trees of old ones: buffers that stand for others, nodes that name them instead, statements that replace others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.target.cuda.tile.tree import Operator, Parallel, Sequence
from tilelang.transform.substitute import substitute


def buffer_like(buffer: Any, scope: str, suffix: str = "") -> Any:
    """A new buffer of the shape and type of another."""
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), f"{buffer.name}{suffix}", scope=scope, layout=None)


def renamed(node: Any, values: Mapping[Any, Any], keep_operators: bool = True) -> Any:
    """A node whose own expressions name other buffers (old -> new); the nodes inside it are left.

    ``keep_operators`` says whether a nest still says which operator it came from."""
    if isinstance(node, Operator):
        return Operator(_with_buffers(node.op, values), node.span)
    if isinstance(node, Parallel):
        nest = node.nest.renamed(values)
        return Parallel(nest, _with_buffers(node.op, values) if keep_operators and node.op is not None else None)
    return replace(node, stmt=substitute(node.stmt, values))


def renamed_inside(
    node: Any, values: Callable[[Any], Mapping[Any, Any]], renewed: dict[Any, Any], keep_operators: bool = True
) -> Any:
    """A node that names other buffers, as do the nodes inside it; itself where none of them names any.

    Args:
        values: gives the buffers that a node names -> those to take instead.
        renewed: receives each new node under the old one.
        keep_operators: as in :func:`renamed`.
    """
    # What was computed for a node is kept by the node (`Memo`): nodes that nothing changes must stay the same objects.
    new, own = node.with_parts(lambda part: renamed_inside(part, values, renewed, keep_operators)), values(node)
    if any(access.buffer in own for access in node.touched):
        new = renamed(new, own, keep_operators)
    return _noted(node, new, renewed)


def _with_buffers(op: Any, values: Mapping[Any, Any]) -> Any:
    operands = {field.name: getattr(op, field.name) for field in op.operand_fields()}
    named = {name: region for name, region in operands.items() if isinstance(region, Region) and region.buffer in values}
    return op.replace(**{name: Region(values[region.buffer], region.mins, region.extents) for name, region in named.items()})


def spliced(node: Any, values: Mapping[Any, list[Any]], renewed: dict[Any, Any]) -> Any:
    """The node with some of its statements replaced by others; the node itself if it contains none of them.

    ``renewed`` receives each rebuilt container under the old one."""
    new = node.with_parts(lambda part: part if part in values else spliced(part, values, renewed))
    if isinstance(node, Sequence) and not values.keys().isdisjoint(node.items):
        new = new.regrouped(values.get(item, [item]) for item in new.items)
    return _noted(node, new, renewed)


def _noted(node: Any, new: Any, renewed: dict[Any, Any]) -> Any:
    if new is not node:
        renewed[node] = new
    return new
