"""Loops, nests and tiles whose sizes the call or the data decide."""

from __future__ import annotations

from testing.fuzz import ends
from testing.fuzz.draw import Draw
from testing.fuzz.registry import draw_body, statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS, own_tile
from testing.fuzz.statements.nests import store
from testing.fuzz.statements.regions import a_shape, shapes
from testing.fuzz.tree import Stmt

MOST = 4
"""One more than what :func:`count_of` gives at most."""


def count_of(draw: Draw, scope: Scope) -> str:
    """A number from 0 to 3 that is known at run time: an argument, an element of a tensor, a variable, the block's number."""
    element = f"{draw.input(('G',), draw.dtype(['int32', *ends.INTS]), 0, MOST - 1).name}[bx]"
    texts = [draw.whole_argument(), element, "T.min(bx + 1, 3)"]
    texts += [f"{variable.name} % {MOST}" for variable in scope.variables if variable.type == "int"]
    texts += [f"T.min({axis.name}, 3)" for axis in scope.axes if axis.name != "bx"]
    return draw.pick(texts)


@statement("dynamic_loop", 2, nests=True)
def dynamic_loop(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop whose trip count, and perhaps whose first value, is computed."""
    if scope.trips * MOST > MOST_TRIPS:
        return None
    name, count, first = draw.name("k"), count_of(draw, scope), count_of(draw, scope)
    heads = {f"T.serial({count})": MOST, f"range({count})": MOST, f"T.serial({first}, {first} + {count})": 2 * MOST}
    heads[f"T.Pipelined({count}, num_stages={draw.random.randint(1, 3)})"] = MOST
    head = draw.pick(list(heads))
    axis = Axis(name, str(heads[head]))
    inner = scope.inside("dynamic_loop", axis, trips=MOST, loop=True)
    own = (own_tile(draw, inner, axis),) if draw.chance(0.5) else ()
    body = draw_body(draw, inner, draw.random.randint(1, 2))
    return Stmt("dynamic_loop", (f"for {name} in {head}:",), body=(*own, *body), without=(f"{name} = 0",)) if body else None


@statement("walk", 1, nests=True)
def walk(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop over the rows of a tensor, a tile at a time; the call gives how many rows it has, and perhaps how many columns."""
    shape, trips = a_shape(draw, 2), draw.random.randint(1, 3)
    if scope.trips * trips > MOST_TRIPS:
        return None
    rows = draw.length(max(1, trips * draw.size(shape[0]) - draw.random.randint(0, draw.size(shape[0]) - 1)))
    columns = draw.length(draw.size(shape[1]) + draw.random.randint(0, 2)) if draw.chance(0.4) else shape[1]
    axis, dtype = Axis(draw.name("k"), str(trips)), draw.pick(["float32", "float16", "int32", "int8", "bfloat16"])
    tile = Tile(draw.name("s"), "shared", shape, dtype)
    inner = scope.inside("walk", axis, trips=trips, loop=True)
    inner.tiles.append(tile)
    place = f"{axis.name} * {shape[0]}, 0"
    allocation = f'{tile.name} = T.alloc_shared(({", ".join(shape)},), "{dtype}")'
    load = Stmt("own_tile", (allocation, f"T.copy({draw.input((rows, columns), dtype).name}[{place}], {tile.name})"))
    body = draw_body(draw, inner, draw.random.randint(0, 2))
    save = Stmt("save", (f"T.copy({tile.name}, {draw.output(('G', rows, columns), dtype).name}[bx, {place}])",))
    steps = f"T.ceildiv({rows}, {shape[0]})"
    loop = draw.pick([f"T.Pipelined({steps}, num_stages={draw.random.randint(0, 3)})", f"T.serial({steps})"])
    return Stmt("walk", (f"for {axis.name} in {loop}:",), body=(load, *body, save), without=(f"{axis.name} = 0",))


@statement("ragged_nest", 1)
def ragged_nest(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest over the first elements of each row of a tile."""
    found = [tile for tile in scope.tiles if tile.memory != "local"]
    if not found:
        return None
    tile = draw.pick(found)
    axes = [Axis(draw.name("i"), size, True) for size in tile.shape]
    at = ", ".join(axis.name for axis in axes)
    inner = scope.inside("ragged_nest", *axes, loop=False)
    inner.written = {tile.name: at}
    extents = ", ".join([*tile.shape[:-1], f"T.min({count_of(draw, scope)}, {tile.shape[-1]})"])
    head = f"for {at} in T.Parallel({extents}):"
    return Stmt("ragged_nest", (head,), body=(store(draw, inner, tile, at),), writes=(tile.name,))


@statement("bounded_tile", 0.7)
def bounded_tile(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile of as many rows as an argument says."""
    count, columns, name = draw.whole_argument(), draw.pick(shapes(draw)), draw.name("s")
    rows = f"{count} + 1"
    draw.promises.append(f"{count} < {MOST}")
    dtype = draw.pick(["float32", "float16", "int32", "int8"])
    source, result = draw.input(("G", str(MOST), columns), dtype), draw.output(("G", str(MOST), columns), dtype)
    i, j = draw.name("i"), draw.name("i")
    lines = (
        f'{name} = T.alloc_shared(({rows}, {columns}), "{dtype}")',
        f"T.copy({source.name}[bx, 0:{rows}, 0:{columns}], {name})",
        f"for {i}, {j} in T.Parallel({rows}, {columns}):",
        f'    {name}[{i}, {j}] = {name}[{i}, {j}] * T.cast({i} % 2, "{dtype}")',
        f"T.copy({name}, {result.name}[bx, 0:{rows}, 0:{columns}])",
    )
    return Stmt("bounded_tile", lines)
