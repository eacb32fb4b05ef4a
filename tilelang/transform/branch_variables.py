"""Live-range splitting: memory of threads that branches for different threads use for values of their own becomes one for each.

Before: ``meta`` is allocated above branches for different threads, and each stores to it before it reads it:

    meta = T.alloc_local((1,), "int32")
    if tx < 32:                         # what one thread claims differs between threads, as far as the text says
        meta[0] = T.shfl_sync(work, 0)
        ...
    with T.ws(1):                       # all threads load the same value
        meta[0] = item[0]
        ...

After: each branch has its own ``meta``. No value goes from one branch to another, so none changes; but what the text says of the
values in one branch no longer holds of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.memory import is_local
from tilelang.ir.visit import computed_from, mentions, statement_exprs, variables, walk, with_children
from tilelang.transform.first_use import FirstUse, Memory
from tilelang.transform.substitute import substitute

_WARP_GROUPS = "tl.warp_group"


def with_own_of_branches(body: Any) -> Any:
    """A program in which branches for different threads have variables and arrays of their own where they share no value."""
    threads = computed_from(_thread_indices(body), body)
    sides: list[Any] = []

    def collected(side: Any) -> Any:
        sides.append(side)
        return ir.Evaluate(ir.IntImm("int32", 0))

    rest = _with_sides(body, threads, collected)
    if len(sides) < 2:
        return body
    shared = _used_by_several(body, rest, sides)
    if not shared:
        return body
    new: dict[Any, list[Any]] = {root: [] for root in shared}

    def separated(side: Any) -> Any:
        own = {root: _like(root) for root in shared.intersection(_named(side))}
        for root, buffer in own.items():
            new[root].append(buffer)
        return substitute(side, own)

    body = _with_sides(body, threads, separated)
    return tvm_ffi.structural_map(body, [(ir.AllocBuffer, lambda stmt: _allocated(stmt, new.get(stmt.buffer)))])


def _used_by_several(body: Any, rest: Any, sides: list[Any]) -> set[Any]:
    """The memory that several sides use, each of them first by storing to what it reads, and nothing else.

    Args:
        body: the program.
        rest: the program without the sides.
        sides: of branches for different threads.
    """
    local = {stmt.buffer for stmt in walk(body) if isinstance(stmt, ir.AllocBuffer) and is_local(stmt.buffer)}
    viewed = {var for stmt in walk(body) if isinstance(stmt, ir.DeclBuffer) for var in variables(stmt.data)}
    local -= viewed.union(_named(rest))
    named = [(side, local.intersection(_named(side))) for side in sides]
    several = {root for root in local if sum(root in used for _, used in named) > 1}
    return several - {root for side, used in named for root in used & several if FirstUse(Memory(root), side).read}


def _with_sides(stmt: Any, threads: set[Any], of: Callable[[Any], Any]) -> Any:
    """A statement with others in place of the sides of its outermost branches for different threads."""
    if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == _WARP_GROUPS:
        return ir.AttrStmt(stmt.node, stmt.attr_key, stmt.value, of(stmt.body), stmt.span)
    if not (isinstance(stmt, ir.IfThenElse) and mentions(stmt.condition, threads)):
        return with_children(stmt, lambda child: _with_sides(child, threads, of))
    other = stmt.else_case
    if other is not None:
        is_branch = isinstance(other, ir.IfThenElse) and mentions(other.condition, threads)
        other = _with_sides(other, threads, of) if is_branch else of(other)
    return ir.IfThenElse(stmt.condition, of(stmt.then_case), other, stmt.span)


def _named(stmt: Any) -> Iterator[Any]:
    """The variables in a statement, without those that it only allocates."""
    for part in walk(stmt):
        if isinstance(part, ir.BufferStore):
            yield part.buffer
        yield from (var for expr in statement_exprs(part) for var in variables(expr))


def _thread_indices(body: Any) -> set[Any]:
    nodes = (stmt.node for stmt in walk(body) if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent")
    return {node.var for node in nodes if str(node.thread_tag).startswith("threadIdx")}


def _like(buffer: Any) -> Any:
    return ir.decl_buffer(list(buffer.shape), str(buffer.dtype), buffer.name, scope=buffer.scope(), layout=None)


def _allocated(stmt: Any, buffers: list[Any] | None) -> Any:
    """The allocations of ``buffers`` in the place of one; the same if there are none."""
    if buffers is None:
        return stmt
    return ir.SeqStmt([ir.AllocBuffer(buffer, stmt.annotations, stmt.span) for buffer in buffers])
