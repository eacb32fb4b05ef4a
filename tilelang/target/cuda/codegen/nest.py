"""Nests as code: loops that each thread runs its share of, around a body on elements or on vectors.

A body that only moves elements becomes the move of a vector itself, or cp.async.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from typing import Any

from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.memory import is_fragment, is_memory
from tilelang.ir.region import Region
from tilelang.target.cuda.codegen.emitter import Emitter
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.codegen.nest_places import NestPlaces, VectorKey, stepped_address
from tilelang.target.cuda.codegen.statements import statement
from tilelang.target.cuda.inference.loop_layout import LoopLayout, register_form
from tilelang.target.cuda.intrinsics.values import memory_order
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.code import Block, BranchCode, Code, counted, leaf, under, with_span
from tilelang.target.cuda.ir.cpp_types import FLOAT_VECTORS, VECTOR_TYPES, byte_count, is_packed
from tilelang.target.cuda.ir.instructions import Assign, CopyAsync, DeclareArray, Evaluate, Move
from tilelang.target.cuda.ir.values import ASYNC_SIZES, Array, Call, Value, both
from tilelang.target.cuda.tile.addition import addition
from tilelang.target.cuda.tile.gather import selected_load
from tilelang.target.cuda.tile.nest import is_movable
from tilelang.target.cuda.tile.tree import Parallel


def emit_nest(
    emitter: Emitter, node: Parallel, layout: LoopLayout, filled: Region | None = None, asynchronous: bool = False
) -> list[Code]:
    """The code of a nest under a distribution.

    Args:
        filled: what it overwrites as a whole.
        asynchronous: whether it is a copy that may be made by cp.async.
    """
    with emitter.names.block():
        loops = NestLoops(emitter, node.nest, layout, by_thread=node in emitter.layouts.per_thread)
        size = byte_count(loops.width, str(node.nest.body.buffer.dtype)) if asynchronous else 0
        async_bytes = size if size in ASYNC_SIZES else 0
        storages = set() if filled is None else {emitter.array(filled.buffer).storage} - {None}
        code = leaf(loops.around(_body(loops, async_bytes)), storages)
        return [emitter.annotated(code, node.nest.accesses, loops.thread_map)]


def _body(loops: NestLoops, async_bytes: int) -> list[Any]:
    """The body of a nest; a condition on which the elements of a vector agree stands around what moves whole vectors."""
    hoisted = loops.vectors.without_guard(loops.nest, loops.width) if loops.width > 1 else None
    if hoisted is None:
        return _unguarded(loops, async_bytes)
    guard, inner = hoisted
    # The guard is evaluated once for the vector, so the body is lowered without it.
    outer, loops.nest = loops.nest, inner
    with loops.e.conditions.assuming(guard):
        code = under(loops.e.value(guard), _unguarded(loops, async_bytes))
    loops.nest = outer
    return code


def _unguarded(loops: NestLoops, async_bytes: int) -> list[Any]:
    span = getattr(loops.nest.body, "span", None)
    move = _move(loops, async_bytes)
    if move is not None:
        return with_span(move, span)
    if loops.width > 1:
        return with_span(_VectorBody(loops).code(), span)
    with NestPlaces(loops).in_force():
        return statement(loops.e, loops.nest.body, loops.owner)


# Moves -----------------------------------------------------------------------------------------------------------------


def _move(loops: NestLoops, async_bytes: int) -> list[Any] | None:
    """A body that only copies an element, as one vector move; None where it is more than that."""
    e, store = loops.e, loops.nest.body
    found = selected_load(store.value) if isinstance(store, ir.BufferStore) else None
    if found is None:
        return None
    load, condition = found
    source, target, dtype = load.source, store.buffer, str(store.buffer.dtype)
    if str(source.dtype) != dtype or (loops.width == 1 and not async_bytes):
        return None
    if condition is not None and not loops.vectors.agree(condition, loops.nest, loops.width):
        return None
    start = _vector_address(loops, source, list(load.indices))
    end = _vector_address(loops, target, list(store.indices))
    if start is None or end is None:
        return None
    with e.conditions.assuming(condition) if condition is not None else nullcontext():
        exists = e.places.bounds_guard(source, list(load.indices))
    # Of threads that run the same iteration one alone stores to memory; each stores to its own registers.
    guard = both([loops.owner if is_memory(target) else None, e.places.bounds_guard(target, list(store.indices))])
    if exists is not None and e.tree.hints.safe_values.get(source) is not None:
        return None  # the instructions below put zeros where an element does not exist
    exists = both([None if condition is None else e.value(condition), exists])
    if async_bytes:
        return under(guard, [CopyAsync(async_bytes, end, start, exists)])
    size = byte_count(loops.width, dtype)
    if size not in VECTOR_TYPES:
        return None
    # A fragment that is moved as integers alone may become integers for NVRTC. Moves from and to the floats of a product that is
    # in flight read its registers then, and ptxas waits for each instruction of a product (C7514).
    in_registers = dtype == "float32" and (is_fragment(source) or is_fragment(target))
    return under(guard, [Move(size, end, start, exists, FLOAT_VECTORS.get(size, "") if in_registers else "")])


def _vector_address(loops: NestLoops, buffer: Any, indices: list[Any]) -> Value | None:
    """The address of a vector's first element; None where its elements are not neighbours."""
    e = loops.e
    if is_fragment(buffer):
        form = register_form(indices, e.layouts.fragments[buffer], loops.layout)
        if form is None or (loops.width > 1 and not loops.is_adjacent(form)):
            return None
        return e.array(buffer).to(loops.register(form))
    moves = loops.width == 1 or _moves_along(buffer, indices, loops)
    return stepped_address(loops, buffer, indices) if is_memory(buffer) and moves else None


def _moves_along(buffer: Any, indices: Sequence[Any], loops: NestLoops) -> bool:
    """Whether the elements of a vector lie along the rows of a buffer, which may have no axis."""
    return loops.vectors.moves_along(buffer, indices, loops.axis, loops.width)


# Bodies on vectors -----------------------------------------------------------------------------------------------------


class _VectorBody:
    """The body of a nest on vectors: loads of whole vectors, the body for each of their elements, stores of whole vectors."""

    def __init__(self, loops: NestLoops):
        self.loops, self.e = loops, loops.e
        self.added, self.nest = None, loops.nest
        found = addition(loops.nest.body)
        # What is added to neighbours is collected like what is stored.
        if found is not None and _moves_along(found[1].buffer, found[1].indices, loops):
            self.added, self.nest = found[0], loops.nest.over(found[1])
        self.key = NestPlaces(loops).vector_key
        self.vectors: dict[VectorKey, Array] = {}
        self.collected: list[DeclareArray] = []  # declarations of the arrays that stores are collected in

    def code(self) -> list[Any]:
        """What runs for one vector."""
        loads = [code for access in self.nest.accesses if self._reads_vector(access) for code in self._load(access)]
        stores = [code for access in self.nest.accesses if self._writes_vector(access) for code in self._store(access)]
        assert self.added is None or stores, "elements would be stored in place of added"
        return [*loads, *self.collected, *self._elements(), *stores]

    # What is moved as vectors ---------------------------------------------------------------------------------------------

    def _may_be_vector(self, access: Access) -> bool:
        movable = not access.site.conditional and is_movable(access, self.nest, self.e.root)
        return is_memory(access.buffer) and movable and _moves_along(access.buffer, access.site.indices, self.loops)

    def _same_storage(self, access: Access) -> list[Access]:
        root = self.e.root(access.buffer)
        return [other for other in self.nest.accesses if self.e.root(other.buffer) == root]

    def _reads_vector(self, access: Access) -> bool:
        """Whether an element may be read ahead of the body: the body must not read it again after a store to that buffer."""
        if access.kind != READ or not self._may_be_vector(access):
            return False
        others = self._same_storage(access)
        # x[i] = a[i]; y[i] = x[i]: the second statement must read what the first has stored, and not what was there before the
        # body.
        last_read = max(other.site.step for other in others if other.kind == READ)
        return all(last_read <= other.site.step for other in others if other.kind != READ)

    def _writes_vector(self, access: Access) -> bool:
        """Whether a store is collected: nothing of that storage is touched after it."""
        if access.kind != WRITE or not self._may_be_vector(access):
            return False
        others = self._same_storage(access)
        # A collected store comes after the bodies of all elements of the vector: with two stores to one buffer their order would
        # change.
        return sum(other.kind != READ for other in others) == 1 and all(other.site.step <= access.site.step for other in others)

    # Loads and stores --------------------------------------------------------------------------------------------------

    def _load(self, access: Access) -> list[Any]:
        e, buffer, indices = self.e, access.buffer, list(access.site.indices)
        if self.key(READ, buffer, indices) in self.vectors:
            return []
        guard = e.places.bounds_guard(buffer, indices)
        if any(other.kind != READ and other.buffer.same_as(buffer) for other in self.nest.accesses):
            # The thread that stores is the one that reads: another may come after the store.
            guard = both([self.loops.owner, guard])
        vector, address, size = self._vector(READ, access)
        if guard is None or e.tree.hints.safe_values.get(buffer) is None:
            return [self._declaration(vector), Move(size, vector.to(0), address, guard)]
        at = e.names.take("l")
        fill = counted(at, self.loops.width, [Assign(vector.at(at), e.places.missing(buffer))])
        return [self._declaration(vector), BranchCode(guard, Block([Move(size, vector.to(0), address)]), Block([fill]))]

    def _store(self, access: Access) -> list[Any]:
        vector, address, size = self._vector(WRITE, access)
        self.collected.append(self._declaration(vector))
        guard = both([self.loops.owner, self.e.places.bounds_guard(access.buffer, list(access.site.indices))])
        store = Move(size, address, vector.to(0))
        if self.added is not None:
            store = Evaluate(Call("tl::atomic_add_global", (address, vector.to(0)), (self.loops.width, memory_order(self.added))))
        return under(guard, [store])

    def _vector(self, kind: str, access: Access) -> tuple[Array, Value, int]:
        """The array that stands for an access, the address that it stands for, and the bytes of the vector."""
        buffer = access.buffer
        indices, dtype = list(access.site.indices), str(buffer.dtype)
        vector = self.vectors[self.key(kind, buffer, indices)] = Array(self.e.names.take(f"{buffer.name}_v").text, dtype)
        return vector, stepped_address(self.loops, buffer, indices), byte_count(self.loops.width, dtype)

    def _declaration(self, vector: Array) -> DeclareArray:
        size = byte_count(self.loops.width, vector.dtype)
        packed = is_packed(vector.dtype)
        return DeclareArray(vector, size if packed else self.loops.width, size, zero=packed)

    # Elements ----------------------------------------------------------------------------------------------------------

    def _elements(self) -> list[Any]:
        """The body for each element of the vector."""
        lane = self.e.names.take("l")
        with NestPlaces(self.loops, lane, self.vectors).in_force():
            return [counted(lane, self.loops.width, statement(self.e, self.nest.body, self.loops.owner))]
