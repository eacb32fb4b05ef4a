"""Asynchronous copies with explicit waits."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import BLOCK, draw_body
from testing.fuzz.scope import Scope
from testing.fuzz.statements.copies import some_shape
from testing.fuzz.tree import Stmt


def async_copies(draw: Draw, scope: Scope) -> Stmt:
    """Starts asynchronous copies, runs other statements, waits, and uses the tiles."""
    lines: list[str] = []
    targets = []
    groups = draw.random.randint(1, 3)
    for _ in range(groups):
        shape = some_shape(draw, scope)
        tile = draw.declare(scope, shape, draw.pick(["float32", "float16", "int32"]), "shared")
        targets.append(tile)
        tensor = draw.input(("G", *shape), tile.dtype)
        lines += [f"T.async_copy({tensor.name}[bx{', 0' * len(shape)}], {tile.name})", "T.ptx_commit_group()"]
    inner = scope.inside("async")
    inner.tiles = [tile for tile in inner.tiles if tile not in targets]
    inner.hidden = inner.hidden | {tile.name for tile in targets}
    between = draw_body(draw, inner, draw.pick([0, 1, 2]), {"parallel": BLOCK["parallel"], "fill": BLOCK["fill"]})
    start = Stmt("async", ("T.sync_threads()", *lines), writes=tuple(tile.name for tile in targets), fixed=True)
    wait = Stmt("wait", ("T.ptx_wait_group(0)", "T.sync_threads()"), fixed=True)
    return Stmt("async", ("if True:",), body=(start, *between, wait))
