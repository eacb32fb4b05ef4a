"""Pipelined loops that load a tile and give it to an operator, which reads it where it was loaded."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import shapes
from testing.fuzz.tree import Stmt

LONG_ROWS = 4
"""Rows of as many elements of 32 bits are loaded by the accelerator."""


@statement("stream", 1)
def stream(draw: Draw, scope: Scope) -> Stmt | None:
    """A reduction, a scan or a transposition in each pass."""
    columns = [size for size in shapes(draw) if draw.sizes[size] % LONG_ROWS == 0 and draw.sizes[size] <= 128]
    most = min(4, MOST_TRIPS // scope.trips)
    if not columns or most < 1:
        return None
    rows, width = draw.pick([size for size in shapes(draw) if draw.sizes[size] <= 32] or columns), draw.pick(columns)
    name, trips = draw.name("k"), draw.random.randint(min(2, most), most)
    loaded = Tile(draw.name("s"), "shared", (rows, width), draw.pick(["float32", "int32"]))
    tensor = draw.input((f"{trips} * {rows}", width), loaded.dtype)
    use, target = _use(draw, scope, loaded)
    lines = (
        f'{loaded.name} = T.alloc_shared(({rows}, {width}), "{loaded.dtype}")',
        f"for {name} in T.Pipelined({trips}, num_stages={draw.pick([1, 2, 2, 3])}):",
        f"    T.copy({tensor.name}[{name} * {rows}, 0], {loaded.name})",
        f"    {use}",
    )
    return Stmt("stream", lines, writes=(target.name,))


def _use(draw: Draw, scope: Scope, loaded: Tile) -> tuple[str, Tile]:
    """A statement that reads the tile, and the tile that it writes."""
    dim, kind = draw.random.randint(0, 1), draw.pick(["reduce", "reduce", "scan", "transpose"])
    if kind == "transpose":
        target = draw.tile(scope, loaded.shape[::-1], (loaded.dtype,))
        return f"T.transpose({loaded.name}, {target.name})", target
    if kind == "scan":
        target = draw.tile(scope, loaded.shape, (loaded.dtype,), wide=True)
        return f"T.cumsum({loaded.name}, {target.name}, dim={dim}, reverse={draw.chance(0.4)})", target
    target = draw.tile(scope, (loaded.shape[1 - dim],), (loaded.dtype,), wide=True)
    reduction = draw.pick(["sum", "max", "min", "absmax"])
    return f"T.reduce_{reduction}({loaded.name}, {target.name}, dim={dim}, clear={draw.chance(0.5)})", target
