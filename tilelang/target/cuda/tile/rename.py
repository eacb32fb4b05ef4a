"""Buffers that stand for others, and nodes of the tile tree that name them instead."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.target.cuda.tile.tree import Branch, Operator, Parallel, Repeat, Scalar
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
