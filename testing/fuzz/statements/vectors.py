"""Vectors: several neighbouring elements as one value, tiles seen as tiles of vectors, variables that hold a vector."""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.indices import index
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.tree import Stmt

_TYPES = ("float32", "float16", "bfloat16", "int32", "int8")
"""Types whose vectors are calculated with."""


def _chosen(draw: Draw, scope: Scope) -> tuple[Tile, int] | None:
    """A tile whose rows are whole vectors, and their length."""
    found = [
        (tile, lanes) for tile in scope.tiles for lanes in (2, 4, 8)
        if tile.memory in ("shared", "fragment") and tile.dtype in _TYPES and not tile.wide
        and draw.size(tile.shape[-1]) % lanes == 0 and lanes * dtypes.bits(tile.dtype) <= 128
    ]  # fmt: skip
    return draw.pick(found) if found else None


def _combined(draw: Draw, own: str, other: str, dtype: str, lanes: int) -> str:
    """A vector of small numbers, made of two."""
    number = f'T.Broadcast(T.cast({draw.random.randint(-4, 4)}, "{dtype}"), {lanes})'
    order = list(range(lanes))
    draw.random.shuffle(order)
    return draw.pick([
        f"T.max({own}, {other})", f"T.min({own}, {other})", f"T.max({own}, {number})", other,
        f'{own} * T.Broadcast(T.cast(-1, "{dtype}"), {lanes})', f"T.Shuffle([{other}], {order})",
        f"T.Shuffle([{own}, {other}], {[lane + lanes * draw.random.randrange(2) for lane in order]})",
    ])  # fmt: skip


@statement("vector_nest", 1)
def vector_nest(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest whose iterations store a vector each."""
    chosen = _chosen(draw, scope)
    if chosen is None:
        return None
    tile, lanes = chosen
    others = [t for t in scope.tiles if t.dtype == tile.dtype and t.shape == tile.shape and t.memory != "local" and not t.wide]
    axes = [Axis(draw.name("i"), size, True) for size in (*tile.shape[:-1], f"({tile.shape[-1]}) // {lanes}")]
    inner = scope.inside("vector_nest", *axes)
    names = [axis.name for axis in axes]
    own = ", ".join([*names[:-1], f"T.Ramp({names[-1]} * {lanes}, 1, {lanes})"])
    source = draw.pick(others)
    rows = names[:-1] if source is tile else [str(index(draw, inner, size)) for size in tile.shape[:-1]]
    place = names[-1] if source is tile else draw.pick([names[-1], f"({axes[-1].extent} - 1 - {names[-1]})"])
    other = ", ".join([*rows, f"T.Ramp({place} * {lanes}, 1, {lanes})"])
    value = _combined(draw, f"{tile.name}[{own}]", f"{source.name}[{other}]", tile.dtype, lanes)
    head = f"for {', '.join(names)} in T.Parallel({', '.join(axis.extent for axis in axes)}):"
    return Stmt("vector_nest", (head, f"    {tile.name}[{own}] = {value}"), writes=(tile.name,))


@statement("vector_view", 1)
def vector_view(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile seen as one of vectors, which a nest changes."""
    chosen = _chosen(draw, scope)
    if chosen is None:
        return None
    tile, lanes = chosen
    name = draw.name("x")
    sizes = (*tile.shape[:-1], f"({tile.shape[-1]}) // {lanes}")
    names = [draw.name("i") for _ in sizes]
    at = ", ".join(names)
    value = _combined(draw, f"{name}[{at}]", f"{name}[{at}]", tile.dtype, lanes)
    lines = (
        f'{name} = T.view({tile.name}, ({", ".join(sizes)},), "{tile.dtype}x{lanes}")',
        f"for {at} in T.Parallel({', '.join(sizes)}):",
        f"    {name}[{at}] = {value}",
    )
    return Stmt("vector_view", lines, writes=(tile.name,))


@statement("vector_variable", 0.7)
def vector_variable(draw: Draw, scope: Scope) -> Stmt | None:
    """A vector of the block, taken from a tile and stored to a tensor."""
    chosen = _chosen(draw, scope)
    if chosen is None:
        return None
    tile, lanes = chosen
    name, axis = draw.name("x"), Axis(draw.name("q"), f"({tile.shape[-1]}) // {lanes}")
    row = [str(index(draw, scope, size)) for size in tile.shape[:-1]]
    part = f"{tile.name}[{', '.join([*row, f'T.Ramp({axis.name} * {lanes}, 1, {lanes})'])}]"
    output = draw.output(("G", str(lanes)), tile.dtype)
    lines = (
        f'{name} = T.alloc_var("{tile.dtype}x{lanes}", init={draw.random.randint(-2, 2)})',
        f"for {axis.name} in T.serial({axis.extent}):",
        f"    {name} = {_combined(draw, name, part, tile.dtype, lanes)}",
        f"{output.name}[bx, T.Ramp(0, 1, {lanes})] = {name}",
    )
    return Stmt("vector_variable", lines)
