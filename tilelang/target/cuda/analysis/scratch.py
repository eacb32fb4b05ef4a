"""Local memory that one iteration of a nest uses for itself: nothing that it has not stored is read from it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import statement_exprs, walk_expr
from tilelang.target.cuda.ir.access import READ, WRITE
from tilelang.target.cuda.tile.nest import Nest, stores
from tilelang.target.cuda.tile.tree import Branch, Loop, Operator, Parallel, Repeat, Scalar, TileTree, accesses_of, walk

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
            unknown = {access.buffer for access in node.nest.accesses if not _stored_before(node.nest, access)}
            found -= unknown - set(_filled_whole(node.nest))
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


def _stored_before(nest: Nest, access: Any) -> bool:
    """Whether an access is no read, or reads what the iteration has stored."""
    if access.kind != READ:
        return True
    stores = [a for a in nest.accesses if a.buffer is access.buffer or a.buffer.same_as(access.buffer)]
    return any(
        earlier.kind != READ and earlier.step < access.step and (earlier.inner and access.inner or _alike(earlier, access))
        for earlier in stores
    )


def _filled_whole(nest: Nest) -> Iterator[Any]:
    """Arrays whose first use in an iteration is a loop that stores all their elements."""
    first: dict[Any, tuple[Any, list[str]]] = {}
    for stmt in stores(nest.body):
        kinds: dict[Any, list[str]] = {}
        for access in Nest.build(nest.axes, stmt, nest.span, nest.origin).accesses:
            kinds.setdefault(access.buffer, []).append(access.kind)
        for buffer, found in kinds.items():
            first.setdefault(buffer, (stmt, found))
    return (buffer for buffer, (stmt, found) in first.items() if set(found) == {WRITE} and _stores_all(stmt, buffer))


def _stores_all(stmt: Any, buffer: Any) -> bool:
    extents: dict[Any, Any] = {}
    while isinstance(stmt, ir.For) and as_int(stmt.min) == 0 and stmt.step is None:
        extents[stmt.loop_var] = as_int(stmt.extent)
        stmt = stmt.body
    shape = [as_int(extent) for extent in buffer.shape]
    filling = (inner.indices for inner in stores(stmt) if isinstance(inner, ir.BufferStore) and inner.buffer.same_as(buffer))
    return any(
        all(isinstance(index, ir.Var) and index in extents for index in indices)
        and len(set(indices)) == len(indices)
        and [extents[index] for index in indices] == shape
        for indices in filling
    )


def _alike(a: Any, b: Any) -> bool:
    return all(tvm_ffi.structural_equal(left, right) for left, right in zip(a.indices, b.indices))
