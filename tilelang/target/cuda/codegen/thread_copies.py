"""Copies that each thread makes for itself: as vectors in a ``T.vectorized`` loop, and by cp.async below ``async_scope``."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.access import READ
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_global, lies_in_shared
from tilelang.target.cuda.arch import arch_of
from tilelang.target.cuda.codegen.statements import loop_of
from tilelang.target.cuda.inference.vectors import Vectors
from tilelang.target.cuda.ir.access import Agent
from tilelang.target.cuda.ir.code import Block, Leaf, LoopCode, leaf, made_by, under
from tilelang.target.cuda.ir.cpp_types import VECTOR_TYPES, byte_count, is_packed
from tilelang.target.cuda.ir.instructions import Evaluate, Move
from tilelang.target.cuda.ir.values import ASYNC_SIZES, async_copy
from tilelang.target.cuda.tile.nest import Axis, Nest
from tilelang.target.cuda.tile.tree import Loop, Scalar


def vector_loop(generator: Any, node: Loop) -> LoopCode | None:
    """A ``T.vectorized`` loop as one over vectors; None where it does more than copy, or its elements are not aligned."""
    e, stmt, items = generator.emitter, node.stmt, [item for item in node.body.items if isinstance(item, Scalar)]
    if len(items) < len(node.body.items) or as_int(stmt.min) != 0 or not _are_copies(generator, items):
        return None
    # All copies share one loop, so the narrowest vector decides.
    width = min(_width(e, stmt, item.stmt) for item in items)
    if width == 1 or any(byte_count(width, str(item.stmt.buffer.dtype)) not in VECTOR_TYPES for item in items):
        return None
    loop = loop_of(e, stmt)
    ((name, _),) = loop.counters
    loop.advance, loop.unroll, loop.span = ((name, name + width),), 0, stmt.span
    loop.body = Block([_copy(generator, item, width) for item in items])
    return loop


def async_copy_of(generator: Any, node: Scalar) -> Leaf | None:
    """A statement below ``async_scope`` as cp.async of one element; None where it is no copy that can be one."""
    return _copy(generator, node, 1) if _is_copy(generator, node) and _may_be_async(generator, node, 1) else None


def _are_copies(generator: Any, items: list[Scalar]) -> bool:
    """Whether statements of single threads only copy elements, none of them what another one writes."""
    e = generator.emitter
    if not all(_is_copy(generator, item) for item in items):
        return False
    written = {e.root(item.stmt.buffer) for item in items}
    # Vectors read all elements before they write any, which shows only where one statement writes what another reads.
    return len(written) == len(items) > 0 and written.isdisjoint(e.root(item.stmt.value.source) for item in items)


def _is_copy(generator: Any, node: Scalar) -> bool:
    """Whether a statement is each thread's own, and only copies an element as it is."""
    e, store = generator.emitter, node.stmt
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.TensorLoad):
        return False
    dtype, source = str(store.buffer.dtype), store.value.source
    as_it_is = dtype == str(source.dtype) and not is_packed(dtype) and e.tree.hints.safe_values.get(source) is None
    return as_it_is and (generator.divergent or e.is_by_thread(node))


def _copy(generator: Any, node: Scalar, width: int) -> Leaf:
    """The copy of ``width`` neighbours of which ``node`` copies the first, as one move; below ``async_scope`` as one cp.async,
    which the program itself waits for."""
    e, store, source = generator.emitter, node.stmt, node.stmt.value
    size = byte_count(width, str(store.buffer.dtype))
    end = e.array(store.buffer).to(e.places.offset(store.buffer, list(store.indices)))
    start = e.array(source.source).to(e.places.offset(source.source, list(source.indices)), READ)
    exists = e.places.bounds_guard(source.source, list(source.indices))
    move: Any = Move(size, end, start, exists)
    if _may_be_async(generator, node, width):
        # A plain call, and no `CopyAsync`: for those the compiler places waits, and the program has its own for these.
        move = Evaluate(async_copy(size, end, start, exists))
    code = leaf(under(e.places.bounds_guard(store.buffer, list(store.indices)), [move]))
    code = e.annotated(code, node.accesses, generator.map_of_threads)
    return code if isinstance(move, Move) else made_by(Agent.CP_ASYNC_OF_PROGRAM, code)


def _may_be_async(generator: Any, node: Scalar, width: int) -> bool:
    """Whether the copy of so many elements is one that a program wants to be asynchronous."""
    store = node.stmt
    between = generator.asynchronous and lies_in_shared(store.buffer) and is_global(store.value.source)
    return between and byte_count(width, str(store.buffer.dtype)) in ASYNC_SIZES


def _width(e: Any, loop: Any, store: Any) -> int:
    """How many elements one move may have."""
    extent = as_int(loop.extent)
    if not isinstance(extent, int) or extent < 2:
        return 1
    nest = Nest.build((Axis(loop.loop_var, extent),), store, loop.span, "T.vectorized")
    own = not any(access.buffer in e.layouts.fragments for access in nest.accesses)
    return Vectors(e.layouts.place_of, e.facts, e.root, arch_of(e.target)).of_thread(nest) if own else 1
