"""Fragments in which each thread keeps values of its own are arrays of threads.

A fragment is one tile of the block, so an element to which all threads store what they have loaded at places of their own would
hold no one's value:

    partial = T.alloc_fragment((1,), "float32")
    T.clear(partial)
    for k in T.serial(8):
        partial[0] += A[tx * 8 + k]

Programs mean what `T.alloc_local` says, and that is what the fragment becomes, where single elements of it are all that
statements use (``T.fill`` aside), at indices that are the same for all threads, and not only those of a ``T.Parallel``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.memory import ARRAY, is_fragment, is_local
from tilelang.ir.visit import any_statement, children, is_parallel, operands, statement_exprs, variables, walk, walk_expr
from tilelang.tileop import record_of
from tilelang.tileop.copy import Fill
from tilelang.tileop.thread import INTRINSICS, intrinsic_name


def with_own_arrays(body: Any) -> Any:
    """A program in which fragments of threads' own values are arrays of threads."""
    if not any_statement(body, lambda stmt: isinstance(stmt, ir.BufferStore) and is_fragment(stmt.buffer)):
        return body
    fragments = _used_by_element(body)
    own = _of_threads(body, fragments) & fragments if fragments else set()
    arrays = {old: _array_like(old) for old in own}
    return tvm_ffi.structural_map(body, [(ir.Var, lambda var: arrays.get(var, var))]) if arrays else body


def _array_like(buffer: Any) -> Any:
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), buffer.name, scope=ARRAY, layout=None)


def _used_by_element(body: Any) -> set[Any]:
    """The fragments of which statements use elements, some outside of ``T.Parallel``, and nothing uses anything else."""
    found = {
        stmt.buffer
        for stmt in walk(body)
        if isinstance(stmt, ir.AllocBuffer) and is_fragment(stmt.buffer) and "tl.reducer_op" not in stmt.annotations
    }
    threads = _thread_indices(body)
    for stmt in walk(body):
        if not isinstance(record_of(stmt), Fill):
            found.difference_update(_otherwise_used(stmt, threads))
    outside = (stmt for stmt in _outside_of_nests(body) if not is_parallel(stmt) and not isinstance(record_of(stmt), Fill))
    return found.intersection(buffer for stmt in outside for buffer in _named(stmt))


def _outside_of_nests(stmt: Any) -> Iterator[Any]:
    """Statements, of a ``T.Parallel`` none of those inside."""
    yield stmt
    if not is_parallel(stmt):
        for child in children(stmt):
            yield from _outside_of_nests(child)


def _named(stmt: Any) -> Iterator[Any]:
    exprs = [stmt.data] if isinstance(stmt, ir.DeclBuffer) else statement_exprs(stmt)
    return (var for expr in exprs for var in variables(expr))


def _otherwise_used(stmt: Any, threads: set[Any]) -> Iterator[Any]:
    """The buffers that a statement uses as a whole, at the place of a thread, or atomically."""
    uses = Counter(_named(stmt))
    if isinstance(stmt, ir.BufferStore):
        uses[stmt.buffer] -= 1
        if _are_of_threads(stmt.indices, threads):
            yield stmt.buffer
    for expr in statement_exprs(stmt):
        for node in walk_expr(expr):
            if isinstance(node, ir.TensorLoad):
                uses[node.source] -= 1
            elif (intrinsic_name(node) or "").startswith("atomic_") and isinstance(node.args[0], ir.TensorLoad):
                yield node.args[0].source
    yield from (buffer for buffer, count in uses.items() if count > 0)


# Values of threads ----------------------------------------------------------------------------------------------------


def _thread_indices(body: Any) -> set[Any]:
    nodes = (stmt.node for stmt in walk(body) if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent")
    return {node.var for node in nodes if str(node.thread_tag).startswith("threadIdx")}


def _of_threads(body: Any, fragments: set[Any]) -> set[Any]:
    """The threads' indices, and what certainly gets values that are computed from them.

    Args:
        body: the program's.
        fragments: those that count as memory of threads.
    """
    found, before = _thread_indices(body), -1
    while before != len(found):  # a loop may load what it stores at its end
        before = len(found)
        for stmt in walk(body):
            if isinstance(stmt, ir.Bind):
                target = stmt.var
            elif isinstance(stmt, ir.BufferStore) and (is_local(stmt.buffer) or stmt.buffer in fragments):
                target = stmt.buffer
            else:
                continue
            if _are_of_threads([stmt.value], found):
                found.add(target)
    return found


def _are_of_threads(exprs: Any, found: set[Any]) -> bool:
    """Whether expressions are computed from a thread's index; what lanes have exchanged may be the same for all."""
    stack = list(exprs)
    while stack:
        expr = stack.pop()
        if expr in found:
            return True
        name = intrinsic_name(expr)
        if name is None or not INTRINSICS[name].threads:
            stack += operands(expr)
    return False
