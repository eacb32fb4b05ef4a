"""Tiles whose layout the program gives: permuted, padded and swizzled memory, elements dealt out to threads."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.placed import layout
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Stmt

_PLACES = (
    "(j, i)", "({m} - 1 - i, j)", "(i, (j + i) % ({n}))", "i * ({n} + 8) + j", "j * ({m} + 1) + i", "(j // 4, i, j % 4)",
)  # fmt: skip
"""Where element (i, j) of a tile of m rows and n columns may lie."""


@statement("tile_layout", 1)
def tile_layout(draw: Draw, scope: Scope) -> Stmt | None:
    """A new tile, which statements after this one use like any other."""
    shape = a_shape(draw, 2)
    dtype = draw.pick(["float32", "float16", "int32", "int8", "bfloat16"])
    memory = draw.pick(["shared", "shared", "fragment"])
    text = layout(draw, shape) if memory == "fragment" else _memory_layout(draw, shape)
    if text is None or scope.depth:
        return None
    tile = draw.declare(scope, shape, dtype, memory)
    return Stmt("tile_layout", (f"T.annotate_layout({{{tile.name}: {text}}})",))


def _memory_layout(draw: Draw, shape: tuple[str, ...]) -> str:
    m, n = shape
    places = draw.pick(_PLACES).replace("{m}", m).replace("{n}", n)
    return f"T.Layout(({m}, {n}), lambda i, j: {places})"
