"""Local memory that one iteration of a nest uses for itself: nothing that it has not stored is read from it."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.target.cuda.ir.access import READ
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Repeat, Scalar, TileTree, accesses_of, walk
from tilelang.transform.first_use import FirstUse, Memory

ARRAY = "local"
SCALAR = "local.var"


def scratch_of(tree: TileTree, *scopes: str) -> set[Any]:
    """Local memory of some scopes of which nests read only what the same iteration has stored, and nothing else reads any."""
    found = {buffer for buffer in tree.allocations if buffer.scope() in scopes}
    if not found:
        return found
    found -= {tree.root_of(view) for view in tree.aliases}
    for node in walk(tree.root):
        if isinstance(node, Parallel):
            named = found.intersection(access.buffer for access in node.nest.accesses)
            found -= {buffer for buffer in named if FirstUse(Memory(buffer), node.nest.body).read}
        elif isinstance(node, (Scalar, Operator, Branch, Loop, Repeat)):
            found -= read_by(node)
    return found


def read_by(node: Any) -> set[Any]:
    """Buffers that a node outside of nests may read."""
    if isinstance(node, Operator):
        return operands(node)
    if isinstance(node, Scalar) and isinstance(node.stmt, ir.BufferStore):
        return {access.buffer for access in accesses_of(node) if access.kind == READ}
    return {part for expr in statement_exprs(node.stmt) for part in walk_expr(expr) if isinstance(part, ir.Var)}


def operands(node: Operator) -> set[Any]:
    """The buffers that an operator works on."""
    return {region.buffer for region, _ in node.op.regions()} if hasattr(node.op, "regions") else set()
