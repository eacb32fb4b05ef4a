"""Operands of tile operators: whole tiles, rows of taller ones, slices of larger ones."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import replace

from testing.fuzz.draw import Draw
from testing.fuzz.indices import index
from testing.fuzz.scope import Scope, Tile

LARGEST = 8192
"""Elements of the largest tile."""


def shapes(draw: Draw) -> list[str]:
    """Names of sizes that tiles have."""
    return [name for name in draw.sizes if name not in ("G", "P")]


def a_shape(draw: Draw, rank: int, most: int = LARGEST) -> tuple[str, ...]:
    """A shape of a tile: sizes of the program, and ones at its end where these are too large."""
    for _ in range(20):
        shape = tuple(draw.pick(shapes(draw)) for _ in range(rank))
        if draw.elements(shape) <= most:
            return shape
    return (*a_shape(draw, rank - 1, most), "1")


def operand(
    draw: Draw, scope: Scope, shape: Sequence[str], types: Sequence[str] = (), memories: Sequence[str] = ("shared", "fragment"),
    wide: bool | None = False, apart: Sequence[str] = (), parts: float = 0.35,
    matrix: bool = False,
) -> tuple[str, Tile]:  # fmt: skip
    """The text of a region of ``shape``, and its tile; with the probability ``parts`` only a part of the tile.

    A ``matrix`` is of the last two axes of its tile.
    """
    if draw.chance(parts) and draw.elements(shape) * 4 <= LARGEST:
        found = _row(draw, scope, shape, types, memories, wide, apart, matrix) if draw.chance(0.5) else None
        found = found or _slice(draw, scope, shape, types, memories, wide, apart)
        if found is not None:
            return found
    tile = draw.tile(scope, shape, types, memories, wide, apart)
    return tile.name, tile


def own_axes(text: str) -> list[bool]:
    """For each axis of an operand whether a range names it, not an index; empty for a whole tile."""
    found = ast.parse(text, mode="eval").body
    if not isinstance(found, ast.Subscript):
        return []
    subscripts = found.slice.elts if isinstance(found.slice, ast.Tuple) else [found.slice]
    return [isinstance(each, ast.Slice) for each in subscripts]


def block(name: str, first: str, shape: Sequence[str], *operands: str) -> str:
    """The part of a tensor that is copied to or from operands of ``shape``: where it begins, or its ranges if it must.

    A beginning takes the other operand's extents axis by axis, with the 1 of an axis that an index names: beside ``tile[:, 2]``,
    ``O[bx, 0]`` would be ``n`` by 1.
    """
    if any(False in own_axes(text)[1:] for text in operands):
        return f"{name}[{', '.join([first, *(f'0:{size}' for size in shape)])}]"
    return f"{name}[{first}{', 0' * len(shape)}]"


def counted(dim: int, source: str, target: str, rank: int) -> tuple[int, int]:
    """``dim``, one of the ``rank`` axes of ``source`` as a value, as a call with ``target`` counts it, and of how many axes.

    All axes count where an index names the same axes of both.
    """
    axes = own_axes(source)
    if all(axes):
        return dim, rank
    place = [number for number, own in enumerate(axes) if own][dim]
    rest = [own for number, own in enumerate(axes) if number != place]
    return (place, len(axes)) if rest == own_axes(target) else (dim, rank)


def _row(draw, scope, shape, types, memories, wide, apart, first) -> tuple[str, Tile] | None:
    """A row of a tile with one axis more: the first one, as of a tile with a slot for each stage, or any."""
    if len(shape) > 2:
        return None
    lead = draw.pick([size for size in shapes(draw) if draw.sizes[size] <= 8] or ["2"])
    if draw.elements((lead, *shape)) > LARGEST:
        return None
    place = draw.random.randint(0, len(shape)) if not first and draw.chance(0.25) else 0
    tile = draw.tile(scope, (*shape[:place], lead, *shape[place:]), types, memories, wide, apart)
    at = [":" for _ in shape]
    # What an operator reads to find its elements it must not write.
    known = replace(scope, written={**scope.written, **dict.fromkeys((tile.name, *apart), "")})
    at.insert(place, str(index(draw, known, lead)))
    return f"{tile.name}[{', '.join(at)}]", tile


def _slice(draw, scope, shape, types, memories, wide, apart) -> tuple[str, Tile] | None:
    """Neighbouring rows or columns of a larger tile."""
    axis = draw.random.randrange(len(shape))
    whole = draw.size(shape[axis]) % 16 == 0  # then the widest instructions may take a part, too
    more, start = draw.pick([(16, 16), (64, 64), (64, 0)] * whole + [(2, 0), (2, 2), (3, 1), (8, 8), (4, 2)])
    larger = tuple(f"{size} + {more}" if n == axis else size for n, size in enumerate(shape))
    if draw.elements(larger) > LARGEST:
        return None
    tile = draw.tile(scope, larger, types, memories, wide, apart)
    bounds = [f"{start}:{size} + {start}" if n == axis else ":" for n, size in enumerate(shape)]
    return f"{tile.name}[{', '.join(bounds)}]", tile
