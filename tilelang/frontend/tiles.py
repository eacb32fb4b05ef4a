"""Slices of buffers as values: rows (``row = A[i]; row[j]``), steps (``A[::2]``) and arithmetic (``C[:] = A[:] * 2 + B[:]``).

A slice is a view, as in numpy: nothing is read where it is made. Arithmetic on slices is a function of the index; assigning it
to a slice runs it once for each element, in a ``T.Parallel`` of the assigned shape. Shapes broadcast as in numpy.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tilelang.dtypes import canonical
from tilelang.errors import OperandError, ShapeError
from tilelang.frontend.builder import Builder, active_builder, current
from tilelang.frontend.conversion import convert
from tilelang.frontend.loops import each_element
from tilelang.frontend.reads import may_have_changed
from tilelang.frontend.values import BufferLike, Tile, as_expr, as_operand
from tilelang.ir import nodes as ir
from tilelang.ir.expr import as_int, same
from tilelang.ir.region import Region
from tilelang.ir.text import shape_text
from tilelang.ir.visit import walk_expr

Index = tuple[Any, ...]


class Part(Tile):
    """Elements of a buffer at regular distances.

    Attributes:
        buffer: the buffer.
        mins: the first index along each axis of the buffer.
        axes: for each axis of the slice, the buffer's axis that it runs along.
        steps: for each axis of the slice, the distance of neighbouring elements along that axis.
    """

    __slots__ = ()

    buffer: Any
    mins: tuple[Any, ...]
    axes: tuple[int, ...]
    steps: tuple[int, ...]

    @property
    def reads(self) -> tuple[Part, ...]:
        return (self,)

    def place(self, index: Index) -> list[Any]:
        """The buffer's indices of an element."""
        indices = list(self.mins)
        for axis, step, offset in zip(self.axes, self.steps, index):
            moved = offset if step == 1 else as_expr(offset) * step
            indices[axis] = moved if isinstance(indices[axis], int) and indices[axis] == 0 else indices[axis] + moved
        return [as_expr(each) for each in indices]

    def at(self, index: Index) -> Any:
        return ir.BufferLoad(self.buffer, self.place(index), current().span())

    def is_same_place(self, other: Part) -> bool:
        """Whether both name the same elements in the same order."""
        if not self.buffer.same_as(other.buffer) or (self.axes, self.steps) != (other.axes, other.steps):
            return False
        return all(map(same, self.mins, other.mins))

    def overlaps(self, other: Part) -> bool | None:
        """Whether two parts of one buffer have elements in common; None where that is not known."""
        known = True
        for one, two in zip(self.ranges(), other.ranges()):
            distance = as_int(as_expr(two[0]) - as_expr(one[0]))
            spans = [(length - 1) * step + 1 if isinstance(length, int) else None for _, length, step in (one, two)]
            if not isinstance(distance, int):
                known = False
            elif one[2] == two[2] and distance % one[2]:
                return False
            elif any(span is not None and way >= span for way, span in zip((distance, -distance), spans)):
                return False
            known = known and None not in spans and one[2] == two[2]
        return True if known else None

    def ranges(self) -> list[tuple[Any, Any, int]]:
        """(first index, number of elements, distance of neighbours) along each axis of the buffer."""
        found: list[tuple[Any, Any, int]] = [(first, 1, 1) for first in self.mins]
        for axis, length, step in zip(self.axes, self.lengths, self.steps):
            found[axis] = (self.mins[axis], length, step)
        return found


@dataclass(frozen=True, slots=True, eq=False)
class Slice(Region, Part):
    """``A[i, 2:6]``: a region whose axes that an index names are gone from its shape as a value."""

    axes: tuple[int, ...] = ()

    @property
    def steps(self) -> tuple[int, ...]:
        """The distance of elements along each axis: 1."""
        return (1,) * len(self.axes)

    @property
    def lengths(self) -> tuple[Any, ...]:
        """The shape as a value; :attr:`shape` leaves out the axes of length one, as regions do."""
        return tuple(self.extents[axis] for axis in self.axes)


def own_axes(region: Region) -> tuple[int, ...]:
    """The axes of a slice as a value: without those that an index names."""
    return region.axes if isinstance(region, Slice) else tuple(range(len(region.extents)))


@dataclass(frozen=True, slots=True, eq=False)
class StridedSlice(Part):
    """``A[::2]``."""

    buffer: Any
    mins: tuple[Any, ...]
    lengths: tuple[Any, ...]
    axes: tuple[int, ...]
    steps: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Computed(Tile):
    """Arithmetic on slices.

    Attributes:
        check: raises an error where memory that it reads may have changed since it was made.
    """

    lengths: tuple[Any, ...]
    reads: tuple[Part, ...]
    at: Callable[[Index], Any]
    check: Callable[[], None] = lambda: None


def as_tile(value: Any) -> Tile | None:
    """The tile that ``value`` is: a slice, arithmetic on slices, or a whole buffer; None where it is none."""
    if isinstance(value, Tile):
        return value
    if isinstance(value, BufferLike):
        value = value.buffer
    return whole(value) if isinstance(value, ir.Var) and ir.is_buffer_var(value) else None


def is_vector(value: Any) -> bool:
    """Whether ``value`` is an expression of several lanes."""
    if not isinstance(value, ir.PrimExpr) or (isinstance(value, ir.Var) and ir.is_buffer_var(value)):
        return False
    return canonical(str(value.ty)).lanes > 1


def whole(buffer: Any) -> Slice:
    """All of a buffer as a slice."""
    region = Region.whole(buffer)
    return Slice(buffer, region.mins, region.extents, tuple(range(len(region.mins))))


def as_vector(value: Any) -> Any:
    """A tile of one axis whose length is known as a vector of its elements; any other value as it is.

    Raises:
        ShapeError: a tile of several axes, or one whose length is known at run time only.
    """
    tile = as_tile(value)
    if tile is None:
        return value
    if isinstance(tile, Computed):
        tile.check()
    *outer, size = tile.lengths or (1,)
    if any(length != 1 for length in outer) or not isinstance(size, int):
        raise ShapeError(f"a slice of shape {shape_text(tile.lengths)} is no vector")
    if size == 1:
        return tile.at((0,) * len(tile.lengths))
    zero, one = ir.IntImm("int32", 0), ir.IntImm("int32", 1)
    return tile.at((*(0 for _ in outer), ir.Ramp(zero, one, size)))


def converted(tile: Tile, dtype: Any) -> Any:
    """The elements of a tile in another type; a vector type makes a vector of them."""
    kind = canonical(dtype)
    if kind.lanes > 1:
        return convert(as_expr(as_vector(tile)), kind, kind.lanes)
    return elementwise(lambda each: convert(as_expr(each), kind), tile)


def elementwise(function: Callable[..., Any], *values: Any) -> Any:
    """``function`` of each element of the tiles among ``values`` (which broadcast), or of ``values`` where none is a tile.

    Beside a vector the tiles are vectors too, and so is the result.
    """
    tiles = [as_tile(value) for value in values]
    found = [tile for tile in tiles if tile is not None]
    if not found:
        return function(*values)
    # A vector has lanes and no shape to broadcast to, so slices beside it become vectors of as many lanes.
    if any(tile is None and is_vector(value) for tile, value in zip(tiles, values)):
        return function(*map(as_vector, values))
    lengths = _broadcast([tile.lengths for tile in found])
    operands = [value if tile is None else tile for tile, value in zip(tiles, map(as_operand, values))]

    # Called when the result is assigned: a chain of operations reads each element once, and needs no temporary tiles.
    def at(index: Index) -> Any:
        return function(*(_element(each, index) if isinstance(each, Tile) else each for each in operands))

    return Computed(lengths, tuple(part for tile in found for part in tile.reads), at, _unchanged(found))


def _unchanged(tiles: Sequence[Tile]) -> Callable[[], None]:
    """Checks that what arithmetic on ``tiles`` reads is as it is here: it is read where the result is assigned."""
    builder = active_builder()
    place = None if builder is None else builder.frames[-1].here()

    def check() -> None:
        for tile in tiles:
            if isinstance(tile, Computed):
                tile.check()
            elif isinstance(tile, Part) and builder and place and may_have_changed(builder, place, tile.buffer):
                name = tile.buffer.name
                raise OperandError(
                    f"arithmetic on slices of {name} is used where {name} may have changed since",
                    hint="assign it to a slice of a tile where it is computed",
                )

    return check


def assign(target: Part, value: Any) -> None:
    """``target[...] = value`` of a tile or a scalar, element by element.

    Raises:
        CompileError: the shapes do not broadcast, or ``value`` reads elements of the target's buffer that are assigned
            by other iterations.
    """
    builder = current()
    tile = as_tile(value)
    value = _scalar(_evaluated(builder, target, as_operand(value))) if tile is None else tile
    if not _fits(value.lengths, target.lengths):
        raise ShapeError(f"a value of shape {shape_text(value.lengths)} is assigned to a slice of {shape_text(target.lengths)}")
    check_overlap(builder, target, value)
    if isinstance(value, Computed):
        value.check()
    # An iteration of a T.Parallel has all of the slice's elements itself.
    with each_element(builder, target.lengths, "SERIAL" if builder.parallel else "PARALLEL") as index:
        store = convert(as_expr(_element(value, index)), str(target.buffer.dtype))
        builder.emit(ir.BufferStore(target.buffer, store, target.place(index), builder.span()))


def is_repeated(value: Any, target: Part) -> bool:
    """Whether a tile has to be repeated along an axis to have the shape of what it is assigned to; a copy repeats nothing."""
    tile = as_tile(value)
    if tile is None or not _fits(tile.lengths, target.lengths):
        return False
    own, wanted = ([size for size in lengths if size != 1] for lengths in (tile.lengths, target.lengths))
    return len(own) != len(wanted)


def _evaluated(builder: Builder, target: Part, value: Any) -> Any:
    """A scalar; one that reads the target's memory is evaluated before any element is assigned: ``n[:] = n[0] + 1``."""
    root = builder.root_of(target.buffer)
    nodes = walk_expr(value) if isinstance(value, ir.PrimExpr) else ()
    changes = any(type(node) is ir.TensorLoad and builder.root_of(node.source).same_as(root) for node in nodes)
    return builder.bind("value", value) if changes else value


def _scalar(value: Any) -> Computed:
    return Computed((), (), lambda _: value)


def check_overlap(builder: Builder, target: Part, value: Tile) -> None:
    """Refuses ``A[1:] = A[:-1] + 1``: threads assign the elements in any order, so some would read what others have written.

    Args:
        builder: of the program, which knows what is a view of one memory.
        target: what is assigned to.
        value: what is assigned.

    Raises:
        OperandError: ``value`` may read elements of ``target`` for others of its elements.
    """
    root = builder.root_of(target.buffer)
    # Different buffers may be views of one memory. The very element that is written may be read, as in `A[:] = A[:] * 2`.
    for part in value.reads:
        if part.buffer.same_as(target.buffer) and part.overlaps(target) is False:
            continue
        if builder.root_of(part.buffer).same_as(root) and not part.is_same_place(target):
            raise OperandError(
                f"the assignment reads {part.buffer.name} elsewhere than it writes it, and its elements have no order",
                hint="compute into another tile first",
            )


def _element(tile: Tile, index: Index) -> Any:
    """The element of a tile that broadcasting pairs with ``index`` of a larger shape."""
    rank = len(tile.lengths)
    # As in NumPy, shapes are aligned at their last axes, and an axis of length 1 gives its only element for every index.
    own = index[len(index) - rank :] if rank else ()
    return tile.at(tuple(0 if isinstance(size, int) and size == 1 else each for size, each in zip(tile.lengths, own)))


def _fits(lengths: Sequence[Any], target: Sequence[Any]) -> bool:
    """Whether a value's shape broadcasts to the shape that it is assigned to."""
    # Leading axes of length 1 may be left out, as in NumPy: shape (1, 8) is assigned to 8 elements.
    while len(lengths) > len(target) and lengths[0] == 1:
        lengths = lengths[1:]
    pairs = list(zip(reversed(lengths), reversed(target)))
    return len(lengths) <= len(target) and all(a == 1 if isinstance(a, int) and a == 1 else same(a, b) for a, b in pairs)


def _broadcast(shapes: list[tuple[Any, ...]]) -> tuple[Any, ...]:
    """The shape that several shapes broadcast to."""
    rank = max(map(len, shapes))
    result: list[Any] = [1] * rank
    for shape in shapes:
        for axis, size in enumerate(shape, rank - len(shape)):
            if isinstance(size, int) and size == 1:
                continue
            if isinstance(result[axis], int) and result[axis] == 1:
                result[axis] = size
            elif not same(result[axis], size):
                raise ShapeError(f"slices of shapes {' and '.join(map(shape_text, shapes))} do not broadcast")
    return tuple(result)


_BINARY = "add sub mul truediv floordiv mod pow lshift rshift and_ or_ xor".split()
_COMPARISONS = "lt le gt ge eq ne".split()
_DIVISIONS = {"truediv": "divide", "floordiv": "floor_divide", "mod": "modulo", "pow": "power"}


def _operation(name: str) -> Callable[[Any, Any], Any]:
    """A binary operator as the kernel's own; divisions are those of rewritten code."""
    if name not in _DIVISIONS:
        return getattr(operator, name)

    def apply(left: Any, right: Any) -> Any:
        from tilelang.frontend import operators

        return getattr(operators, _DIVISIONS[name])(left, right)

    return apply


def _install_unary(name: str) -> None:
    function = getattr(operator, name)
    setattr(Tile, f"__{name}__", lambda self: elementwise(function, self))


def _install(name: str, reflected: bool) -> None:
    function, plain = _operation(name), name.rstrip("_")
    setattr(Tile, f"__{plain}__", lambda self, other: elementwise(function, self, other))
    if reflected:
        setattr(Tile, f"__r{plain}__", lambda self, other: elementwise(function, other, self))


for _name in _BINARY:
    _install(_name, reflected=True)
# Python exchanges the sides of a comparison itself: `1 < tile` calls `tile > 1`.
for _name in _COMPARISONS:
    _install(_name, reflected=False)
for _name in ("neg", "pos", "invert"):
    _install_unary(_name)
