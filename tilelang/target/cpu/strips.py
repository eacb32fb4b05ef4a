"""A serial loop around loops over the same elements, a strip of elements at a time (strip-mining and loop interchange).

    for x in range(X):                             for s in range(C // strip):
        for c in T.Parallel(C):                        kept = weight[strip s]            # in registers
            acc[c] = data[x, c] * weight[c]     =>     for x in range(X):
        for c in T.Parallel(C):                            acc[strip s] = data[x, strip s] * kept
            out[x, c] = acc[c]                             out[x, strip s] = acc[strip s]

What does not change in the serial loop then stays in registers, where each step of the program's own order loads all of it again:
``out`` may be the same memory as ``weight`` for all that a compiler knows.

It is legal where no strip depends on another: all accesses are at the element of the iteration, in rows of one length, which
keeps strips apart even where the caller passes one tensor for two parameters. (Such a tensor is not read after it was written,
docs/language.md, so that what does not change can be loaded first.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from tvm_ffi import structural_equal, structural_map

from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, constant
from tilelang.ir.memory import is_global
from tilelang.ir.visit import flattened, mentions, walk_expr
from tilelang.target.cpu.elementwise import Elementwise, elementwise
from tilelang.target.cpu.emit import local, loop, register_alloc, seq
from tilelang.target.cpu.vectors import AS_VECTOR
from tilelang.tileop import record_of
from tilelang.tileop.copy import Fill
from tilelang.transform.substitute import substitute

_FEWEST = 4
"""Steps of a loop that is worth it: what it keeps is loaded once for all of them."""

_CACHED = 512 * 1024
"""Bytes that all steps access, at most: strips of rows that no cache holds would be fetched from memory a line at a time."""

_DTYPE = "float32"
_BYTES = 4


@dataclass(frozen=True)
class _Strips:
    """A loop that runs strip by strip.

    Attributes:
        node: the serial loop.
        nests: the statements of its body.
        kept: the loads whose elements do not change in it.
        vectors: registers of a strip.
        lanes: elements of a register.
    """

    node: Any
    nests: tuple[Elementwise, ...]
    kept: tuple[Any, ...]
    vectors: int
    lanes: int

    @property
    def length(self) -> int:
        """Elements."""
        return self.nests[0].extents[0]

    @property
    def size(self) -> int:
        """Elements of a strip."""
        return self.vectors * self.lanes

    def over(self, body: Any) -> Any:
        """The serial loop over another body."""
        node = self.node
        return ir.For(node.loop_var, node.min, node.extent, node.kind, body, span=node.span)


def in_strips(node: Any, lowering: Any) -> Any | None:
    """A serial loop as a loop over strips; None for any other, and where it keeps nothing.

    Args:
        node: the loop, of which nothing is lowered yet.
        lowering: of the program (``lower.TileLowering``).
    """
    found = _found(node, lowering)
    if found is None:
        return None
    whole, rest = divmod(found.length, found.size)
    return seq(loop("s", whole, lambda s: _strip(found, s * found.size)), _end(found, rest, lowering) if rest else None)


def _found(node: Any, lowering: Any) -> _Strips | None:
    context, steps = lowering.scope.context, as_int(node.extent)
    if context.emits_c or node.kind != ir.ForKind.SERIAL or node.step is not None or as_int(node.min) != 0:
        return None
    if not isinstance(steps, int) or steps < _FEWEST:
        return None
    lowering.scope.bind_ranges([node.loop_var], [steps])
    nests = _nests(node, lowering)
    if not nests:
        return None
    (element,), (length,) = nests[0].variables, nests[0].extents
    lowering.scope.bind_ranges([element], [length])
    accesses = list(_accesses(nests))
    if not _moves_by_rows(accesses, element, lowering) or not _in_cache(accesses, node.loop_var, steps, length):
        return None
    kept = _kept(nests, node.loop_var)
    lanes, registers = context.vectors.lanes(8 * _BYTES), context.vectors.registers
    # Beside what is kept, each register of elements takes an accumulator and an operand.
    fits = [v for v in (4, 2, 1) if v * lanes <= length and v * (len(kept) + 2) <= registers]
    return _Strips(node, nests, kept, fits[0], lanes) if kept and fits else None


def _nests(node: Any, lowering: Any) -> tuple[Elementwise, ...]:
    """The statements of a loop's body as stores of elements, over one variable; none where one is something else."""
    element = ir.Var("c", "int32")
    found: list[Elementwise] = []
    for stmt in flattened(node.body):
        nest = _nest(stmt, lowering)
        if nest is None or prod(nest.extents[:-1]) != 1 or found and nest.extents[-1:] != found[0].extents:
            return ()
        values = {**dict.fromkeys(nest.variables[:-1], constant(0)), nest.variables[-1]: element}
        stores = tuple(substitute(store, values) for store in nest.stores)
        # A call may be a condition under which a load is inside of its tensor.
        if any(isinstance(part, ir.Call) for store in stores for part in walk_expr(store.value)):
            return ()
        found.append(Elementwise((element,), nest.extents[-1:], stores))
    return tuple(found)


def _nest(stmt: Any, lowering: Any) -> Elementwise | None:
    """A statement as stores of elements, if it is that."""
    record = record_of(stmt)
    if not isinstance(record, Fill):
        return elementwise(stmt, lowering.scope)
    extents = tuple(map(as_int, record.dst.extents))
    if not record.dst.is_whole or not all(isinstance(extent, int) for extent in extents):
        return None
    variables = tuple(ir.Var(f"i{axis}", "int32") for axis in range(len(extents)))
    value = constant(record.value)
    same = isinstance(value, ir.FloatImm) and str(value.ty) == str(record.dst.buffer.dtype)
    return Elementwise(variables, extents, (ir.BufferStore(record.dst.buffer, value, list(variables)),)) if same else None


def _accesses(nests: Sequence[Elementwise]) -> Iterator[tuple[Any, Sequence[Any]]]:
    """The buffers and indices of all loads and stores."""
    for store in (store for nest in nests for store in nest.stores):
        yield store.buffer, store.indices
        for expr in (store.value, *store.indices):
            yield from ((node.source, node.indices) for node in walk_expr(expr) if isinstance(node, ir.TensorLoad))


def _moves_by_rows(accesses: Sequence[tuple[Any, Sequence[Any]]], element: Any, lowering: Any) -> bool:
    """Whether every access is at the element of the iteration, in memory whose rows have one length, and inside of it."""
    first, row = None, None
    for buffer, indices in accesses:
        if not indices:
            return False
        *outer, last = indices
        start = constant(lowering.scope.facts.simplify(last - element))
        if mentions(start, {element}) or any(mentions(index, {element}) for index in outer) or str(buffer.dtype) != _DTYPE:
            return False
        if not is_global(buffer):
            if hash(buffer) not in lowering.own or as_int(start) != 0:
                return False
            continue
        first, row = (start, buffer.shape[-1]) if first is None else (first, row)
        # A view is another name of a tensor; what is streamed takes the caches by.
        named_once = hash(buffer) in lowering.parameters and hash(buffer) not in lowering.streams.tensors
        if not named_once or len(buffer.strides) or not structural_equal(start, first) or as_int(buffer.shape[-1]) != as_int(row):
            return False
        if lowering.guards is not None and lowering.guards.condition(buffer, indices) is not None:
            return False
    return isinstance(as_int(row), int)


def _in_cache(accesses: Sequence[tuple[Any, Sequence[Any]]], step: Any, steps: int, length: int) -> bool:
    """Whether a cache holds the rows that all steps access."""
    moving = [indices for buffer, indices in accesses if is_global(buffer) and any(mentions(index, {step}) for index in indices)]
    return len(moving) * steps * length * _BYTES <= _CACHED


def _kept(nests: Sequence[Elementwise], step: Any) -> tuple[Any, ...]:
    """The loads from tensors that are the same in all steps, each once."""
    stores = [store for nest in nests for store in nest.stores]
    stored = {hash(store.buffer) for store in stores}
    found: list[Any] = []
    for node in (node for store in stores for node in walk_expr(store.value)):
        still = isinstance(node, ir.TensorLoad) and is_global(node.source) and hash(node.source) not in stored
        if still and not mentions(node, {step}) and not any(structural_equal(node, each) for each in found):
            found.append(node)
    return tuple(found)


def _strip(found: _Strips, first: Any) -> Any:
    """All steps for the strip that begins at an element."""
    lanes, (element,) = found.lanes, found.nests[0].variables
    registers = local("kept", (len(found.kept) * found.size,), _DTYPE)

    def at_lanes(stores: Callable[[Any], Sequence[Any]], vector: int) -> Any:
        """The stores for each lane of a register, as a loop."""
        lane = ir.Var("l", "int32")
        body = seq([substitute(store, {element: first + vector * lanes + lane}) for store in stores(lane)])
        return ir.For(lane, constant(0), constant(lanes), ir.ForKind.SERIAL, body, annotations={AS_VECTOR: constant(1)})

    def places(vector: int, lane: Any) -> list[tuple[Any, Any]]:
        """What is kept, and the index of its place."""
        return [(load, lane + (vector * len(found.kept) + at) * lanes) for at, load in enumerate(found.kept)]

    def load(vector: int) -> Any:
        return at_lanes(lambda lane: [ir.BufferStore(registers, value, [at]) for value, at in places(vector, lane)], vector)

    def update(nest: Elementwise, vector: int) -> Any:
        def stores(lane: Any) -> list[Any]:
            values = [(value, ir.BufferLoad(registers, [at])) for value, at in places(vector, lane)]
            return [_with(store, values) for store in nest.stores]

        return at_lanes(stores, vector)

    vectors = range(found.vectors)
    steps = found.over(seq([update(nest, vector) for vector in vectors for nest in found.nests]))
    return seq(register_alloc(registers, lanes), [load(vector) for vector in vectors], steps)


def _end(found: _Strips, count: int, lowering: Any) -> Any:
    """All steps for the last elements."""
    return found.over(seq([lowering.stmt(nest.piece((), constant(found.length - count), count)) for nest in found.nests]))


def _with(store: Any, values: Sequence[tuple[Any, Any]]) -> Any:
    """A store with loads from registers in place of those that are kept."""

    def value(load: Any) -> Any:
        return next((register for kept, register in values if structural_equal(load, kept)), load)

    return structural_map(store, [(ir.TensorLoad, value)])
