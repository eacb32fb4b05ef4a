"""New trees of old ones: buffers that stand for others, nodes that name them instead, statements that replace others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Repeat, Scalar, Sequence, walk
from tilelang.transform.substitute import substitute


def buffer_like(buffer: Any, scope: str, suffix: str = "") -> Any:
    """A new buffer of the shape and type of another."""
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), f"{buffer.name}{suffix}", scope=scope, layout=None)


def renamed(node: Any, values: Mapping[Any, Any], keep_operators: bool = True) -> Any:
    """A node whose own expressions name other buffers; the nodes inside it are left.

    Args:
        values: the buffers -> those to take instead.
        keep_operators: whether a nest still says which operator it came from.
    """
    if isinstance(node, Operator):
        return Operator(_with_buffers(node.op, values), node.span)
    if isinstance(node, Parallel):
        nest = node.nest.renamed(values)
        return Parallel(nest, _with_buffers(node.op, values) if keep_operators and node.op is not None else None)
    return Scalar(substitute(node.stmt, values)) if isinstance(node, Scalar) else _with_head(node, values)


def _with_head(node: Any, values: Mapping[Any, Any]) -> Any:
    """A branch or loop whose condition or bounds name other buffers."""
    stmt = node.stmt
    if isinstance(node, Branch):
        condition = substitute(stmt.condition, values)
        return replace(node, stmt=ir.IfThenElse(condition, stmt.then_case, stmt.else_case, stmt.span))
    if isinstance(node, Repeat):
        return replace(node, stmt=ir.While(substitute(stmt.condition, values), stmt.body, stmt.span))
    low, extent = substitute(stmt.min, values), substitute(stmt.extent, values)
    head = ir.For(stmt.loop_var, low, extent, stmt.kind, stmt.body, annotations=stmt.annotations, step=stmt.step, span=stmt.span)
    return replace(node, stmt=head)


def _with_buffers(op: Any, values: Mapping[Any, Any]) -> Any:
    fields = {field.name: getattr(op, field.name) for field in op.operand_fields()}
    return op.replace(
        **{
            name: Region(values[region.buffer], region.mins, region.extents)
            for name, region in fields.items()
            if isinstance(region, Region) and region.buffer in values
        }
    )


def spliced(node: Any, values: Mapping[Any, list[Any]], renewed: dict[Any, Any]) -> Any:
    """The node with some of its statements replaced; the node itself if it contains none of them.

    Args:
        values: statement -> the statements that replace it.
        renewed: receives each rebuilt container under the old one.
    """
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
