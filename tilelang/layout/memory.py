"""Layouts of tiles in memory: which offset holds each element.

A :class:`TileLayout` is modes per axis (as of a fragment, with offsets in place of threads), then an optional XOR swizzle. An
:class:`IndexLayout` is any index function, kept as text. Both work on integers and on IR expressions alike.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from tilelang.errors import CompileError, LayoutError
from tilelang.layout.index_text import Symbol, evaluate, text_of
from tilelang.layout.recover import recover_modes
from tilelang.provided import provided


@dataclass(frozen=True, slots=True)
class Swizzle:
    """``offset ^= ((row >> shift) & (2**bits - 1)) << position``, where ``row`` is the index along ``axis``."""

    axis: int
    bits: int
    shift: int
    position: int

    @property
    def reach(self) -> int:
        """Elements of a row that it exchanges with each other: aligned groups of so many."""
        return 1 << (self.position + self.bits)

    def mask(self, row: Any) -> Any:
        """What the offsets of a row are XORed with."""
        shifted = row // (1 << self.shift) if self.shift else row
        return (shifted % (1 << self.bits)) * (1 << self.position)


class MemoryLayout:
    """The public methods of memory layouts: queries, and derived layouts.

    A subclass has ``shape``, the ``extents`` of the places, and ``places(index)``, the indices of the place of an element.
    """

    __slots__ = ()

    shape: tuple[int, ...]
    places: Callable[..., list[Any]]
    offset: Callable[..., Any]
    to_text: Callable[[], str]

    if TYPE_CHECKING:

        @property
        def extents(self) -> tuple[int, ...]: ...
        @property
        def size(self) -> int: ...

    def get_input_shape(self) -> list[int]:
        """The extents of the tile."""
        return list(self.shape)

    def get_output_shape(self) -> list[int]:
        """The extents of the indices of places."""
        return list(self.extents)

    def get_forward_vars(self) -> list[Any]:
        """A variable of the IR for each axis of the tile."""
        return provided("place_variables")(len(self.shape))

    def get_forward_index(self) -> list[Any]:
        """The place as expressions over those of :meth:`get_forward_vars`."""
        return self.map_forward_index(self.get_forward_vars())

    def map_forward_index(self, indices: Sequence[Any]) -> list[Any]:
        """The indices of the place of an element, of integers or of expressions."""
        return list(self.places(indices))

    @property
    def input_size(self) -> list[int]:
        """The extents of the tile, as :meth:`get_input_shape`."""
        return self.get_input_shape()

    @property
    def index(self) -> list[Any]:
        """The place as expressions, as :meth:`get_forward_index`."""
        return self.get_forward_index()

    forward_index = index

    def get_linearized_forward_index(self) -> Any:
        """The offset as an expression over those of :meth:`get_forward_vars`."""
        return self.offset(self.get_forward_vars())

    def is_equal(self, other: MemoryLayout) -> bool:
        """Whether both put every element of the same tile at the same offset."""
        if tuple(self.shape) != tuple(other.shape) or self.size != other.size:
            return False
        # Sizes known at run time only: no element can be evaluated, and only the same text is surely the same layout.
        if not self.extents or not other.extents:
            return self.to_text() == other.to_text()
        # Equal modes are equal layouts; of different ones only the places of all elements decide.
        return self == other or all(self.offset(index) == other.offset(index) for index in _indices(self.shape))

    def expand(self, leading_shape: int | Sequence[int]) -> MemoryLayout:
        """The layout of several such tiles, one after the other, with the axes ``leading_shape`` before those of the tile.

        Raises:
            ValueError: an extent is not positive.
        """
        extents: tuple[Any, ...] = (leading_shape,) if isinstance(leading_shape, int) else tuple(leading_shape)
        if not all(isinstance(extent, int) for extent in extents):
            raise TypeError(f"expand() takes integers, got {leading_shape!r}")
        _positive("expand", *extents)
        return self._expanded(extents) if extents else self

    def _expanded(self, leading: tuple[int, ...]) -> MemoryLayout:
        rank = len(leading)
        return Layout((*leading, *self.shape), lambda *index: [*index[:rank], *self.places(index[rank:])])

    def repeat(self, dim: int, factor: int) -> MemoryLayout:
        """The layout of ``factor`` such tiles side by side along axis ``dim``, each whole in memory.

        Raises:
            ValueError: no such axis, or the factor is not positive.
        """
        if not -len(self.shape) <= dim < len(self.shape):
            raise LayoutError(f"Layout.repeat: dim={dim} is out of range for {len(self.shape)} axes")
        _positive("repeat", factor)
        axis, extent = dim % len(self.shape), self.shape[dim]
        shape = (*self.shape[:axis], extent * factor, *self.shape[axis + 1 :])

        def place(*index: Any) -> list[Any]:
            inside = (*index[:axis], index[axis] % extent, *index[axis + 1 :])
            return [index[axis] // extent, *self.places(inside)]

        return self if factor == 1 else Layout(shape, place)

    def reshape(self, shape: Sequence[int]) -> MemoryLayout:
        """The layout of the same elements, counted in row-major order, as a tile of another shape."""
        shape = tuple(shape)
        if math.prod(shape) != math.prod(self.shape):
            raise LayoutError(f"Layout.reshape: {list(self.shape)} and {list(shape)} have different numbers of elements")

        def place(*index: Any) -> list[Any]:
            return self.places(_unravelled(_ravelled(index, shape), self.shape))

        return self if shape == tuple(self.shape) else Layout(shape, place)

    def inverse(self) -> MemoryLayout:
        """The layout from places to elements.

        Raises:
            LayoutError: the places are no sums over digits of the axes, or not all of them are taken.
        """
        if math.prod(self.extents) != math.prod(self.shape):
            raise LayoutError("Layout.inverse: not every place holds an element, so that there is no inverse")
        # A table of all places: the tile is small, and any index function can be inverted by it.
        found = {tuple(self.places(index)): _ravelled(index, self.shape) for index in _indices(self.shape)}
        try:
            axes = recover_modes(self.extents, lambda *place: found[place], lambda *place: None)
        except (CompileError, KeyError):
            raise LayoutError("Layout.inverse: a non-round-tripping inverse; places must be sums over digits") from None

        def element(*place: Any) -> list[Any]:
            linear: Any = 0
            for value, modes in zip(place, axes):
                for extent, stride, _ in modes:
                    linear, value = linear + value % extent * stride, value // extent
            return _unravelled(linear, self.shape)

        return Layout(self.extents, element)


def _positive(what: str, *numbers: int) -> None:
    for number in numbers:
        if number <= 0:
            raise LayoutError(f"Layout.{what}: {number} is not positive")


def _ravelled(index: Sequence[Any], shape: Sequence[int]) -> Any:
    linear: Any = 0
    for value, extent in zip(index, shape):
        linear = linear * extent + value
    return linear


def _unravelled(linear: Any, shape: Sequence[int]) -> list[Any]:
    index: list[Any] = []
    for extent in reversed(shape[1:]):
        index.insert(0, linear % extent)
        linear = linear // extent
    return [linear, *index]


@dataclass(frozen=True, slots=True)
class TileLayout(MemoryLayout):
    """Where each element of a tile lies.

    Attributes:
        shape: extents of the tile.
        modes: of each axis, minor first, ``(extent, stride)`` in elements.
        swizzle: applied to the sum of the strides.
        size: elements that the tile takes.
    """

    shape: tuple[int, ...]
    modes: tuple[tuple[tuple[int, int], ...], ...]
    swizzle: Swizzle | None = None

    @property
    def size(self) -> int:
        return 1 + sum((extent - 1) * stride for axis in self.modes for extent, stride in axis)

    def linear(self, index: Sequence[Any]) -> Any:
        """The offset before the swizzle."""
        return _total(self._steps(index))

    def _steps(self, index: Sequence[Any]) -> Iterator[tuple[Any, int]]:
        """The digits of an index, and their strides."""
        for value, modes in zip(index, self.modes):
            last = len(modes) - 1
            for place, (extent, stride) in enumerate(modes):
                # An index is inside its axis: what is left is the last digit, and a modulo would stay in every address.
                yield (value if place == last else value % extent), stride
                if place < last:
                    value = value // extent

    def offset(self, index: Sequence[Any]) -> Any:
        """The offset of an element."""
        if self.swizzle is None:
            return self.linear(index)
        steps = list(self._steps(index))
        # Multiples of its reach have no bits that the XOR changes: the slot of a ring, which does not stay in a loop, is added.
        far = [step for step in steps if step[1] % self.swizzle.reach == 0]
        near = [step for step in steps if step[1] % self.swizzle.reach]
        return _total(far) + (_total(near) ^ self.swizzle.mask(index[self.swizzle.axis]))

    @property
    def extents(self) -> tuple[int, ...]:
        """A place is one offset."""
        return (self.size,)

    def places(self, index: Sequence[Any]) -> list[Any]:
        """The offset of an element, as the one index of its place."""
        return [self.offset(index)]

    def _expanded(self, leading: tuple[int, ...]) -> MemoryLayout:
        modes: list[tuple[tuple[int, int], ...]] = []
        stride = self.size
        for extent in reversed(leading):
            modes.insert(0, ((extent, stride),))
            stride *= extent
        moved = None if self.swizzle is None else replace(self.swizzle, axis=self.swizzle.axis + len(leading))
        return TileLayout((*leading, *self.shape), (*modes, *self.modes), moved)

    @property
    def vector(self) -> int:
        """Elements along the last axis, from an aligned index, that are certain to be adjacent."""
        extent, stride = self.modes[-1][0] if self.modes[-1] else (1, 1)
        if stride != 1:
            return 1
        # The XOR leaves the bits below `position` alone, so that aligned runs of 2**position elements stay together.
        limit = 1 << self.swizzle.position if self.swizzle is not None else extent
        return _common_power(extent, limit)

    def to_text(self) -> str:
        """Canonical text."""
        swizzle = None if self.swizzle is None else [getattr(self.swizzle, n) for n in Swizzle.__slots__]
        fields = {"tile": list(self.shape), "modes": self.modes, "swizzle": swizzle}
        return json.dumps(fields, separators=(",", ":"))


def _total(steps: Iterable[tuple[Any, int]]) -> Any:
    """The sum of digits times strides."""
    total: Any = 0
    for digit, stride in steps:
        total = total + (digit * stride if stride != 1 else digit)
    return total


@dataclass(frozen=True, slots=True)
class IndexLayout(MemoryLayout):
    """Where each element lies, by an index function.

    Attributes:
        shape: extents of the tile.
        outputs: text of each output index over ``i0, i1, ...``.
        output_extents: of the output indices; the offset is row-major over them.
        injective: whether no two elements share a place; the layout of a buffer must be so.
    """

    shape: tuple[int, ...]
    outputs: tuple[str, ...]
    output_extents: tuple[int, ...]
    injective: bool = field(default=True, compare=False)

    swizzle = None
    vector = 1

    @property
    def extents(self) -> tuple[int, ...]:
        """The extents of the output indices."""
        return self.output_extents

    @property
    def size(self) -> int:
        """Elements that the tile takes."""
        return math.prod(self.extents)

    def offset(self, index: Sequence[Any]) -> Any:
        """The offset of an element."""
        return _ravelled(self.places(index), self.extents)

    def places(self, index: Sequence[Any]) -> list[Any]:
        """The indices of the place of an element."""
        return [evaluate(text, index) for text in self.outputs]

    def to_text(self) -> str:
        """Canonical text."""
        fields = {"index": list(self.shape), "outputs": list(self.outputs), "extents": list(self.extents)}
        return json.dumps(fields, separators=(",", ":"))


_LARGEST_TILE = 1 << 18
"""Elements that fit in shared memory at most."""


def row_major(shape: Sequence[int], pitch: int | None = None) -> TileLayout:
    """The plain order of elements; ``pitch`` is the length of a row with padding."""
    stride = 1
    modes: list[tuple[tuple[int, int], ...]] = []
    for axis in range(len(shape) - 1, -1, -1):
        modes.append(((shape[axis], stride),))
        stride *= pitch if pitch is not None and axis == len(shape) - 1 else shape[axis]
    return TileLayout(tuple(shape), tuple(reversed(modes)))


def memory_layout_from_text(text: str) -> MemoryLayout:
    """The layout that ``to_text`` wrote."""
    fields = json.loads(text)
    if "index" in fields:
        return IndexLayout(tuple(fields["index"]), tuple(fields["outputs"]), tuple(fields["extents"]))
    modes = tuple(tuple((extent, stride) for extent, stride in axis) for axis in fields["modes"])
    swizzle = None if fields["swizzle"] is None else Swizzle(*fields["swizzle"])
    return TileLayout(tuple(fields["tile"]), modes, swizzle)


def Layout(shape: Sequence[int], forward_fn: Callable[..., Any]) -> IndexLayout:
    """The layout that an index function describes.

    Args:
        shape: extents of the tile.
        forward_fn: ``(i, j, ...) -> index`` or a list of indices, by ``+ - * // % ^ & | << >>`` over the arguments.

    A layout of more elements than any memory on chip has, or of sizes known at run time only, can be made and passed to
    ``T.annotate_layout`` for a tensor; it is not looked into.

    Raises:
        LayoutError: an index is negative.
    """
    sizes: tuple[Any, ...] = tuple(getattr(extent, "value", extent) for extent in shape)
    found: Any = forward_fn(*(Symbol(f"i{axis}") for axis in range(len(sizes))))
    outputs = tuple(map(text_of, found if type(found) in (list, tuple) else [found]))
    if not all(isinstance(extent, int) for extent in sizes) or math.prod(sizes) > _LARGEST_TILE:
        return IndexLayout(sizes, outputs, ())
    # Every element is evaluated: any index function is allowed, and this is exact, where a proof about its text would not always
    # succeed. The limit on the tile's size (above) bounds the time.
    points = [tuple(evaluate(text, index) for text in outputs) for index in _indices(sizes)]
    if any(part < 0 for point in points for part in point):
        raise LayoutError("T.Layout: an index is negative")
    extents = tuple(1 + max(point[axis] for point in points) for axis in range(len(outputs)))
    return IndexLayout(sizes, outputs, extents, len(set(points)) == len(points))


def _indices(shape: Sequence[int]) -> list[tuple[int, ...]]:
    found: list[tuple[int, ...]] = [()]
    for extent in shape:
        found = [(*index, value) for index in found for value in range(extent)]
    return found


def _common_power(extent: int, limit: int) -> int:
    """The largest power of two that divides ``extent`` and is at most ``limit``."""
    power = extent & -extent
    while power > limit:
        power //= 2
    return power
