"""Where an iteration of a nest finds elements: in registers of the thread that runs it, in vectors of them, or in memory.

Addresses in unrolled loops are one base for all steps, and what each step adds: compilers see neither that a swizzle leaves
alone what is added in multiples of its period, nor that sums of 32 bits do not overflow, and compute such addresses one by one.
Written as a base and a constant, they are one register and immediate offsets.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from tilelang.ir.access import READ, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_fragment, is_memory, lies_in_shared
from tilelang.ir.visit import variables
from tilelang.layout.memory import TileLayout, row_major
from tilelang.target.cuda.analysis.disjointness import growth
from tilelang.target.cuda.codegen.nest_loops import NestLoops
from tilelang.target.cuda.codegen.places import INT32_LIMIT, Places
from tilelang.target.cuda.inference.loop_layout import Dimension, register_form
from tilelang.target.cuda.inference.vectors import element_strides
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.ir.values import Array, Pointer, Value

VectorKey = tuple[str, Any]
"""The kind of an access by vectors, and the element that it is at the base of the vector."""


class NestPlaces(Places):
    """Elements as one iteration sees them.

    Args:
        loops: the loops of the nest.
        lane: number of the vector element that the iteration is for; None where the body runs on single elements.
        vectors: the array that stands for an access, by :meth:`vector_key`.
    """

    def __init__(self, loops: NestLoops, lane: Value | None = None, vectors: Mapping[VectorKey, Array] | None = None):
        super().__init__(loops.e)
        self.loops, self.lane, self.vectors = loops, lane, vectors or {}
        self.base = None if lane is None else self.e.names.values[loops.axis]

    @contextmanager
    def in_force(self) -> Iterator[None]:
        """While this lasts, what is lowered is for this iteration."""
        e = self.e
        outer, e.places = e.places, self
        with e.substituting({} if self.lane is None else {self.loops.axis: self.base + self.lane}):
            yield
        e.places = outer

    def element(self, buffer: Any, indices: list[Any]) -> Value:
        held = self._held(READ, buffer, indices)
        if held is not None:
            return held
        return self.read(buffer, indices, super().place(buffer, indices), super().bounds_guard(buffer, indices))

    def shares_byte(self, buffer: Any, indices: list[Any]) -> bool:
        if not super().shares_byte(buffer, indices):
            return False
        # Vectors along a row begin with a byte, so that both of its elements are one thread's. w[i], next to vectors along j, is
        # an element of its own.
        return self.lane is None or not self.loops.vectors.moves_along(buffer, indices, self.loops.axis, self.loops.width)

    def is_stored_by_one(self, buffer: Any) -> bool:
        # An iteration is in the partial result of one thread.
        return super().is_stored_by_one(buffer) or buffer in self.loops.partial

    def is_stored(self, buffer: Any) -> bool:
        # Other iterations may store to neighbours of what an iteration reads.
        root = self.e.root(buffer)
        return any(access.kind == WRITE and self.e.root(access.buffer) == root for access in self.loops.nest.accesses)

    def place(self, buffer: Any, indices: list[Any]) -> Value:
        held = self._held(WRITE, buffer, indices)
        return super().place(buffer, indices) if held is None else held

    def bounds_guard(self, buffer: Any, indices: list[Any]) -> Value | None:
        return None if self._vector(WRITE, buffer, indices) else super().bounds_guard(buffer, indices)

    def _held(self, kind: str, buffer: Any, indices: list[Any]) -> Value | None:
        """The register or the element of a vector that an element is; None where it is where the kernel's layouts have it."""
        layout = self.e.layouts.fragments.get(buffer) if is_fragment(buffer) else None
        if layout is None:
            vector = self._vector(kind, buffer, indices)
            return None if vector is None else vector.at(self.lane)
        form = register_form(indices, layout, self.loops.layout)
        return None if form is None else self.e.array(buffer).at(self.loops.register(form, self.lane))

    def _vector(self, kind: str, buffer: Any, indices: list[Any]) -> Array | None:
        if self.base is None or not is_memory(buffer):
            return None
        with self.e.substituting({self.loops.axis: self.base}):
            return self.vectors.get(self.vector_key(kind, buffer, indices))

    def vector_key(self, kind: str, buffer: Any, indices: list[Any]) -> VectorKey:
        """A key for a vector access: its kind and the place of the first element."""
        return kind, self.e.array(buffer).at(self.offset(buffer, indices))


# Addresses in unrolled loops --------------------------------------------------------------------------------------------


def stepped_address(loops: NestLoops, buffer: Any, indices: list[Any]) -> Value:
    """The address of an element of memory in the iteration that a thread is at."""
    e, steps = loops.e, []
    starts, alone = {}, {}  # a variable in the first step: where loops count it; where it depends on the thread alone
    for number, dim in enumerate(loops.layout.dims):
        digits = loops.steps(number) if dim.var is not None else []
        moves = [_step(loops, buffer, indices, dim, weight, digit.extent) for digit, weight in digits]
        if dim.var is None or None in moves:
            continue
        if digits:
            starts[dim.var] = loops.start(number)
            steps += [loops.digits[digit.name] * move for (digit, _), move in zip(digits, moves) if move]
        if isinstance(dim.shift, int):
            alone[dim.var] = loops.start(number)
    address = _in_ring(e, buffer, indices, alone)
    if address is None:
        with e.substituting(starts):
            address = e.places.address(buffer, indices)
    for step in steps:
        address = address + step
    return address


def _in_ring(e: Any, buffer: Any, indices: list[Any], starts: dict[Any, Value]) -> Value | None:
    """The first address in a tile that a pipeline steps through; computed before the loop where it is the thread's alone."""
    used = {var for index in indices if not isinstance(index, int) for var in variables(index)}
    # What an address is made of beside the slot is the same in every step of the pipeline, and computed once, before it.
    if buffer not in e.slots or is_packed(str(buffer.dtype)) or not used <= starts.keys():
        return None
    with e.substituting(starts):
        lane = e.keep(e.places.tile_offset(buffer, indices), "copy_lane")
    return Pointer(e.array(buffer), e.places.in_slot(buffer, lane))


def _step(loops: NestLoops, buffer: Any, indices: list[Any], dim: Dimension, weight: int, extent: int) -> int | None:
    """What an address grows by while a dimension's variable grows by ``weight``; None where that is no constant."""
    e = loops.e
    grown = [growth(index, dim.var, e.facts) for index in indices]
    strides = _strides(e, buffer, grown)
    if strides is None:
        return None
    step = sum(growth * stride for growth, stride in zip(grown, strides) if growth) * weight
    if abs(step) * extent >= INT32_LIMIT:
        return None
    layout = e.layouts.memory.get(buffer) if lies_in_shared(buffer) else None
    swizzle = layout.swizzle if layout is not None else None
    if swizzle is not None:
        # The swizzle is (row >> shift) % 2**bits, XORed into bits `position` and up. A step that adds a multiple of 2**(shift +
        # bits) to the row leaves the mask as it is; one that adds a multiple of 2**(position + bits) to the offset leaves the
        # masked bits as they are. Only then is the swizzled address of the next step that of this step and a constant.
        rows = grown[swizzle.axis] * weight
        if rows % (1 << (swizzle.shift + swizzle.bits)) or step % swizzle.reach:
            return None
        if rows and not (isinstance(dim.shift, int) and dim.shift <= 0):
            return None  # the swizzle is simplified for rows of the tile, and the first step may be before them
    return step


def _strides(e: Any, buffer: Any, grown: list[Any]) -> list[Any] | None:
    """The stride of each axis that matters; None where there is no such number."""
    # Elements that share a byte have no stride in bytes.
    if is_packed(str(buffer.dtype)) or not all(isinstance(growth, int) for growth in grown):
        return None
    if not lies_in_shared(buffer):
        strides = element_strides(buffer)
        known = all(isinstance(stride, int) for growth, stride in zip(grown, strides) if growth)
        return strides if known else None
    layout = e.layouts.memory.get(buffer) or row_major([as_int(size) for size in buffer.shape])
    # An axis of several modes (a swizzle, a panel) does not advance by one number.
    if not isinstance(layout, TileLayout) or any(growth and len(modes) != 1 for growth, modes in zip(grown, layout.modes)):
        return None
    return [modes[0][1] if modes else 0 for modes in layout.modes]
