"""Vector widths: how many neighbouring elements one thread may move together, decided exactly from index arithmetic."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tilelang.dtypes import canonical
from tilelang.ir import nodes as ir
from tilelang.ir.access import READ, WRITE
from tilelang.ir.expr import as_int
from tilelang.ir.facts import Facts
from tilelang.ir.memory import is_global, is_memory
from tilelang.ir.visit import walk_expr
from tilelang.layout.digits import Digit, Form, NotMixedRadix
from tilelang.layout.fragment import REGISTER, Mode
from tilelang.target.cuda.inference.loop_layout import LoopLayout
from tilelang.target.cuda.ir.access import Access
from tilelang.target.cuda.tile.nest import Axis, Nest, conjuncts, form_of, is_movable, mentions

_VECTOR_BITS = 128


def element_strides(buffer: Any) -> list[Any]:
    """Strides of a global buffer in elements, row-major where it declares none."""
    if len(buffer.strides):
        return [as_int(stride) for stride in buffer.strides]
    strides, step = [], 1
    for extent in reversed([as_int(size) for size in buffer.shape]):
        strides.append(step)
        step = step * extent if isinstance(step, int) and isinstance(extent, int) else extent * step
    return strides[::-1]


def axis_forms(nest: Nest) -> dict[Any, Form]:
    """Each variable of a nest as one digit, named by its place."""
    return {axis.var: Form.of_digit(Digit(str(place), max(axis.extent, 2), "axis")) for place, axis in enumerate(nest.axes)}


def contiguous_axis(nest: Nest) -> int:
    """The axis along which memory is contiguous in most traffic: global first, then more elements, then stores before loads."""
    forms = axis_forms(nest)
    ranked = sorted(
        (access for access in nest.accesses if is_memory(access.buffer)),
        key=lambda access: (not is_global(access.buffer), -_elements(access, nest), access.kind == READ),
    )
    for access in ranked:
        place = _unit_axis(access, forms)
        if place is not None and nest.axes[place].extent > 1:
            return place
    return len(nest.axes) - 1


def _elements(access: Access, nest: Nest) -> int:
    """How many elements of a buffer a nest touches; row numbers that a row is found by are fewer than what is in the rows."""
    return math.prod(axis.extent for axis in nest.axes if any(mentions(index, {axis.var: 0}) for index in access.site.indices))


def _unit_axis(access: Access, forms: Mapping[Any, Form]) -> int | None:
    try:
        form = form_of(access.site.indices[-1], forms)
    except NotMixedRadix:
        return None
    step = [term for term in form if term.weight == 1 and term.low == 1]
    return int(step[0].digit.name) if step else None


def vector_width(nest: Nest, place: int, limit: int, layouts: Mapping[Any, Any], facts: Facts, root: Callable[[Any], Any]) -> int:
    """The widest vector along an axis that every hoistable memory access of the nest can use.

    Args:
        nest: the nest.
        place: number of the axis.
        limit: elements that must be divisible by the width.
        layouts: of shared buffers.
        facts: known facts about integer expressions.
        root: gives the buffer whose memory a buffer names.
    """
    var = nest.axes[place].var
    accesses = [
        access for access in nest.accesses if is_memory(access.buffer) and any(mentions(i, {var: 0}) for i in access.site.indices)
    ]
    width = min((_VECTOR_BITS // canonical(str(a.buffer.dtype)).bits for a in accesses or nest.accesses), default=1)
    if nest.vector is not None:
        width = min(width, nest.vector)
    # The limit is tested once a vector, so that it must not fall into the middle of one.
    if nest.axes[place].limit is not None and not facts.divisible(nest.axes[place].limit, width):
        width = 1
    forms = axis_forms(nest)
    if not all(access.kind in (READ, WRITE) and is_movable(access, nest, root) for access in accesses):
        return 1
    while width > 1 and not (
        limit % width == 0 and all(_fits(access, var, str(place), width, forms, layouts, facts) for access in accesses)
    ):
        width //= 2
    return max(width, 1)


def vectorised(
    nest: Nest, loop: LoopLayout, layouts: Mapping[Any, Any], facts: Facts, root: Callable[[Any], Any]
) -> tuple[int, LoopLayout]:
    """The vector width of a distributed nest, and its distribution with the vector as a digit of its own.

    Vectors lie along the contiguous axis, where the first digit of it counts steps of one thread.

    Args:
        nest: the nest.
        loop: its distribution.
        layouts: of shared buffers.
        facts: known facts about integer expressions.
        root: gives the buffer whose memory a buffer names.
    """
    if not nest.axes:
        return 1, loop
    place = contiguous_axis(nest)
    number = next((n for n, dim in enumerate(loop.dims) if dim.var is nest.axes[place].var), None)
    if number is None:
        return 1, loop
    dim = loop.dims[number]
    first = dim.modes[0] if dim.modes else None
    if first is None or first.coord != REGISTER or not (isinstance(dim.shift, int) and dim.shift == 0):
        return 1, loop
    # The modes cover more than the extent: a vector could begin before the end and reach over it.
    if dim.size != dim.extent and dim.extent % first.extent:
        return 1, loop
    width = vector_width(nest, place, first.extent, layouts, facts, root)
    if width in (1, first.extent):
        return width, loop
    rest = Mode(first.extent // width, first.stride * width, REGISTER)
    split = replace(dim, modes=(Mode(width, first.stride, REGISTER), rest, *dim.modes[1:]))
    return width, replace(loop, dims=(*loop.dims[:number], split, *loop.dims[number + 1 :]))


def _fits(
    access: Access, var: Any, name: str, width: int, forms: Mapping[Any, Form], layouts: Mapping[Any, Any], facts: Facts
) -> bool:
    """Whether an access can be made ``width`` elements at a time along ``var``."""
    *outer, last = access.site.indices
    if any(mentions(index, {var: 0}) for index in outer):
        return False
    return _begins_aligned(last, name, width, forms, facts) and rows_aligned(access.buffer, width, layouts, facts)


def _begins_aligned(index: Any, name: str, width: int, forms: Mapping[Any, Form], facts: Facts) -> bool:
    """Whether an index counts the elements of a vector along an axis, from a multiple of its width on."""
    try:
        form = form_of(index, forms)
    except NotMixedRadix:
        return False
    for term in form:
        if term.digit.name == name:
            if term.weight != 1 or term.low != 1 or term.extent % width:
                return False
        elif term.weight % width:
            return False
    return facts.divisible(form.offset, width)


def starts_aligned(access: Access, axis: Axis, width: int, nest: Nest, facts: Facts) -> bool:
    """Whether an access to a row-major array can be made by aligned vectors along an axis.

    Args:
        access: the access.
        axis: the axis of the nest along which vectors lie.
        width: elements of a vector.
        nest: the nest.
        facts: known facts about integer expressions.
    """
    *outer, last = access.site.indices
    name, size = str(nest.axes.index(axis)), as_int(access.buffer.shape[-1])
    rows = isinstance(size, int) and (size % width == 0 or not outer)
    still = not any(mentions(index, {axis.var: 0}) for index in outer)
    return rows and still and _begins_aligned(last, name, width, axis_forms(nest), facts)


def without_guard(nest: Nest, var: Any, width: int, facts: Facts) -> tuple[Any, Nest] | None:
    """Separates the condition around a nest's body, if it is equal for all elements of a vector.

    Args:
        nest: the nest.
        var: the axis along which vectors lie.
        width: elements of a vector.
        facts: known facts about integer expressions.

    Returns:
        The condition and the nest without it; None if there is no condition, or if it may differ within a vector.
    """
    guard, body = None, nest.body
    while isinstance(body, ir.IfThenElse) and body.else_case is None:
        guard = body.condition if guard is None else ir.And(guard, body.condition)
        body = body.then_case
    forms = axis_forms(nest)
    name = next(str(place) for place, axis in enumerate(nest.axes) if axis.var is var)
    if guard is None or not all(_is_uniform(part, var, name, width, forms, facts) for part in conjuncts(guard)):
        return None
    return guard, nest.over(body)


def _is_uniform(part: Any, var: Any, name: str, width: int, forms: Mapping[Any, Form], facts: Facts) -> bool:
    """Whether the elements of an aligned vector agree on a condition: its bound is a multiple of the width, where one counts."""
    if any(isinstance(node, (ir.TensorLoad, ir.Call)) for node in walk_expr(part)):
        return False
    if not mentions(part, {var: 0}):
        return True
    if isinstance(part, (ir.LT, ir.GE)):
        index, bound = part.a, part.b
    elif isinstance(part, (ir.GT, ir.LE)):
        index, bound = part.b, part.a
    else:
        return False
    aligned = not mentions(bound, {var: 0}) and facts.divisible(bound, width)
    return aligned and _begins_aligned(index, name, width, forms, facts)


def rows_aligned(buffer: Any, width: int, layouts: Mapping[Any, Any], facts: Facts) -> bool:
    """Whether every row of a buffer starts and ends at a multiple of ``width`` elements.

    Args:
        buffer: a tensor or a shared tile.
        width: elements of a vector.
        layouts: of shared buffers.
        facts: known facts about integer expressions.
    """
    if is_global(buffer):
        strides = element_strides(buffer)
        size = as_int(buffer.shape[-1])
        if strides[-1] != 1 or not facts.divisible(size, width):
            return False
        return all(facts.divisible(stride, width) for stride in strides[:-1])
    layout = layouts.get(buffer)
    return layout is not None and layout.vector >= width


def least_width(nest: Nest) -> int:
    """How many elements one thread should store together at the least: elements of four bits share a byte, which two threads can
    only store by atomic operations."""
    stored = (access.buffer for access in nest.accesses if is_memory(access.buffer) and access.kind != READ)
    return max((8 // canonical(str(buffer.dtype)).bits for buffer in stored if canonical(str(buffer.dtype)).bits < 8), default=1)


def shrink_to_threads(width: int, extents: Sequence[int], threads: int, least: int = 1) -> int:
    """The vector width, halved until every thread has a vector.

    Args:
        width: of the widest vector.
        extents: of the nest.
        threads: that run it.
        least: the narrowest width to return.
    """
    total = math.prod(extents)
    while width > least and total // width < threads:
        width //= 2
    return width
