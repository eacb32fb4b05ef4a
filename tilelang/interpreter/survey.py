"""What a program does, read off its statements before it runs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.visit import statement_exprs, walk, walk_expr
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


def regions(body: Any) -> Iterator[tuple[Any, str]]:
    """The regions that tile operators access, and how."""
    for stmt in walk(body):
        if isinstance(stmt, ir.Evaluate) and is_tile_op(stmt.value):
            yield from decode(stmt.value).regions()


def mentions_threads(expr: Any) -> bool:
    """Whether an expression calls something that speaks of threads."""
    names = (intrinsic_name(node) for node in walk_expr(expr))
    return any(name is not None and INTRINSICS[name].threads for name in names)
