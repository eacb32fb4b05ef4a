"""Barriers inside of a ``T.Parallel``: what follows one reads what all iterations before it have stored."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import ITERATION, draw_body, statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.nests import store
from testing.fuzz.tree import Stmt


@statement("phases", 1)
def phases(draw: Draw, scope: Scope) -> Stmt | None:
    """Two or three phases; each stores another tile of the same shape."""
    found = [tile for tile in scope.tiles if tile.memory != "local"]
    if not found or scope.apart:
        return None
    tiles = [draw.pick(found)]
    for _ in range(draw.pick([1, 1, 2])):
        tiles.append(draw.tile(scope, tiles[0].shape, apart=[tile.name for tile in tiles]))
    axes = [Axis(draw.name("i"), size, True) for size in tiles[0].shape]
    body: list[Stmt] = []
    for tile in tiles:
        body += [Stmt("barrier", ("T.sync_threads()",), fixed=True)] if body else []
        body += _phase(draw, scope.inside("phases", *axes, loop=False), tile, axes)
    head = f"for {', '.join(axis.name for axis in axes)} in T.Parallel({', '.join(axis.extent for axis in axes)}):"
    return Stmt("phases", (head,), body=tuple(body), writes=tuple(tile.name for tile in tiles))


def _phase(draw: Draw, scope: Scope, tile: Tile, axes: list[Axis]) -> list[Stmt]:
    """The statements between two barriers, whose values end with it."""
    at = ", ".join(axis.name for axis in axes)
    scope.written = {tile.name: at}
    table = {name: entry for name, entry in ITERATION.items() if name != "skip"}
    return [*draw_body(draw, scope, draw.pick([0, 0, 1]), table), store(draw, scope, tile, at)]
