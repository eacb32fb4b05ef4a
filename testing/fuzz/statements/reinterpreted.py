"""Shared tiles and fragments seen as tiles of another element type: the bits of small numbers are stored and loaded."""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.expressions import condition
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope
from testing.fuzz.tree import Stmt

_VIEWS = {
    "float32": {"int32": (0x3F800000, 0x40000000), "uint32": (0x40400000, 0xC0000000), "float16": (), "int8": ()},
    "float16": {"int16": (0x3C00, 0x4000), "uint16": (0x4200, 0xC000), "uint32": (0x3C00BC00, 0x40000000), "uint8": ()},
    "bfloat16": {"uint16": (0x3F80, 0xC000), "int32": (0x3F803F80, 0x40004040), "int8": ()},
    "int32": {"uint32": (1, 0xFFFFFFFE), "int16": (), "uint8": (), "float32": ()},
    "int8": {"uint8": (2, 0xFD), "int32": (0x01020304, 0x00FF00FE), "uint16": (0x01FF, 0x0300), "int4": ()},
    "uint8": {"int8": (1, 2), "uint32": (0x01020304, 0x04000201), "uint4": ()},
    "int4": {"uint8": (0x21, 0xF0)}, "uint4": {"uint8": (0x21, 0x40), "int16": (0x1234,)},
}  # fmt: skip
"""Element type of a tile -> types of views of it, each with bits that stand for small numbers of the tile."""


@statement("reinterpreted", 1)
def reinterpreted(draw: Draw, scope: Scope) -> Stmt | None:
    """Elements of a view that a nest stores, and a copy of the view."""
    found = [
        (tile, dtype) for tile in scope.tiles if tile.memory != "local" and not tile.wide
        for dtype in _VIEWS.get(tile.dtype, ()) if draw.size(tile.shape[-1]) * dtypes.bits(tile.dtype) % dtypes.bits(dtype) == 0
    ]  # fmt: skip
    if not found:
        return None
    tile, dtype = draw.pick(found)
    last = f"({tile.shape[-1]}) * {dtypes.bits(tile.dtype)} // {dtypes.bits(dtype)}"
    shape = (*tile.shape[:-1], last)
    if len(shape) == 2 and draw.chance(0.3):
        shape = (f"({shape[0]}) * ({last})",)
    name, axes = draw.name("x"), [Axis(draw.name("i"), size, True) for size in shape]
    lines, parts = [f'{name} = T.view({tile.name}, ({", ".join(shape)},), "{dtype}")'], ()
    bits = _VIEWS[tile.dtype][dtype]
    if bits and draw.chance(0.8):
        at = ", ".join(axis.name for axis in axes)
        inner = scope.inside("reinterpreted", *axes)
        inner.written = {tile.name: ", ".join("0" for _ in tile.shape)}
        inner.tiles = [other for other in inner.tiles if other is not tile]
        lines += [f"for {at} in T.Parallel({', '.join(shape)}):", "    if {0}:"]
        lines += [f'        {name}[{at}] = T.cast({_number(draw.pick(bits), dtype)}, "{dtype}")']
        parts = (condition(draw, inner, 1),)
    if not bits or draw.chance(0.5):
        lines.append(f"T.copy({name}, {draw.output(('G', *shape), dtype).name}[bx{', 0' * len(shape)}])")
    return Stmt("reinterpreted", tuple(lines), parts, writes=(tile.name,))


def _number(bits: int, dtype: str) -> int:
    """The bits as a number of an integer type."""
    size = dtypes.bits(dtype)
    return bits if dtypes.is_unsigned(dtype) or bits < 1 << (size - 1) else bits - (1 << size)
