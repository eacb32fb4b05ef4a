"""Static analysis before a run: which values, buffers and statements differ between threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.visit import children, statement_exprs, walk, walk_expr
from tilelang.tileop.base import decode, is_tile_op
from tilelang.tileop.thread import INTRINSICS, intrinsic_name

_CHANGING = ("atomic_", "ptx_", "store_cluster", "dp4a", "tma_")


def element_stores(body: Any) -> Iterator[Any]:
    """The buffers that statements change element by element."""
    for stmt in walk(body):
        if isinstance(stmt, ir.BufferStore):
            yield stmt.buffer
        for expr in statement_exprs(stmt):
            for node in walk_expr(expr):
                name = intrinsic_name(node)
                if name is not None and name.startswith(_CHANGING):
                    yield from (arg.source for arg in node.args if isinstance(arg, ir.TensorLoad))


def evaluated(body: Any) -> Iterator[Any]:
    """Every expression of the statements in a body, without the buffers that they store to."""
    for stmt in walk(body):
        yield from (*stmt.indices, stmt.value) if isinstance(stmt, ir.BufferStore) else statement_exprs(stmt)


def variables_of(exprs: Iterator[Any]) -> set[Any]:
    """The scalar variables that expressions use."""
    return {node for expr in exprs for node in walk_expr(expr) if isinstance(node, ir.Var) and not ir.is_buffer_var(node)}


def touched(body: Any) -> set[Any]:
    """The buffers that statements read or write."""
    found = {stmt.buffer for stmt in walk(body) if isinstance(stmt, (ir.BufferStore, ir.AllocBuffer, ir.DeclBuffer))}
    for expr in evaluated(body):
        for node in walk_expr(expr):
            if isinstance(node, (ir.TensorLoad, ir.TensorRegion)):
                found.add(node.source)
    return found


def written_buffers(body: Any) -> set[Any]:
    """The buffers that statements in a body write."""
    found = set(element_stores(body))
    for stmt in walk(body):
        if isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value):
            found.update(region.buffer for region, access in decode(stmt.value).regions() if "w" in access)
    return found


def may_differ(expr: Any, differing: set[Any], root: Callable[[Any], Any]) -> bool:
    """Whether an expression may differ between threads: it names one, or something in ``differing``."""
    for node in walk_expr(expr):
        if isinstance(node, ir.Var) and root(node) in differing:
            return True
        name = intrinsic_name(node)
        if name is not None and INTRINSICS[name].threads and name not in _OF_THE_BLOCK:
            return True
    return False


_OF_THE_BLOCK = ("block_rank_in_cluster", "syncthreads_count", "syncthreads_and", "syncthreads_or", "create_tma_descriptor")
"""Intrinsics whose value all threads of a block share."""


def differing(body: Any, root: Callable[[Any], Any]) -> set[Any]:
    """The variables, and the memory of threads, that may differ between the threads of a block.

    These are the threads' numbers, what is computed from them, and what is stored below a condition on them.
    """
    found: set[Any] = set()
    before = -1
    while before != len(found):
        before = len(found)
        _spread_differences(body, False, found, root)
    return found


def _spread_differences(stmt: Any, below: bool, found: set[Any], root: Callable[[Any], Any]) -> None:
    """Adds what a statement makes thread-dependent; ``below`` says whether it is under a divergent condition."""

    def differs(*exprs: Any) -> bool:
        return any(may_differ(expr, found, root) for expr in exprs)

    if isinstance(stmt, ir.AttrStmt) and isinstance(stmt.node, ir.IterVar):
        if str(stmt.node.thread_tag).startswith("threadIdx") and as_int(stmt.value) != 1:
            found.add(stmt.node.var)
    elif isinstance(stmt, ir.AttrStmt):
        below = below or stmt.attr_key == "tl.warp_group"
    elif isinstance(stmt, ir.Bind) and differs(stmt.value):
        found.add(stmt.var)
    elif isinstance(stmt, ir.BufferStore) and is_private(stmt.buffer) and (below or differs(*stmt.indices, stmt.value)):
        found.add(root(stmt.buffer))
    elif isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value):
        record = decode(stmt.value)
        stored = [region.buffer for region, access in record.regions() if "w" in access and is_private(region.buffer)]
        if stored and (below or differs(stmt.value)):
            found.update(map(root, stored))
    elif isinstance(stmt, ir.For):
        if "tl.parallel" in stmt.annotations:
            return
        if differs(stmt.min, stmt.extent):
            below = True
            found.add(stmt.loop_var)
    elif isinstance(stmt, (ir.IfThenElse, ir.While)):
        below = below or differs(stmt.condition)
    elif isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) in _FILLING:
        places = [arg.source for arg in stmt.value.args if isinstance(arg, ir.TensorLoad) and is_private(arg.source)]
        found.update(map(root, places))
    for child in children(stmt):
        _spread_differences(child, below, found, root)


_FILLING = ("ptx_ldmatrix", "ptx_mma")
"""Instructions of a warp that give each thread its own registers."""


def is_private(buffer: Any) -> bool:
    """Whether each thread has a buffer's memory for itself."""
    return buffer.scope().startswith("local") and buffer.scope() != "local.fragment"
