"""Several pipelined loops over the same tiles, with other numbers of stages, in loops that run one after the other."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Stmt

_AROUND = (
    ("", ()), ("", ()), ("for {k} in T.serial({n}):", ()), ("for {k} in T.unroll({n}):", ()),
    ("while {k} < {n}:", ("{k} = {k} + 1",)),
)  # fmt: skip
"""Heads of a loop around all pipelines, and what ends its body."""


@statement("pipelines", 1)
def pipelines(draw: Draw, scope: Scope) -> Stmt | None:
    """Two or three loops that load one or two shared tiles and sum them up, perhaps all of it repeated."""
    head, tail = draw.pick(_AROUND)
    repeats, steps = draw.random.randint(1, 3) if head else 1, draw.random.randint(1, 4)
    if scope.trips * repeats * steps * 3 > MOST_TRIPS:
        return None
    shape, dtype, outer = a_shape(draw, 2, 4096), draw.pick(["float32", "float16", "int32", "int8", "bfloat16"]), draw.name("k")
    tiles = [Tile(draw.name("s"), "shared", shape, dtype) for _ in range(draw.pick([1, 2]))]
    total = draw.tile(scope, shape, ("float32",), ("fragment", "shared"), wide=True)
    body: list[str] = []
    for _ in range(draw.pick([2, 2, 3])):
        body += _loop(draw, draw.random.sample(tiles, draw.random.randint(1, len(tiles))), total, steps, outer if head else "")
    lines = [f'{tile.name} = T.alloc_shared(({", ".join(shape)}), "{dtype}")' for tile in tiles]
    if head.startswith("while"):
        lines += [f'{outer} = T.alloc_var("int32", init=0)', f"{outer} = 0"]
    if head:
        lines += [head.format(k=outer, n=repeats)]
        body = ["    " + line for line in (*body, *(line.format(k=outer) for line in tail))]
    return Stmt("pipelines", (*lines, *body), writes=(total.name,))


def _loop(draw: Draw, tiles: list[Tile], total: Tile, steps: int, outer: str) -> list[str]:
    """A pipelined loop; the tiles are read as they are, mirrored, or in part, and perhaps once more after the loop."""
    step = draw.name("k")
    axes = [draw.name("i") for _ in total.shape]
    lines = [f"for {step} in T.Pipelined({steps}, num_stages={draw.random.randint(0, 4)}):"]
    for tile in tiles:
        place = f"({step} + {outer}) % {steps}" if outer and draw.chance(0.5) else step
        tensor = draw.input((str(steps), *tile.shape), tile.dtype)
        lines.append(f"    T.copy({tensor.name}[{place}, 0, 0], {tile.name})")
    if draw.chance(0.2):
        lines.append(f"    if {step} % 2 == {draw.random.randrange(2)}:")
        lines += [f"        {line}" for line in _sum(draw, tiles, total, axes)]
    else:
        lines += [f"    {line}" for line in _sum(draw, tiles, total, axes)]
    return lines + (_sum(draw, tiles[:1], total, axes) if draw.chance(0.3) else [])


def _sum(draw: Draw, tiles: list[Tile], total: Tile, axes: list[str]) -> list[str]:
    at = ", ".join(draw.pick([axis, axis, f"{size} - 1 - {axis}"]) for axis, size in zip(axes, total.shape))
    terms = " + ".join(f'T.cast({tile.name}[{at}], "float32")' for tile in tiles)
    return [f"for {', '.join(axes)} in T.Parallel({', '.join(total.shape)}):", f"    {total.name}[{', '.join(axes)}] += {terms}"]
