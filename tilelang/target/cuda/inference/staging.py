"""A statement that needs a fragment's elements in other threads works on a copy of the fragment in shared memory.

Copies from and to the threads that own the elements are put around the statement; barriers are placed later, as for any other
use of shared memory. A view of a fragment becomes a view of the copy. A matrix product gets its operands from the copy, and an
accumulator of its own; so does a reduction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.region import Region
from tilelang.target.cuda.reading.nest import READ, WRITE, Nest
from tilelang.target.cuda.reading.tiles import nest_of
from tilelang.target.cuda.reading.tree import (
    FRAGMENT,
    Branch,
    Loop,
    Operator,
    Parallel,
    Scalar,
    Sequence,
    TileTree,
    accesses_of,
    span_of,
    walk,
)
from tilelang.tileop.copy import Copy
from tilelang.tileop.gemm import Gemm
from tilelang.tileop.reduce import Reduce
from tilelang.transform.substitute import substitute


def can_stage(node: Any) -> bool:
    """Whether a node may use copies of fragments: not where it only starts what a later statement waits for."""
    if isinstance(node, Operator):
        return type(node.op) in _OPERATORS and not (isinstance(node.op, Gemm) and node.op.kind != "gemm")
    return type(node) in _STAGED


def stage(tree: TileTree, node: Any, buffers: Iterable[Any]) -> list[Any]:
    """Replaces ``node`` in the tree by one that uses copies of ``buffers`` (fragments, or views of fragments).

    Returns:
        The nodes that copy.
    """
    before, after, staged = [], [], node
    for buffer in buffers:
        first, staged, last = _STAGED[type(node)](tree, staged, buffer)
        before, after = [*before, *first], [*last, *after]
    _replace(tree, node, [*before, staged, *after])
    return [*before, *after]


def _replace(tree: TileTree, node: Any, items: list[Any]) -> None:
    for parent in walk(tree.root):
        lists = [parent.items] if isinstance(parent, Sequence) else []
        if isinstance(parent, Loop) and parent.parts is not None:
            lists = [nodes for _, nodes in parent.parts]
        for found in lists:
            if node in found:
                place = found.index(node)
                found[place : place + 1] = items


# Statements on elements ----------------------------------------------------------------------------------------------


def _elementwise(tree: TileTree, node: Any, buffer: Any) -> tuple[list[Any], Any, list[Any]]:
    span = span_of(node)
    accesses = [access for access in accesses_of(node) if access.buffer.same_as(buffer)]
    owned, copy, stand_in = _copy_of(tree, buffer)
    staged = _REBUILT[type(node)](node, {buffer: stand_in})
    # What the statement leaves alone must come back as it was, so the copy is filled where not all of it is written anew.
    before = [] if _overwrites(node, accesses) else [_move(owned, copy, span)]
    after = [] if all(access.kind == READ for access in accesses) else [_move(copy, owned, span)]
    return before, staged, after


def _overwrites(node: Any, accesses: list[Any]) -> bool:
    """Whether a nest writes every element of a buffer and reads none; ``accesses`` are all those of the buffer."""
    if not isinstance(node, Parallel) or len(accesses) != 1 or accesses[0].kind != WRITE or accesses[0].conditional:
        return False
    extents = {axis.var: axis.extent for axis in node.nest.axes if axis.limit is None}
    indices = accesses[0].indices
    sizes = map(as_int, accesses[0].buffer.shape)
    whole = (isinstance(index, ir.Var) and extents.get(index) == size for index, size in zip(indices, sizes))
    return len(set(indices)) == len(indices) and all(whole)


def _copy_of(tree: TileTree, buffer: Any) -> tuple[Region, Region, Any]:
    """The fragment that holds ``buffer``, a shared copy of it, and what stands for ``buffer`` on the copy."""
    root = tree.root_of(buffer)
    copy = _tile_like(root, "staged", "shared.dyn")
    tree.allocations[copy] = {}
    stand_in = copy
    if not buffer.same_as(root):
        stand_in = _tile_like(buffer, "staged", "shared.dyn")
        tree.aliases[stand_in] = copy
    return Region.whole(root), Region.whole(copy), stand_in


def _tile_like(buffer: Any, suffix: str, scope: str) -> Any:
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), f"{buffer.name}_{suffix}", scope=scope, layout=None)


def _move(source: Region, target: Region, span: Any) -> Parallel:
    op = Copy(source, target)
    return Parallel(nest_of(op, span), op)


def _rebuild_nest(node: Parallel, values: Mapping[Any, Any]) -> Parallel:
    nest = node.nest
    body = substitute(nest.body, values)
    return Parallel(Nest.build(nest.axes, body, nest.span, nest.origin, vector=nest.vector, layout=nest.layout))


def _rebuild_branch(node: Branch, values: Mapping[Any, Any]) -> Branch:
    stmt = node.stmt
    condition = substitute(stmt.condition, values)
    return Branch(ir.IfThenElse(condition, stmt.then_case, stmt.else_case, stmt.span), node.then, node.otherwise)


_REBUILT: Mapping[type, Callable[[Any, Mapping[Any, Any]], Any]] = {
    Parallel: _rebuild_nest,
    Scalar: lambda node, values: Scalar(substitute(node.stmt, values)),
    Branch: _rebuild_branch,
}


# Operators -----------------------------------------------------------------------------------------------------------


def _product(tree: TileTree, node: Operator, buffer: Any) -> tuple[list[Any], Operator, list[Any]]:
    op, span = node.op, node.span
    before, after = [], []
    if op.c.buffer.same_as(buffer):
        own, fill, drain = _own_fragment(tree, buffer, span)
        before, after = [] if op.clear_accum in (True, 1) else fill, drain
        op = op.replace(c=own)
    parts = {name: region for name, region in (("a", op.a), ("b", op.b)) if region.buffer.same_as(buffer)}
    if parts:
        owned, copy, stand_in = _copy_of(tree, buffer)
        before = [*before, _move(owned, copy, span)]
        op = op.replace(**{name: Region(stand_in, region.mins, region.extents) for name, region in parts.items()})
    return before, Operator(op, span), after


def _reduction(tree: TileTree, node: Operator, buffer: Any) -> tuple[list[Any], Operator, list[Any]]:
    op, span = node.op, node.span
    before, after = [], []
    if op.src.buffer.same_as(buffer):
        own, before, _ = _own_fragment(tree, buffer, span)
        op = op.replace(src=own)
    if op.dst.buffer.same_as(buffer):
        own, fill, after = _own_fragment(tree, buffer, span)
        before = before if op.clear else [*before, *fill]
        op = op.replace(dst=own)
    return before, Operator(op, span), after


def _own_fragment(tree: TileTree, buffer: Any, span: Any) -> tuple[Region, list[Any], list[Any]]:
    """A fragment that an operator has for itself in place of ``buffer``, and the copies that fill it and bring it back."""
    own = _tile_like(buffer, "own", FRAGMENT)
    tree.allocations[own] = {}
    owned, copy, stand_in = _copy_of(tree, buffer)
    whole, view = Region.whole(own), Region.whole(stand_in)
    return whole, [_move(owned, copy, span), _move(view, whole, span)], [_move(whole, view, span), _move(copy, owned, span)]


_OPERATORS = {Gemm: _product, Reduce: _reduction}

_STAGED: Mapping[type, Callable[[TileTree, Any, Any], tuple[list[Any], Any, list[Any]]]] = {
    Parallel: _elementwise,
    Scalar: _elementwise,
    Branch: _elementwise,
    Operator: lambda tree, node, buffer: _OPERATORS[type(node.op)](tree, node, buffer),
}
