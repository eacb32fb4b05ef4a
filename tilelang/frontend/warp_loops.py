"""``T.Parallel`` loops over the threads of a block whose iterations exchange values.

A shuffle or a vote is between the lanes of a warp, so it says which threads run the iterations: where there are as many
iterations as threads, iteration i is thread i. So it is where a barrier stands below another statement of the loop. Such a loop
is written as the threads' own code.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from tilelang.errors import MisplacedError
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_array
from tilelang.ir.span import location_of
from tilelang.ir.visit import (
    any_call,
    any_statement,
    flattened,
    is_parallel,
    mentions,
    parallel_loops,
    statement_exprs,
    variables,
    walk,
    walk_expr,
    with_children,
)
from tilelang.tileop.thread import intrinsic_name

_EXCHANGES = ("shfl_", "match_", "warp_reduce_", "syncthreads_")
_OF_LANES = ("any_sync", "all_sync", "ballot_sync", "activemask", "lane_idx", "warp_idx", "warp_idx_sync", "warp_group_idx")


def with_iterations_of_threads(body: Any) -> Any:
    """A program whose loops over the threads that exchange values are the threads' code."""
    return _rewritten(body, (), set()) if any_statement(body, _exchanges) else body


def may_be_of_threads(extents: Sequence[Any], body: Any, kernel: Any) -> bool:
    """Whether a ``T.Parallel`` has as many iterations as its kernel has threads, and iterations that need each other.

    Args:
        extents: of its loops.
        body: what an iteration does.
        kernel: the kernel, None outside of one.
    """
    sizes = [as_int(extent) for extent in extents]
    if kernel is None or not all(isinstance(size, int) for size in [*sizes, *kernel.thread_extents]):
        return False
    if math.prod(sizes) != math.prod(kernel.thread_extents):
        return False
    return any_statement(body, _asks) or any(_is_barrier(inner) for part in flattened(body) for inner in _below(part))


def _below(stmt: Any) -> Iterator[Any]:
    return (inner for inner in walk(stmt) if inner is not stmt)


def _rewritten(stmt: Any, threads: Sequence[Any], own: set[Any]) -> Any:
    """The statement with its loops rewritten.

    Args:
        stmt: a statement of the program.
        threads: the indices of the kernel's threads, as iteration variables with their extents.
        own: variables that are computed from these indices, to which the statement's are added.
    """
    if isinstance(stmt, ir.AttrStmt) and stmt.attr_key == "thread_extent":
        if str(stmt.node.thread_tag).startswith("threadIdx"):
            threads, own = [*threads, stmt.node], {*own, stmt.node.var}
    elif isinstance(stmt, ir.Bind) and mentions(stmt.value, own):
        own.add(stmt.var)
    elif is_parallel(stmt):
        axes = parallel_loops(stmt)
        body = axes[-1].body
        if _is_of_threads(stmt, axes, body, threads, own):
            return _of_threads(stmt, axes, body, threads)
        barrier = next(filter(_is_barrier, walk(body)), None)
        if barrier is not None:
            raise MisplacedError(
                "a barrier in a T.Parallel that every thread runs for itself: an iteration cannot wait for others",
                location_of(barrier.span),
                hint="index arrays of the threads, and name threads, in a loop of its own",
            )
        return stmt
    return with_children(stmt, lambda child: _rewritten(child, threads, own))


def _is_of_threads(loop: Any, axes: list[Any], body: Any, threads: Sequence[Any], own: set[Any]) -> bool:
    """Whether the iterations are the threads: as many, without a layout of the program, and not each thread's own loop.

    Args:
        loop: the outermost loop of the ``T.Parallel``.
        axes: its loops.
        body: what an iteration does.
        threads: the indices of the kernel's threads.
        own: variables that are computed from these.
    """
    extents = [as_int(axis.extent) for axis in axes]
    # A layout of the program says itself which thread runs which iteration, which need not be that of its number.
    if "tl.loop_layout" in loop.annotations or not all(isinstance(extent, int) for extent in extents):
        return False
    if math.prod(extents) != math.prod(int(axis.dom.extent) for axis in threads) or not any_statement(body, _exchanges):
        return False
    indices = {axis.loop_var for axis in axes}
    exprs = [expr for stmt in walk(body) for expr in statement_exprs(stmt)]
    places = [(stmt.buffer, stmt.indices) for stmt in walk(body) if isinstance(stmt, ir.BufferStore)]
    loads = (part for expr in exprs for part in walk_expr(expr) if isinstance(part, ir.TensorLoad))
    places += [(load.source, load.indices) for load in loads]
    # An array of a thread indexed by the loop, or anything computed of the thread's number, shows that every thread runs all
    # iterations: in the thread's own code iteration i would see one element of the array only.
    if any(is_array(buffer) and any(mentions(index, indices) for index in where) for buffer, where in places):
        return False
    return not any(var in own for expr in exprs for var in variables(expr))


def _of_threads(loop: Any, axes: list[Any], body: Any, threads: Sequence[Any]) -> Any:
    """The body of a loop as the code of the threads, whose numbers are the indices; the last axis is that of neighbours.

    Args:
        loop: the outermost loop of the ``T.Parallel``.
        axes: its loops.
        body: what an iteration does.
        threads: the indices of the kernel's threads.
    """
    number, size = ir.IntImm("int32", 0), 1
    for axis in threads:
        number, size = (number + axis.var * size if int(axis.dom.extent) > 1 else number), size * int(axis.dom.extent)
    indices: list[Any] = []
    for axis in reversed(axes):
        # The outermost axis is what the others leave.
        digit = number % int(axis.extent) if axis is not axes[0] else number
        number = number // int(axis.extent)
        first = axis.min if as_int(axis.min) != 0 else ir.IntImm(axis.loop_var.ty, 0)
        indices.insert(0, ir.Bind(axis.loop_var, first + digit, loop.span))
    return ir.SeqStmt([*indices, body])


def _is_barrier(stmt: Any) -> bool:
    return isinstance(stmt, ir.Evaluate) and intrinsic_name(stmt.value) == "sync_threads" and not stmt.value.args


def _exchanges(stmt: Any) -> bool:
    """Whether a statement asks for lanes or warps, or exchanges values between them; a barrier that was left in a loop does."""
    return _is_barrier(stmt) or _asks(stmt)


def _asks(stmt: Any) -> bool:
    return any(any_call(expr, lambda call: _is_of_lanes(intrinsic_name(call))) for expr in statement_exprs(stmt))


def _is_of_lanes(name: str | None) -> bool:
    return name is not None and (name in _OF_LANES or name.startswith(_EXCHANGES))
