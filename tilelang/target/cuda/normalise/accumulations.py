"""Axes of a ``T.Parallel`` along which iterations accumulate into one element of a fragment run within a thread.

``for i, j in T.Parallel(m, n): total[i] += a[i, j]`` has no meaning, as its iterations along ``j`` are in no order and change one
element; the interpreter says so. Shared out over threads it would lose most of the terms without a word. Programs that were
written where a thread has whole rows expect the sum, and one of the orders gives it. In ``total[i, j // 32] += a[i, j]``, 32
iterations along ``j`` change one element.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import tvm_ffi

from tilelang.ir import nodes as ir
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_fragment
from tilelang.ir.visit import children, computed_from, is_parallel, mentions, parallel_loops, walk, walk_expr, with_children
from tilelang.target.cuda.tile.program import Kernel
from tilelang.transform.substitute import substitute


def accumulate_in_order(kernel: Kernel) -> Kernel:
    """The kernel with serial loops for such axes."""
    allocated = (stmt for stmt in walk(kernel.body) if isinstance(stmt, ir.AllocBuffer))
    # Each thread has its own part of a reducer, so its iterations may be anywhere.
    reducers = {stmt.buffer for stmt in allocated if "tl.reducer_op" in (stmt.annotations or {})}

    def ordered(stmt: Any) -> Any:
        if is_parallel(stmt):
            return _ordered(stmt, reducers)
        return with_children(stmt, ordered)

    body = ordered(kernel.body)
    return kernel if body is kernel.body else replace(kernel, body=body)


def _ordered(loop: Any, reducers: set[Any]) -> Any:
    loops = parallel_loops(loop)
    body = loops[-1].body
    summed = [axis for axis in loops if any(_accumulates(*store, axis, body) for store in _stores(body, reducers))]
    kept = [axis for axis in loops if axis not in summed]
    if not summed or not kept or "tl.loop_layout" in loop.annotations:
        return loop
    for axis in reversed(summed):
        body = ir.For(axis.loop_var, axis.min, axis.extent, ir.ForKind.SERIAL, body, span=axis.span)
    for axis in reversed(kept):
        notes = {**loop.annotations, "tl.parallel": len(kept)} if axis is kept[0] else None
        body = ir.For(axis.loop_var, axis.min, axis.extent, ir.ForKind.PARALLEL, body, annotations=notes, span=axis.span)
    return body


def _stores(stmt: Any, reducers: set[Any], guards: tuple[Any, ...] = ()) -> Iterator[tuple[Any, tuple[Any, ...]]]:
    """The accumulations into fragments in ``stmt``, each with the conditions around it."""
    if isinstance(stmt, ir.BufferStore) and is_fragment(stmt.buffer) and stmt.buffer not in reducers and _reads_its_place(stmt):
        yield stmt, guards
    inner = (*guards, stmt.condition) if isinstance(stmt, ir.IfThenElse) else guards
    for child in children(stmt):
        yield from _stores(child, reducers, inner)


def _reads_its_place(store: Any) -> bool:
    loads = (part for part in walk_expr(store.value) if isinstance(part, ir.TensorLoad) and part.source.same_as(store.buffer))
    return any(tvm_ffi.structural_equal(list(load.indices), list(store.indices)) for load in loads)


def _accumulates(store: Any, guards: tuple[Any, ...], axis: Any, body: Any) -> bool:
    """Whether iterations along ``axis`` store to one element, as far as the indices show."""
    moved = computed_from([axis.loop_var], body)
    # Under i == j one iteration along an axis stores, which is legal.
    single = [part for guard in guards for part in walk_expr(guard) if isinstance(part, ir.EQ)]
    if any(mentions(expr, moved) for expr in single):
        return False
    indices = [index for index in store.indices if mentions(index, moved)]
    return not any(mentions(index, moved - {axis.loop_var}) for index in indices) and _first_two_agree(indices, axis)


def _first_two_agree(indices: list[Any], axis: Any) -> bool:
    """Whether the first two iterations of ``axis`` have the same indices, as those of a quotient have."""
    facts = Facts()
    first, second = ([substitute(index, {axis.loop_var: axis.min + offset}) for index in indices] for offset in (0, 1))
    return all(facts.simplify(one - other) == 0 for one, other in zip(first, second, strict=True))
