"""Vector widths: how many neighbouring elements one thread may move together, decided exactly from index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, UPDATE, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_array, is_fragment, is_global, is_memory
from tilelang.ir.visit import conjunction, conjuncts, mentions, operands, walk_expr
from tilelang.layout.fragment import REGISTER, Mode
from tilelang.records import Record
from tilelang.target.cuda.arch import Arch
from tilelang.target.cuda.inference.loop_layout import LoopLayout, register_form
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.ir.cpp_types import is_packed
from tilelang.target.cuda.tile.addition import addition, widest_addition
from tilelang.target.cuda.tile.nest import Nest, is_movable
from tilelang.target.cuda.tile.vector_index import VectorIndex, makes_unit_steps, vector_index

_VECTOR_BITS = 128
_LOGIC = (ir.And, ir.Or, ir.Not)
_COMPARISONS = (ir.EQ, ir.NE, ir.LT, ir.LE, ir.GT, ir.GE)


def element_strides(buffer: Any) -> list[Any]:
    """Strides of a global buffer in elements, row-major where it declares none.

    Rows of elements of four bits begin with a byte: one of an odd length ends with half a byte that is not used.
    """
    if len(buffer.strides):
        return [as_int(stride) for stride in buffer.strides]
    sizes = [as_int(size) for size in buffer.shape]
    if sizes and is_packed(str(buffer.dtype)):
        sizes[-1] = sizes[-1] + sizes[-1] % 2
    strides, step = [], 1
    for extent in reversed(sizes):
        strides.append(step)
        step = step * extent if isinstance(step, int) and isinstance(extent, int) else extent * step
    return strides[::-1]


def row_axis(buffer: Any) -> int:
    """The axis along which neighbours are next to each other: the last one, unless a tensor's strides say another."""
    last = len(buffer.shape) - 1
    if not is_global(buffer) or is_packed(str(buffer.dtype)):  # two elements of a byte are neighbours along the last axis
        return last
    unit = [axis for axis, stride in enumerate(element_strides(buffer)) if _is_one(stride)]
    # The stride of an axis of one element means nothing.
    return max(unit, key=lambda axis: (not _is_one(as_int(buffer.shape[axis])), axis), default=last)


def _is_one(size: Any) -> bool:
    return isinstance(size, int) and size == 1


def contiguous_axis(nest: Nest) -> int:
    """The axis along which memory is contiguous in most traffic: global first, then more elements, then stores before loads."""
    ranked = sorted(
        (access for access in nest.accesses if is_memory(access.buffer)),
        # Global memory is the slowest, and a request of scattered lanes takes up to 32 sectors of it instead of 4. Stores before
        # loads: the other elements of a sector that was loaded may be found in L1, whereas each scattered store goes to L2 by
        # itself.
        key=lambda access: (not is_global(access.buffer), -_elements(access, nest), access.kind == READ),
    )
    for access in ranked:
        place = _unit_axis(access, nest)
        if place is not None and nest.axes[place].extent > 1:
            return place
    return len(nest.axes) - 1


def _elements(access: Access, nest: Nest) -> int:
    """How many elements of a buffer a nest touches; row numbers that a row is found by are fewer than what is in the rows."""
    return math.prod(axis.extent for place, axis in enumerate(nest.axes) if nest.moves(access, place))


def _unit_axis(access: Access, nest: Nest) -> int | None:
    index = access.site.indices[row_axis(access.buffer)] if access.site.indices else 0
    places = (place for place in reversed(range(len(nest.axes))) if nest.moves(access, place))
    return next((place for place in places if makes_unit_steps(index, nest.axes[place].var)), None)


class Vectors(Record, eq=False):
    """Decides how wide the vectors of nests are.

    Attributes:
        place_of: gives the layout of a shared tile or a fragment.
        facts: known facts about integer expressions.
        root: gives the buffer whose memory a buffer names.
        arch: the architecture.
    """

    place_of: Callable[[Any], Any]
    facts: Facts
    root: Callable[[Any], Any]
    arch: Arch

    def width(self, nest: Nest, place: int) -> int:
        """The widest vector along an axis, by its number, that every hoistable memory access of a nest can use."""
        return self._width(nest, place, nest.axes[place].extent)

    def _width(self, nest: Nest, place: int, limit: int) -> int:
        """The same, of which ``limit`` elements are a multiple."""
        accesses = [access for access in nest.accesses if is_memory(access.buffer) and nest.moves(access, place)]
        width = max((_widest_move(access.buffer) for access in accesses or nest.accesses), default=1)
        if nest.vector is not None:
            width = min(width, nest.vector)
        while width > 1 and not (limit % width == 0 and self._allows(accesses, nest, place, width)):
            width //= 2
        return max(width, 1)

    def _allows(self, accesses: Sequence[Access], nest: Nest, place: int, width: int) -> bool:
        """Whether accesses can be made for ``width`` elements along an axis at a time."""
        # One guard for a vector must be right for all of its elements: the limit may not fall inside of one.
        end = nest.axes[place].limit
        if end is not None and not self.facts.divisible(end, width):
            return False
        return all(self._is_one_access(access, nest, place, width) for access in accesses)

    def _is_one_access(self, access: Access, nest: Nest, place: int, width: int) -> bool:
        """Whether an access moves a vector of ``width`` elements along an axis, or reads one element for all of them."""
        if width <= self._widest(access, nest, width) and is_movable(access, nest, self.root):
            if self._fits(access, nest, place, width, self._rows_aligned):
                return True
        return access.kind == READ and all(self._is_still(index, nest.axes[place].var, width) for index in access.site.indices)

    def _widest(self, access: Access, nest: Nest, width: int) -> int:
        """The elements of the widest vector that an access of a nest, which moves ``width`` of them at a time, may have."""
        if access.kind in (READ, WRITE):
            return _widest_move(access.buffer)
        unguarded = self.without_guard(nest, width)
        is_addition = addition(nest.body if unguarded is None else unguarded[1].body) is not None
        return widest_addition(access.buffer, self.arch) if access.kind == UPDATE and is_addition else 1

    def of_thread(self, nest: Nest) -> int:
        """The widest vector along the one axis of a thread's own loop, which may be over arrays in registers, too."""
        arrays = [access for access in nest.accesses if not is_memory(access.buffer)]
        if not all(is_array(access.buffer) for access in arrays):
            return 1
        width = self.width(nest, 0)
        while width > 1 and not all(self._fits(access, nest, 0, width, _array_aligned) for access in arrays):
            width //= 2
        return width

    def split(self, nest: Nest, loop: LoopLayout) -> tuple[int, LoopLayout]:
        """The vector width of a distributed nest, and its distribution with the vector as a digit of its own.

        Vectors lie along the contiguous axis, where the first digit of it counts steps of one thread.
        """
        place = contiguous_axis(nest)
        number, dim = next((n, dim) for n, dim in enumerate(loop.dims) if dim.var is nest.axes[place].var)
        first = dim.modes[0] if dim.modes else None
        if first is None or first.coord != REGISTER or dim.is_shifted:
            return 1, loop
        # One guard stands for a vector, so that no vector may straddle the edge.
        # `dim.size` exceeds the extent where the last step is guarded.
        if dim.size != dim.extent and dim.extent % first.extent:
            return 1, loop
        width = self._width(nest, place, first.extent)
        while width not in (1, first.extent):
            rest = Mode(first.extent // width, first.stride * width, REGISTER)
            parts = replace(dim, modes=(Mode(width, first.stride, REGISTER), rest, *dim.modes[1:]))
            parted = replace(loop, dims=(*loop.dims[:number], parts, *loop.dims[number + 1 :]))
            # y[j % 6] with j of 12: vectors of four would straddle the sixth element, whose registers begin anew.
            if self._registers(nest, parted) == self._registers(nest, loop):
                return width, parted
            width //= 2
        return width, loop

    def _registers(self, nest: Nest, loop: LoopLayout) -> list[Access]:
        """The accesses of fragments whose registers are known in a distribution."""
        found = [(access, self.place_of(access.buffer)) for access in nest.accesses if is_fragment(access.buffer)]
        known = [(access, layout) for access, layout in found if layout is not None]
        return [access for access, layout in known if register_form(access.site.indices, layout, loop) is not None]

    def without_guard(self, nest: Nest, width: int) -> tuple[Any, Nest] | None:
        """The condition around a nest's body, and the nest without it; None if there is no condition, or if elements of a vector
        of that width may disagree on it."""
        conditions, body = [], nest.body
        while isinstance(body, ir.IfThenElse) and body.else_case is None:
            conditions.append(body.condition)
            body = body.then_case
        if not conditions or not all(self.agree(condition, nest, width) for condition in conditions):
            return None
        return conjunction(conditions), nest.over(body)

    def agree(self, condition: Any, nest: Nest, width: int) -> bool:
        """Whether the elements of a vector of that width agree on a condition."""
        place = contiguous_axis(nest)
        return all(self._is_uniform(part, nest.axes[place].var, width) for part in conjuncts(condition))

    def _is_uniform(self, part: Any, axis: Any, width: int) -> bool:
        """Whether the elements of an aligned vector agree on a condition: what it compares does not change in the vector, or is
        bounded by a multiple of the width."""
        # No iteration writes what another reads, so that memory is the same for the whole vector. Registers are not there before
        # the elements.
        if any(
            isinstance(node, ir.Call) or (isinstance(node, ir.TensorLoad) and not is_memory(node.source))
            for node in walk_expr(part)
        ):
            return False
        if not mentions(part, {axis}):
            return True
        if isinstance(part, _LOGIC):
            return all(self._is_uniform(side, axis, width) for side in operands(part))
        if not isinstance(part, _COMPARISONS):
            return False
        left, right = (self._index(side, axis, width) for side in (part.a, part.b))
        if left is None or right is None:
            return False
        index, bound = (left, right) if isinstance(part, (ir.LT, ir.GE)) else (right, left)
        is_bounded = index.step == 1 and index.is_aligned and bound.step == 0 and bound.is_aligned
        return left.step == right.step == 0 or (is_bounded and not isinstance(part, (ir.EQ, ir.NE)))

    def moves_along(self, buffer: Any, indices: Sequence[Any], axis: Any, width: int) -> bool:
        """Whether the elements of a vector along an axis are neighbours in a buffer, and not one element."""
        along = self._index(indices[row_axis(buffer)], axis, width) if len(indices) else None
        return along is not None and along.step == 1

    def _fits(self, access: Access, nest: Nest, place: int, width: int, rows: Callable[[Any, int], bool]) -> bool:
        """Whether an access can be made ``width`` elements at a time along an axis; ``rows``: whether rows are so aligned."""
        outer = list(access.site.indices)
        axis = nest.axes[place].var
        along = self._index(outer.pop(row_axis(access.buffer)), axis, width)
        if along is None or not (along.step == 1 and along.is_aligned and rows(access.buffer, width)):
            return False
        return all(self._is_still(index, axis, width) for index in outer)

    def _is_still(self, index: Any, axis: Any, width: int) -> bool:
        if not mentions(index, {axis}):
            return True
        found = self._index(index, axis, width)
        return found is not None and found.step == 0

    def _index(self, index: Any, axis: Any, width: int) -> VectorIndex | None:
        return vector_index(index, axis, width, self.facts.divisor)

    def _rows_aligned(self, buffer: Any, width: int) -> bool:
        """Whether every row of a tensor or a shared tile starts and ends at a multiple of ``width`` elements."""
        if is_global(buffer):
            outer, along = element_strides(buffer), row_axis(buffer)
            step, size = outer.pop(along), as_int(buffer.shape[along])
            return isinstance(step, int) and step == 1 and all(self.facts.divisible(each, width) for each in (size, *outer))
        layout = self.place_of(buffer)
        return layout is not None and layout.vector >= width


def _widest_move(buffer: Any) -> int:
    """The elements of the widest load or store."""
    return _VECTOR_BITS // canonical(str(buffer.dtype)).stored_bits


def _array_aligned(buffer: Any, width: int) -> bool:
    """Whether every row of an array in registers starts at a multiple of ``width`` elements."""
    size = as_int(buffer.shape[-1])
    return isinstance(size, int) and (size % width == 0 or len(buffer.shape) == 1)


def shrink_to_threads(width: int, nest: Nest, threads: int) -> int:
    """The vector width, halved until every thread has a vector."""
    # Elements of four bits share a byte, which two threads can only store by atomic operations.
    stored = (access.buffer for access in nest.accesses if is_memory(access.buffer) and access.kind != READ)
    least = 2 if any(is_packed(str(buffer.dtype)) for buffer in stored) else 1
    total = math.prod(axis.extent for axis in nest.axes)
    # 64 floats for 128 threads: vectors of 16 bytes would leave 112 threads idle, and take as many sectors.
    while width > least and total // width < threads:
        width //= 2
    return width
