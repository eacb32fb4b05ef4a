"""Nests as code: loops that each thread runs its share of, around a body on elements or on vectors.

A body that only moves elements becomes the move of a vector itself, or cp.async.
"""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.region import Region
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.codegen.nest_places import NestPlaces, stepped_address
from tilelang.target.cuda.codegen.statements import statement
from tilelang.target.cuda.codegen.vector_body import VectorBody
from tilelang.target.cuda.inference.loop_layout import LoopLayout, register_form
from tilelang.target.cuda.ir.code import Code, leaf, under, with_span
from tilelang.target.cuda.ir.cpp_types import VECTOR_TYPES, byte_count
from tilelang.target.cuda.ir.instructions import CopyAsync, Move
from tilelang.target.cuda.ir.values import Value, both
from tilelang.target.cuda.tile.nest import is_memory, mentions
from tilelang.target.cuda.tile.tree import FRAGMENT, Parallel


def emit_nest(
    emitter: Emitter, node: Parallel, layout: LoopLayout, filled: Region | None = None, asynchronous: bool = False
) -> list[Code]:
    """The code of a nest under a distribution.

    Args:
        filled: what it overwrites as a whole.
        asynchronous: whether it is a copy that may be made by cp.async.
    """
    with emitter.names.scope():
        loops = NestLoops(emitter, node.nest, layout, means_own=node in emitter.layouts.per_thread)
        loops.open()
        async_bytes = _async_bytes(loops) if asynchronous else 0
        storages = set() if filled is None else {emitter.array(filled.buffer).storage} - {None}
        code = leaf(loops.around(_body(loops, async_bytes)), storages)
        return [emitter.annotated(code, node.nest.accesses, loops.thread_map)]


def _async_bytes(loops: NestLoops) -> int:
    """Bytes that one cp.async of a copy moves; 0 where there is no such instruction."""
    size = byte_count(loops.width, str(loops.nest.body.buffer.dtype))
    return size if size in (4, 8, 16) else 0


def _body(loops: NestLoops, async_bytes: int) -> list[Any]:
    span = getattr(loops.nest.body, "span", None)
    move = _move(loops, async_bytes)
    if move is not None:
        return with_span(move, span)
    if loops.width > 1:
        return with_span(VectorBody(loops).code(), span)
    with NestPlaces(loops).in_force():
        return statement(loops.e, loops.nest.body, loops.owner)


# Moves -----------------------------------------------------------------------------------------------------------------


def _move(loops: NestLoops, async_bytes: int) -> list[Any] | None:
    """A body that only copies an element, as one vector move; None where it is more than that."""
    e, store = loops.e, loops.nest.body
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.TensorLoad):
        return None
    source, target, dtype = store.value.source, store.buffer, str(store.buffer.dtype)
    if str(source.dtype) != dtype or (loops.width == 1 and not async_bytes):
        return None
    start = _vector_address(loops, source, list(store.value.indices))
    end = _vector_address(loops, target, list(store.indices))
    if start is None or end is None:
        return None
    exists = e.places.bounds_guard(source, list(store.value.indices))
    guard = both([e.places.bounds_guard(target, list(store.indices)), loops.owner if is_memory(target) else None])
    if async_bytes:
        return under(guard, [CopyAsync(async_bytes, end, start, exists)])
    size = byte_count(loops.width, dtype)
    if size not in VECTOR_TYPES or (exists is not None and e.tree.hints.safe_values.get(source) is not None):
        return None
    return under(guard, [Move(size, end, start, exists)])


def _vector_address(loops: NestLoops, buffer: Any, indices: list[Any]) -> Value | None:
    """The address of a vector's first element; None where its elements are not neighbours."""
    e = loops.e
    if buffer.scope() == FRAGMENT:
        form = register_form(indices, e.layouts.fragments[buffer], loops.layout)
        if form is None or (loops.width > 1 and not loops.is_adjacent(form)):
            return None
        return e.array(buffer).to(loops.register(form))
    moves = loops.width == 1 or mentions(indices[-1], {loops.axis: 0})
    return stepped_address(loops, buffer, indices) if is_memory(buffer) and moves else None
