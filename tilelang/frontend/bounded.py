"""Tiles of run-time sizes: a slice of memory for the largest size that ``T.assume`` allows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import prod
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import LayoutError, RunTimeValueError, ShapeError
from tilelang.frontend.access import is_buffer, subscript
from tilelang.frontend.builder import Builder, current
from tilelang.frontend.loops import bound
from tilelang.frontend.tiles import Slice
from tilelang.frontend.values import as_expr
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int
from tilelang.ir.interval import interval_of
from tilelang.ir.memory import lies_in_shared
from tilelang.ir.text import expr_text
from tilelang.ir.visit import reads_memory, variables


def note_bounds(builder: Builder, test: Any) -> None:
    """Narrows the known ranges of variables by a condition that holds from here on."""
    for var, low, high in _ranges(test):
        # A size that nothing has narrowed yet is at least 0; a scalar argument may be negative.
        known_low, known_high = builder.ranges.get(var, (None if _is_argument(builder, var) else 0, None))
        lows, highs = ([end for end in ends if end is not None] for ends in ((low, known_low), (high, known_high)))
        builder.ranges[var] = (max(lows, default=None), min(highs, default=None))


def _is_argument(builder: Builder, var: Any) -> bool:
    """Whether a variable is a scalar argument, which may be negative, and not a size."""
    return builder.eager is not None and any(var.same_as(param) for param in builder.eager.params.values())


def _ranges(test: Any) -> Iterator[tuple[Any, int | None, int | None]]:
    """(variable, least, largest value) by each comparison with a number in a conjunction."""
    if isinstance(test, ir.And):
        yield from _ranges(test.a)
        yield from _ranges(test.b)
    # A disjunction, or anything else, narrows nothing.
    if type(test) not in _BOUNDS_OF_LEFT:
        return
    for a, b, kinds in ((test.a, test.b, _BOUNDS_OF_LEFT), (test.b, test.a, _BOUNDS_OF_RIGHT)):
        if isinstance(a, ir.Var) and isinstance(b, ir.IntImm):
            low, high = kinds[type(test)]
            number = int(b.value)
            yield a, None if low is None else number + low, None if high is None else number + high


_BOUNDS_OF_LEFT = {ir.LT: (None, -1), ir.LE: (None, 0), ir.GT: (1, None), ir.GE: (0, None), ir.EQ: (0, 0)}
"""Comparison ``variable <op> number`` -> what to add to the number for the variable's least and its largest value."""

_BOUNDS_OF_RIGHT = {ir.GT: (None, -1), ir.GE: (None, 0), ir.LT: (1, None), ir.LE: (0, None), ir.EQ: (0, 0)}
"""The same for ``number <op> variable``."""


def largest_sizes(what: str, sizes: Sequence[Any], builder: Builder) -> list[int]:
    """The largest value of each size.

    Args:
        what: the operation, for the message of an error.
        sizes: compile-time integers and run-time expressions.
        builder: of the program, which has noted what ``T.assume`` says.

    Raises:
        CompileError: a run-time size without a bound.
    """
    return [_largest_size(what, as_int(bound(size, f"{what}: a size")), builder) for size in sizes]


def _largest_size(what: str, size: Any, builder: Builder) -> int:
    largest = size if isinstance(size, int) else interval_of(size, builder.ranges)[1]
    if largest is None:
        raise RunTimeValueError(f"{what}: the size {expr_text(size)} has no bound at compile time", hint=_how_to_bound(size))
    if largest <= 0:
        raise ShapeError(f"{what}: every size must be positive", hint=f"got {size}")
    return largest


def _how_to_bound(size: Any) -> str | None:
    """A statement that bounds ``size``: its variables, and, where it reads memory, which may change, its value under a name."""
    if reads_memory(size):
        return "a name holds what it is now: n = the size; T.assume(n <= 256); then n in its place"
    bounds = " and ".join(f"{name} <= 256" for name in sorted({str(var.name) for var in variables(size)}))
    return f"T.assume({bounds}) above it, on a path that every call takes, gives it one" if bounds else None


def leading_part(buffer: Any, sizes: Sequence[Any]) -> Any:
    """The slice of a buffer that begins at its first element and has ``sizes``."""
    return subscript(buffer, tuple(slice(None, size) for size in sizes))


# Views ---------------------------------------------------------------------------------------------------------------


def is_bounded(src: Any, shape: Sequence[Any]) -> bool:
    """Whether a view of ``src`` has a run-time size: ``src`` is a slice of a larger tile, or ``shape`` has an expression."""
    if isinstance(src, Slice):
        return lies_in_shared(src.buffer)
    in_shared = is_buffer(src) and lies_in_shared(src)
    return in_shared and not all(isinstance(as_int(as_expr(size)), int) for size in shape)


def bounded_memory(what: str, src: Any) -> Any:
    """The buffer that a tile of run-time sizes lies in.

    Raises:
        LayoutError: its elements do not lie side by side from the beginning of the buffer.
    """
    if not isinstance(src, Slice):
        return src
    inner = zip(src.extents[1:], src.buffer.shape[1:])
    side_by_side = all(isinstance(size, int) and size == as_int(full) for size, full in inner)
    if not side_by_side or any(as_int(low) != 0 for low in src.mins):
        raise LayoutError(f"{what}: this part of {src.buffer.name} is not compact", hint="its other sizes must be known")
    return src.buffer


def bounded_view(what: str, src: Any, shape: Sequence[Any] | None, dtype: Any) -> tuple[list[Any], list[int]]:
    """The sizes of a view whose first one is known at run time, and the sizes of all of its memory as such a view.

    Args:
        what: the operation, for the message of an error.
        src: a buffer, or a tile of run-time sizes.
        shape: of the view; that of ``src`` where None, its last axis rescaled to the new element size.
        dtype: of the view's elements.

    Raises:
        CompileError: another size is not known, the first has no bound, or the memory is too small for it.
    """
    memory = bounded_memory(what, src)
    old, new = (canonical(str(kind)).stored_bits for kind in (memory.dtype, memory.dtype if dtype is None else dtype))
    lengths = list(src.lengths) if isinstance(src, Slice) else list(memory.shape)
    sizes = [as_int(as_expr(size)) for size in (shape or [*lengths[:-1], as_expr(lengths[-1]) * old // new])]
    if not all(isinstance(size, int) for size in sizes[1:]):
        raise RunTimeValueError(f"{what}: only the first size of a view of shared memory may be a run-time one")
    # In bits, since elements may be smaller than a byte.
    rest, room = prod(sizes[1:]) * new, prod(map(as_int, memory.shape)) * old
    most = largest_sizes(what, sizes[:1], current())[0]
    if room % rest or most > room // rest:
        raise ShapeError(f"{what}: {memory.name} has room for {room / rest:g} rows of the view, and it may have {most}")
    return sizes, [room // rest, *sizes[1:]]
