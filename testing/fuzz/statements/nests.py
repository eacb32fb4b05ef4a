"""``T.Parallel``: stores at indices that no two iterations share."""

from __future__ import annotations

from dataclasses import replace

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.expressions import clamped, condition, small, term
from testing.fuzz.indices import index
from testing.fuzz.registry import ITERATION, draw_body, statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.tree import Expr, Stmt


def store(draw: Draw, scope: Scope, tile: Tile, at: str) -> Stmt:
    """A store of a value that the tile's type represents exactly."""
    kind = "float" if dtypes.is_float(tile.dtype) else "int"
    if tile.wide:
        if draw.chance(0.7):
            return Stmt("accumulate", (f"{tile.name}[{at}] += {{0}}",), (term(draw, scope, kind),), writes=(tile.name,))
        return Stmt("store", (f"{tile.name}[{at}] = {{0}}",), (term(draw, scope, kind),), writes=(tile.name,))
    value = small_for(draw, scope, tile.dtype)
    if draw.chance(0.5):
        value = Expr("cast", f'T.cast({{0}}, "{tile.dtype}")', f"cast_{tile.dtype}", (value,))
    return Stmt("store", (f"{tile.name}[{at}] = {{0}}",), (value,), writes=(tile.name,))


def small_for(draw: Draw, scope: Scope, dtype: str) -> Expr:
    """A small value that ``dtype`` represents exactly."""
    if dtype == "bool":
        return condition(draw, scope, 2)
    kind = draw.pick(["float", "int"]) if draw.chance(0.2) else "float" if dtypes.is_float(dtype) else "int"
    value = small(draw, scope, kind, 3)
    if dtypes.is_unsigned(dtype):
        return Expr("abs", "T.abs({0})", kind, (value,))
    if draw.chance(0.3):
        return clamped(draw, value, kind)
    return value


@statement("parallel", 8)
def parallel(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest over some axes of a tile; the indices of the other axes are constant in the nest."""
    found = [tile for tile in scope.tiles if tile.memory != "local"]
    if not found:
        return None
    tile = draw.pick(found)
    outside = scope.inside("parallel")
    outside.written = {tile.name: ""}
    axes, at = _places(draw, outside, tile)
    names = [axis for axis in axes if axis is not None]
    if not names:
        return None
    draw.random.shuffle(names)
    inner = scope.inside("parallel", *names, loop=False)
    second = _second(draw, scope, tile, axes)
    targets = [tile, second] if second else [tile]
    inner.written = {target.name: at for target in targets}
    head = f"for {', '.join(axis.name for axis in names)} in T.Parallel({', '.join(axis.extent for axis in names)}):"
    before = draw_body(draw, inner, draw.pick([0, 0, 0, 1, 2]), ITERATION)
    stores = tuple(_store_among_others(draw, inner, target, at) for target in targets)
    return Stmt("parallel", (head,), body=(*before, *stores), writes=tuple(target.name for target in targets))


def _places(draw: Draw, scope: Scope, tile: Tile) -> tuple[list[Axis | None], str]:
    """For each axis of the tile a variable of the nest or None, and the indices that are stored to."""
    axes: list[Axis | None] = []
    at: list[str] = []
    for size in tile.shape:
        if draw.chance(0.25 if len(tile.shape) > 1 else 0.05):
            axes.append(None)
            at.append(str(index(draw, scope, size)))
            continue
        axis = Axis(draw.name("i"), size, True)
        place = axis.name
        if draw.chance(0.12):
            step = draw.random.randint(1, 4)
            places = [f"{size} - 1 - {axis.name}", f"({axis.name} + {step}) % ({size})"]
            places += [f'(T.cast({axis.name}, "uint32") + T.uint32({step})) % T.uint32({size})', f'T.cast({axis.name}, "int16")']
            place = draw.pick(places)
        elif draw.chance(0.12) and draw.size(size) > 1:
            start = draw.random.randint(0, draw.size(size) - 1)
            axis = replace(axis, extent=f"{size} - {start}")
            place = f"{axis.name} + {start}"
        axes.append(axis)
        at.append(place)
    return axes, ", ".join(at)


def _store_among_others(draw: Draw, scope: Scope, tile: Tile, at: str) -> Stmt:
    """A store, perhaps under a condition or in a loop of the iteration."""
    if draw.chance(0.15):
        other = (store(draw, scope, tile, at),) if draw.chance(0.4) else ()
        return Stmt(
            "guard", ("if {0}:",), (condition(draw, scope, 2),), (store(draw, scope, tile, at),), other,
            writes=(tile.name,), without=(),
        )  # fmt: skip
    if draw.chance(0.25):
        sizes = [size for size in draw.sizes if draw.sizes[size] <= 8]
        axis = Axis(draw.name("q"), draw.pick([*sizes, "2", "3"]))
        loop = draw.pick(["T.serial", "range"] if axis.extent == "G" else ["T.serial", "T.unroll", "range"])
        inner = scope.inside("inner_loop", axis, trips=draw.size(axis.extent), loop=True)
        return Stmt(
            "inner_loop", (f"for {axis.name} in {loop}({axis.extent}):",), body=(store(draw, inner, tile, at),),
            writes=(tile.name,), without=(f"{axis.name} = 0",),
        )  # fmt: skip
    return store(draw, scope, tile, at)


def _second(draw: Draw, scope: Scope, tile: Tile, axes: list[Axis | None]) -> Tile | None:
    """Another tile of the same shape, which the same iterations store to."""
    if any(axis is None for axis in axes) or draw.chance(0.75):
        return None
    others = [o for o in scope.tiles if o.shape == tile.shape and o.name != tile.name and o.memory != "local"]
    return draw.pick(others) if others else None


@statement("hold", 2, table=ITERATION)
def hold(draw: Draw, scope: Scope) -> Stmt | None:
    """A named value, evaluated once per iteration."""
    kind = draw.pick(["float", "int"])
    name = draw.name("h")
    value = Expr("convert", f'T.cast({{0}}, "{ {"float": "float32", "int": "int32"}[kind] }")', kind, (small(draw, scope, kind),))
    scope.values.append((name, kind))
    return Stmt("hold", (f"{name} = {{0}}",), (value,))


@statement("skip", 0.5, table=ITERATION)
def skip(draw: Draw, scope: Scope) -> Stmt | None:
    """``continue`` for some of the iterations."""
    return Stmt("skip", ("if {0}:",), (condition(draw, scope, 1),), (Stmt("leave", ("continue",)),))


@statement("scratch", 1, table=ITERATION)
def scratch(draw: Draw, scope: Scope) -> Stmt | None:
    """A local array that is private to each iteration."""
    name, size = draw.name("w"), draw.pick(["2", "3", "4", "5", "8"])
    axis = Axis(draw.name("q"), size)
    inner = scope.inside("scratch", axis)
    value = small(draw, inner, "float")
    dtype = draw.pick(["float32", "float32", "float16", "int8", "bfloat16"])
    scope.tiles.append(Tile(name, "local", (size,), dtype))
    loop = draw.pick(["T.serial", "T.unroll", "T.vectorized"])
    lines = (
        f'{name} = T.alloc_local(({size},), "{dtype}")', f"for {axis.name} in {loop}({size}):",
        f"    {name}[{axis.name}] = {{0}}",
    )  # fmt: skip
    return Stmt("scratch", lines, (value,), writes=(name,))
