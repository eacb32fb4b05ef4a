"""Layouts of tiles in memory: which offset holds each element.

A :class:`TileLayout` is modes per axis (as of a fragment, with offsets in place of threads), then an optional XOR swizzle. An
:class:`IndexLayout` is any index function, kept as text. Both work on integers and on IR expressions alike.
"""

from __future__ import annotations

import ast
import json
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Union

from tilelang.errors import CompileError

_OPERATORS: dict[type, tuple[str, Callable[[Any, Any], Any]]] = {
    ast.Add: ("+", operator.add),
    ast.Sub: ("-", operator.sub),
    ast.Mult: ("*", operator.mul),
    ast.FloorDiv: ("//", operator.floordiv),
    ast.Mod: ("%", operator.mod),
    ast.BitXor: ("^", operator.xor),
    ast.BitAnd: ("&", operator.and_),
    ast.BitOr: ("|", operator.or_),
    ast.LShift: ("<<", operator.lshift),
    ast.RShift: (">>", operator.rshift),
}


@dataclass(frozen=True, slots=True)
class Swizzle:
    """``offset ^= ((row >> shift) & (2**bits - 1)) << position``, where ``row`` is the index along ``axis``."""

    axis: int
    bits: int
    shift: int
    position: int

    def mask(self, row: Any) -> Any:
        """What the offsets of a row are XORed with."""
        shifted = row // (1 << self.shift) if self.shift else row
        return (shifted % (1 << self.bits)) * (1 << self.position)


@dataclass(frozen=True, slots=True)
class TileLayout:
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
        total: Any = 0
        for value, modes in zip(index, self.modes):
            last = len(modes) - 1
            for place, (extent, stride) in enumerate(modes):
                digit = value if place == last else value % extent
                if place < last:
                    value = value // extent
                total = total + (digit * stride if stride != 1 else digit)
        return total

    def offset(self, index: Sequence[Any]) -> Any:
        """The offset of an element."""
        linear = self.linear(index)
        return linear if self.swizzle is None else linear ^ self.swizzle.mask(index[self.swizzle.axis])

    @property
    def vector(self) -> int:
        """Elements along the last axis, from an aligned index, that are certain to be adjacent."""
        extent, stride = self.modes[-1][0] if self.modes[-1] else (1, 1)
        if stride != 1:
            return 1
        limit = 1 << self.swizzle.position if self.swizzle is not None else extent
        return _common_power(extent, limit)

    @property
    def is_row_major(self) -> bool:
        """Whether this is the plain order of elements."""
        return self.swizzle is None and self.modes == row_major(self.shape).modes

    def to_text(self) -> str:
        """Canonical text."""
        swizzle = None if self.swizzle is None else [getattr(self.swizzle, n) for n in Swizzle.__slots__]
        fields = {"tile": list(self.shape), "modes": self.modes, "swizzle": swizzle}
        return json.dumps(fields, separators=(",", ":"))


@dataclass(frozen=True, slots=True)
class IndexLayout:
    """Where each element lies, by an index function.

    Attributes:
        shape: extents of the tile.
        outputs: text of each output index over ``i0, i1, ...``.
        extents: of the output indices; the offset is row-major over them.
    """

    shape: tuple[int, ...]
    outputs: tuple[str, ...]
    extents: tuple[int, ...]

    swizzle = None
    vector = 1
    is_row_major = False

    @property
    def size(self) -> int:
        """Elements that the tile takes."""
        total = 1
        for extent in self.extents:
            total *= extent
        return total

    def offset(self, index: Sequence[Any]) -> Any:
        """The offset of an element."""
        total: Any = 0
        for text, extent in zip(self.outputs, self.extents):
            total = total * extent + _evaluate(ast.parse(text, mode="eval").body, index)
        return total

    def to_text(self) -> str:
        """Canonical text."""
        fields = {"index": list(self.shape), "outputs": list(self.outputs), "extents": list(self.extents)}
        return json.dumps(fields, separators=(",", ":"))


MemoryLayout = Union[TileLayout, IndexLayout]

_LARGEST_TILE = 1 << 18
"""Elements that fit in shared memory at most."""


def row_major(shape: Sequence[int], pitch: int | None = None) -> TileLayout:
    """The plain order of elements; ``pitch`` is the length of a row with padding."""
    stride, modes = 1, []
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


class _Symbol:
    """An index that records what is done to it."""

    def __init__(self, text: str):
        self.text = text


def _recorder(symbol: str, swapped: bool) -> Callable[[_Symbol, Any], _Symbol]:
    def record(self: _Symbol, other: Any) -> _Symbol:
        left, right = (other, self) if swapped else (self, other)
        return _Symbol(f"({_text(left)} {symbol} {_text(right)})")

    return record


for _name, _symbol in (
    ("add", "+"), ("sub", "-"), ("mul", "*"), ("floordiv", "//"), ("mod", "%"), ("xor", "^"), ("and", "&"), ("or", "|"),
    ("lshift", "<<"), ("rshift", ">>"), ("truediv", "//"),
):  # fmt: skip
    setattr(_Symbol, f"__{_name}__", _recorder(_symbol, False))
    setattr(_Symbol, f"__r{_name}__", _recorder(_symbol, True))


def _text(value: Any) -> str:
    if isinstance(value, _Symbol):
        return value.text
    return str(int(value))


def _evaluate(node: ast.AST, index: Sequence[Any]) -> Any:
    if isinstance(node, ast.BinOp):
        return _OPERATORS[type(node.op)][1](_evaluate(node.left, index), _evaluate(node.right, index))
    if isinstance(node, ast.Name):
        return index[int(node.id[1:])]
    if isinstance(node, ast.Constant):
        return node.value
    raise CompileError("a layout's text holds something else than integer arithmetic")


def Layout(shape: Sequence[int], forward_fn: Callable[..., Any]) -> IndexLayout:
    """The layout that an index function describes.

    Args:
        shape: extents of the tile.
        forward_fn: ``(i, j, ...) -> index`` or a list of indices, by ``+ - * // % ^ & | << >>`` over the arguments.

    A layout of more elements than any memory on chip has, or of sizes known at run time only, can be made and passed to
    ``T.annotate_layout`` for a tensor; it is not looked into.

    Raises:
        CompileError: two elements share a place.
    """
    shape = tuple(extent if isinstance(extent, int) else getattr(extent, "value", extent) for extent in shape)
    symbols = [_Symbol(f"i{axis}") for axis in range(len(shape))]
    found = forward_fn(*symbols)
    outputs = tuple(_text(part) for part in (found if isinstance(found, (list, tuple)) else [found]))
    if not all(isinstance(extent, int) for extent in shape) or math.prod(shape) > _LARGEST_TILE:
        return IndexLayout(shape, outputs, ())
    trees = [ast.parse(text, mode="eval").body for text in outputs]
    points = [tuple(_evaluate(tree, index) for tree in trees) for index in _indices(shape)]
    if len(set(points)) != len(points):
        raise CompileError("T.Layout: two elements share a place")
    if any(part < 0 for point in points for part in point):
        raise CompileError("T.Layout: an index is negative")
    extents = tuple(1 + max(point[axis] for point in points) for axis in range(len(outputs)))
    return IndexLayout(shape, outputs, extents)


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
