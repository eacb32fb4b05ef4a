"""New trees of old ones: buffers that stand for others, nodes that name them instead, statements that replace others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.target.cuda.tile.tree import Loop, Operator, Parallel, Sequence, walk
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
    if not any(access.buffer in values(inner) for inner in walk(node) for access in inner.touched):
        return node
    new = node.with_parts(lambda part: renamed_inside(part, values, renewed, keep_operators))
    own = values(node)
    renewed[node] = renamed(new, own, keep_operators) if any(access.buffer in own for access in node.touched) else new
    return renewed[node]


def _with_buffers(op: Any, values: Mapping[Any, Any]) -> Any:
    operands = {field.name: getattr(op, field.name) for field in op.operand_fields()}
    named = {name: region for name, region in operands.items() if isinstance(region, Region) and region.buffer in values}
    return op.replace(**{name: Region(values[region.buffer], region.mins, region.extents) for name, region in named.items()})


def spliced(node: Any, values: Mapping[Any, list[Any]], renewed: dict[Any, Any]) -> Any:
    """The node with some of its statements replaced by others; the node itself if it contains none of them.

    ``renewed`` receives each rebuilt container under the old one."""
    if not any(inner in values for inner in walk(node)):
        return node
    if isinstance(node, Sequence):
        new: Any = Sequence([item for group in _spliced_groups(node, values, renewed) for item in group])
    elif isinstance(node, Loop):
        groups = _spliced_groups(node.body, values, renewed)
        new = node.regrouped(groups)
        renewed[node.body] = new.body
    else:
        new = node.with_parts(lambda child: spliced(child, values, renewed))
    renewed[node] = new
    return new


def _spliced_groups(sequence: Sequence, values: Mapping[Any, list[Any]], renewed: dict[Any, Any]) -> list[list[Any]]:
    return [values[item] if item in values else [spliced(item, values, renewed)] for item in sequence.items]
