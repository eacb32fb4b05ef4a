"""Reductions and shuffles of a block's threads, spelled as TVM's scripts spell them.

    with T.attr(T.comm_reducer(lambda x, y: x + y, [T.float32(0)]), "reduce_scope", T.reinterpret(T.uint64(0), dtype="handle")):
        T.evaluate(T.tvm_thread_allreduce(T.uint32(1), value, True, result[0], tx, dtype="handle"))

Threads that differ in the named indices only all get the combination of their values, which they exchange through shared memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tilelang.errors import MisplacedError, OperandError
from tilelang.frontend.builder import require_kernel
from tilelang.frontend.macro import macro
from tilelang.frontend.values import as_expr
from tilelang.ir.text import expr_text
from tilelang.language import calls, casts, intrinsics, kernel, loops, math, memory


@dataclass(frozen=True, slots=True, eq=False)
class CommReducer:
    """How two values are combined, and the value that changes nothing."""

    combine: Callable[[Any, Any], Any]
    identity: Any


def comm_reducer(combiner: Callable[[Any, Any], Any], identity: Sequence[Any]) -> CommReducer:
    """A commutative combination of values with its identity, ``[T.float32(0)]`` for a sum."""
    if len(identity) != 1:
        raise OperandError(f"T.comm_reducer combines one value with another, not {len(identity)} at once")
    return CommReducer(combiner, identity[0])


@contextmanager
def reduce_scope(reducer: CommReducer) -> Iterator[None]:
    """What ``T.attr(reducer, "reduce_scope", ...)`` means: reductions inside combine as ``reducer`` does."""
    reducers = require_kernel("T.attr").thread_reducers
    reducers.append(reducer)
    yield
    reducers.pop()


def tvm_thread_allreduce(size: Any, value: Any, condition: Any, result: Any, *axes: Any, dtype: Any = None) -> int:
    """Combines a value of each thread over some of the block's thread indices; all these threads get the result.

    Args:
        size: how many values, which is 1.
        value: this thread's.
        condition: whether it counts.
        result: the element that receives the combination.
        axes: the indices to combine over, as ``T.get_thread_binding`` gives them.
        dtype: accepted for compatibility; the combination has the type of ``value``.

    Returns:
        0, so that the call may stand in ``T.evaluate``.

    Raises:
        CompileError: no ``T.attr(T.comm_reducer(...), "reduce_scope", ...)`` is around it, or an axis is no thread index.
    """
    reducers = require_kernel("T.tvm_thread_allreduce").thread_reducers
    if not reducers:
        raise MisplacedError('T.tvm_thread_allreduce stands inside of T.attr(T.comm_reducer(...), "reduce_scope", ...)')
    # In mixed radix over the thread indices: the thread's number among those that it combines with, and the number of that group.
    line, lines = 0, 1
    member, group = 0, 1
    bindings = kernel.get_thread_bindings()
    for axis in axes:
        if not any(axis is var or as_expr(axis).same_as(var) for var in bindings):
            raise OperandError(f"T.tvm_thread_allreduce combines over thread indices; {expr_text(as_expr(axis))} is none")
    for var, extent in zip(bindings, kernel.get_thread_extents()):
        if any(as_expr(axis).same_as(var) for axis in axes):
            member, group = member + var * group, group * extent
        else:
            line, lines = line + var * lines, lines * extent
    reducer = reducers[-1]
    given = as_expr(value)
    given = given if condition is True else math.if_then_else(condition, given, casts.cast(reducer.identity, given.ty))
    place = calls.element(result, "T.tvm_thread_allreduce")
    _combined(given, place.source, tuple(place.indices), line, member, lines, group, reducer)
    return 0


@macro
def _combined(value: Any, result: Any, place: Any, line: Any, member: Any, lines: int, group: int, reducer: CommReducer) -> None:
    parts = memory.alloc_shared((lines, group), str(value.ty))
    parts[line, member] = value
    intrinsics.sync_threads()
    total = memory.alloc_var(str(value.ty), init=reducer.identity)
    for other in loops.serial(group):
        total = reducer.combine(total, parts[line, other])
    result[place] = total
    # The memory of the parts may be used again, by the next reduction for instance: all threads have read them before.
    intrinsics.sync_threads()


def tvm_warp_shuffle(mask: Any, value: Any, warp_id: Any, width: Any = 32, warp_size: int = 32) -> Any:
    """``value`` of the lane ``warp_id`` of the same group of ``width`` lanes.

    Args:
        mask: the lanes that take part, as bits.
        value: what this lane offers.
        warp_id: the lane to read, counted in its group.
        width: lanes of a group: 2, 4, 8, 16 or 32.
        warp_size: accepted for compatibility; 32.

    Returns:
        That lane's ``value``.
    """
    return intrinsics.shfl_sync(value, warp_id, width, mask)
