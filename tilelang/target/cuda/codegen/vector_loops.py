"""``T.vectorized`` loops of a thread's own statements: a loop that copies neighbouring elements moves vectors."""

from __future__ import annotations

from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.target.cuda.codegen.statements import loop_of
from tilelang.target.cuda.inference.vectors import starts_aligned, vector_width
from tilelang.target.cuda.ir.code import Block, LoopCode, leaf, under
from tilelang.target.cuda.ir.cpp_types import VECTOR_TYPES, byte_count, is_packed
from tilelang.target.cuda.ir.instructions import Move
from tilelang.target.cuda.tile.nest import Axis, Nest, is_memory
from tilelang.target.cuda.tile.tree import Loop, Scalar, accesses_of

_ARRAY = "local"


def vector_loop(generator: Any, node: Loop) -> LoopCode | None:
    """The loop over vectors that a loop over elements is; None where it is more than a copy, or its elements are not aligned."""
    e = generator.emitter
    copy = _copied(node)
    if copy is None or not (generator.divergent or e.is_by_thread(copy)):
        return None
    width = _width(e, node.stmt, copy.stmt)
    target, source = copy.stmt, copy.stmt.value
    size = byte_count(width, str(target.buffer.dtype))
    if width == 1 or size not in VECTOR_TYPES or e.tree.hints.safe_values.get(source.source) is not None:
        return None
    loop = loop_of(e, node.stmt)
    ((name, _),) = loop.counters
    loop.advance, loop.unroll, loop.span = ((name, name + width),), 0, node.stmt.span
    end = e.array(target.buffer).to(e.places.offset(target.buffer, list(target.indices)))
    start = e.array(source.source).to(e.places.offset(source.source, list(source.indices)))
    exists = e.places.bounds_guard(source.source, list(source.indices))
    code = leaf(under(e.places.bounds_guard(target.buffer, list(target.indices)), [Move(size, end, start, exists)]))
    loop.body = Block([e.annotated(code, accesses_of(copy), generator.map_of_threads)])
    return loop


def _copied(node: Loop) -> Scalar | None:
    """The statement of a vectorised loop that only copies an element."""
    stmt, items = node.stmt, node.body.items
    if int(stmt.kind) != int(ir.ForKind.VECTORIZED) or len(items) != 1 or not isinstance(items[0], Scalar):
        return None
    store = items[0].stmt
    if not isinstance(store, ir.BufferStore) or not isinstance(store.value, ir.TensorLoad) or as_int(stmt.min) != 0:
        return None
    same = str(store.buffer.dtype) == str(store.value.source.dtype) and not store.buffer.same_as(store.value.source)
    return items[0] if same and not is_packed(str(store.buffer.dtype)) else None


def _width(e: Any, loop: Any, store: Any) -> int:
    """How many elements one move may have."""
    extent = as_int(loop.extent)
    if not isinstance(extent, int) or extent < 2:
        return 1
    axis = Axis(loop.loop_var, extent)
    nest = Nest.build((axis,), store, loop.span, "T.vectorized")
    width = vector_width(nest, 0, extent, e.layouts.memory, e.facts, e.root)
    arrays = [access for access in nest.accesses if not is_memory(access.buffer)]
    if any(access.buffer.scope() != _ARRAY or access.buffer in e.layouts.fragments for access in arrays):
        return 1
    while width > 1 and not all(starts_aligned(access, axis, width, nest, e.facts) for access in arrays):
        width //= 2
    return width
