"""Where elements of buffers are, for code that each thread runs by itself."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from tilelang.dtypes import canonical
from tilelang.errors import MisplacedError
from tilelang.ir.access import ADDRESS
from tilelang.ir.expr import as_int
from tilelang.ir.memory import is_global, is_memory, is_variable, lies_in_shared
from tilelang.target.cuda.inference.loop_layout import register_of
from tilelang.target.cuda.inference.vectors import element_strides
from tilelang.target.cuda.ir.conversions import converted
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.ir.values import Convert, Element, Literal, Name, Number, Pointer, Select, Value, both, total

if TYPE_CHECKING:
    from tilelang.target.cuda.codegen.emitter import Emitter

INT32_LIMIT = 2**31


class Places:
    """Elements where the layouts of the kernel have them; nests see some of theirs elsewhere and override this."""

    def __init__(self, emitter: Emitter):
        self.e = emitter
        self._stored: Any = None

    def element(self, buffer: Any, indices: list[Any]) -> Value:
        """The value of an element; what the program wants in its place where it does not exist."""
        return self.read(buffer, indices, self.place(buffer, indices), self.bounds_guard(buffer, indices))

    def read(self, buffer: Any, indices: list[Any], place: Value, exists: Value | None) -> Value:
        """The value of an element at ``place``, where a condition holds."""
        if isinstance(place, Element) and self.shares_byte(buffer, indices) and self.is_stored(buffer):
            place = replace(place, shared_byte=True)
        return self.or_missing(buffer, place, exists)

    def or_missing(self, buffer: Any, place: Value, exists: Value | None) -> Value:
        """The element at ``place``; where a condition (None always holds) does not hold, the value of :meth:`missing`
        elements."""
        return place if exists is None else Select(exists, place, self.missing(buffer))

    def is_stored_by_one(self, buffer: Any) -> bool:
        """Whether one of the threads that run a statement alike stores to a buffer for all."""
        return is_memory(buffer)

    @contextmanager
    def storing(self, buffer: Any) -> Iterator[None]:
        """While this lasts, a statement is lowered that stores to a buffer."""
        outer, self._stored = self._stored, buffer
        yield
        self._stored = outer

    def is_stored(self, buffer: Any) -> bool:
        """Whether the statement being lowered stores to a buffer, too."""
        return self._stored is not None and self.e.root(self._stored) == self.e.root(buffer)

    def shares_byte(self, buffer: Any, indices: list[Any]) -> bool:
        """Whether another thread, or block, may store to the other half of an element's byte at the same time."""
        return is_packed(str(buffer.dtype)) and is_memory(buffer)

    def place(self, buffer: Any, indices: list[Any]) -> Value:
        """An element, to be read or stored to."""
        array = self.e.array(buffer)
        if is_variable(buffer):
            return array.at(0) if buffer in self.e.tree.aliases else Name(array.name)
        return array.at(self.offset(buffer, indices))

    def address(self, buffer: Any, indices: list[Any], kind: str = ADDRESS) -> Value:
        """The address of an element; ``kind`` is what is done there."""
        array = self.e.array(buffer)
        if is_variable(buffer):
            return Pointer(array, of_variable=True)
        return Pointer(array, tuple(offset for offset in self.offsets(buffer, indices) if offset != Number(0)), kind)

    def missing(self, buffer: Any) -> Value:
        """What an out-of-bounds read gives."""
        value, dtype = self.e.tree.hints.safe_values.get(buffer), str(buffer.dtype)
        if value is None:
            return Literal(0, "bool") if dtype == "bool" else Convert(dtype, Number(0))
        if isinstance(value, (int, float)):
            kind = "float32" if isinstance(value, float) else "int32"
            return converted(Literal(value, kind), kind, dtype)
        return converted(self.e.value(value), str(value.ty), dtype)

    def bounds_guard(self, buffer: Any, indices: list[Any]) -> Value | None:
        """The condition under which a global element exists; None where it certainly does."""
        e = self.e
        if not is_global(buffer) or not e.options.guarded:
            return None
        # Only what is not known is tested: a full tile of a tensor whose size is a multiple of the tile's needs nothing, and what
        # the program tests itself is not tested again.
        tests = []
        for index, size in zip(map(e.facts.simplify, indices), map(as_int, buffer.shape)):
            low, high = e.facts.bounds(index)
            if low < 0 and not e.conditions.imply(index >= 0):
                tests.append(e.index(index).is_(">=", 0))
            if not (isinstance(size, int) and high < size or e.facts.holds(index < size) or e.conditions.imply(index < size)):
                tests.append(e.index(index).is_("<", e.index(size)))
        return both(tests)

    # Offsets -----------------------------------------------------------------------------------------------------------

    def offset(self, buffer: Any, indices: list[Any]) -> Value:
        """The offset of an element in its buffer."""
        return total(self.offsets(buffer, indices))

    def offsets(self, buffer: Any, indices: list[Any]) -> tuple[Value, ...]:
        """Summands of the offset of an element, each small enough for its type."""
        if is_global(buffer):
            return self._global_offsets(buffer, indices)
        if lies_in_shared(buffer):
            return self.in_slot(buffer, self.tile_offset(buffer, indices))
        layout = self.e.layouts.fragments.get(buffer)
        if layout is not None:
            return (self._register_offset(buffer, indices, layout),)
        return (self.e.index(_row_major(buffer, indices)),)

    def tile_offset(self, buffer: Any, indices: list[Any]) -> Value:
        """The offset of an element in a shared tile, without the slot in use."""
        layout = self.e.layouts.memory.get(buffer)
        return self.e.index(_row_major(buffer, indices) if layout is None else layout.offset(indices))

    def in_slot(self, buffer: Any, offset: Value) -> tuple[Value, ...]:
        """The offset of the slot in use of a shared tile, where it has several, and one inside."""
        if buffer not in self.e.slots:
            return (offset,)
        start = self.e.slots[buffer][0] * self.slot_elements(buffer)
        return (offset,) if start == Number(0) else (start, offset)

    def slot_elements(self, buffer: Any) -> int:
        """Elements of one slot of a shared buffer, rounded up to 128 bytes."""
        # 1024 bits are 128 bytes, to which the accelerator's writes, and the slots of a ring, are aligned.
        period = 1024 // canonical(str(buffer.dtype)).stored_bits
        return -(-self.e.layouts.memory[buffer].size // period) * period

    def _register_offset(self, buffer: Any, indices: list[Any], layout: Any) -> Value:
        """A fragment's element where every thread holds the whole tile."""
        if not layout.is_whole:
            raise MisplacedError(
                f"{buffer.name} is spread over the threads; one element of it can only be read inside T.Parallel",
                hint="copy it to shared memory, or index it in a T.Parallel loop",
            )
        return self.e.index(sum(register_of(index, modes) for index, modes in zip(indices, layout.modes)))

    def _global_offsets(self, buffer: Any, indices: list[Any]) -> tuple[Value, ...]:
        strides = element_strides(buffer)
        # An int32 offset is one register and one addition; int64 takes two of each.
        if _fits_int32(buffer, strides):
            offset: Any = 0
            for index, stride in zip(indices, strides):
                offset = offset + index * stride
            return (self.e.index(offset),)
        parts = []
        for index, stride in zip(indices, strides):
            place, step = self.e.index(index), self.e.index(stride)
            if place != Number(0):
                parts.append(place if step == Number(1) else Convert("int64", place) * step)
        return tuple(reversed(parts))


def _fits_int32(buffer: Any, strides: list[Any]) -> bool:
    reach = 1
    for size, stride in zip(map(as_int, buffer.shape), strides):
        if not isinstance(size, int) or not isinstance(stride, int):
            return False
        reach += (size - 1) * stride
    return reach < INT32_LIMIT


def _row_major(buffer: Any, indices: list[Any]) -> Any:
    offset: Any = 0
    for index, extent in zip(indices, map(as_int, buffer.shape)):
        offset = offset * extent + index
    return offset
