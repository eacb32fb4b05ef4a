"""``T.Parallel`` whose iterations update elements of fragments, several of them the same one: sums, maxima, where these are."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import TYPE_NAMES, condition, small, term
from testing.fuzz.indices import index
from testing.fuzz.registry import ITERATION, draw_body, statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Expr, Stmt

_MOST = 512
"""Iterations of a nest, so that sums over all of them and over several nests stay exact."""
_UPDATES = {
    "add": ("{e} += {0}", "{e} = {e} + {0}", "{e} -= {0}", "{e} = {0} + {e}"),
    "max": ("{e} = T.max({e}, {0})", "{e} = T.if_then_else({e} < {0}, {0}, {e})"),
    "min": ("{e} = T.min({0}, {e})",),
}
"""Operation -> what iterations do to an element. In any order they give the same, so one tile has one operation."""
_BRANCHES = {"max": "if {e} < {0}: {e} = {0}", "min": "if {0} < {e}: {e} = {0}"}
"""The same as two statements: then all accesses of the tile have the same indices."""


def _axes(draw: Draw) -> list[Axis]:
    return [Axis(draw.name("i"), size, True) for size in a_shape(draw, draw.pick([1, 2, 2, 3]), _MOST)]


def _around(axes: list[Axis]) -> str:
    return f"for {', '.join(axis.name for axis in axes)} in T.Parallel({', '.join(axis.extent for axis in axes)}):"


def _inside(scope: Scope, kind: str, axes: list[Axis], updated: Collection[Tile]) -> Scope:
    """The scope of the nest: elements that other iterations update are read by the updates alone."""
    inner = scope.inside(kind, *axes, loop=False)
    names = {tile.name for tile in updated}
    inner.tiles = [tile for tile in inner.tiles if tile.name not in names]
    inner.hidden = inner.hidden | names
    return inner


def _place(draw: Draw, scope: Scope, tile: Tile) -> str:
    return f"{tile.name}[{', '.join(str(index(draw, scope, size)) for size in tile.shape)}]"


def _sums(draw: Draw, scope: Scope, kind: str, apart: tuple[str, ...] = ()) -> Tile:
    return draw.tile(scope, a_shape(draw, draw.pick([1, 1, 2])), (TYPE_NAMES[kind],), ("fragment",), wide=True, apart=apart)


@dataclass(frozen=True)
class _Updated:
    """A tile, the operation of its updates, and the one element of them all if they may be branches."""

    tile: Tile
    op: str
    place: str | None


@statement("updates", 1.5)
def updates(draw: Draw, scope: Scope) -> Stmt | None:
    """One to three updates of one or two fragments, under conditions or not."""
    if scope.trips > MOST_TRIPS:
        return None
    tiles: list[Tile] = []
    for kind in (draw.pick(["int", "float"]) for _ in range(draw.pick([1, 1, 2]))):
        tiles.append(_sums(draw, scope, kind, tuple(tile.name for tile in tiles)))
    axes = _axes(draw)
    inner = _inside(scope, "updates", axes, tiles)
    before = draw_body(draw, inner, draw.pick([0, 0, 1]), ITERATION)
    # What the body computes may be an index, but then iterations run one at a time: few programs have such.
    outside = inner if draw.chance(0.2) else _inside(scope, "updates", axes, tiles)
    chosen = [
        _Updated(tile, draw.pick(list(_UPDATES)), _place(draw, outside, tile) if draw.chance(0.5) else None) for tile in tiles
    ]
    chosen += [draw.pick(chosen)] * draw.pick([0, 0, 1])
    body = tuple(_repeated(draw, inner, updated) for updated in chosen)
    return Stmt("updates", (_around(axes),), body=(*before, *body), writes=tuple(tile.name for tile in tiles))


def _repeated(draw: Draw, scope: Scope, updated: _Updated) -> Stmt:
    """An update, perhaps in a loop inside of the iteration."""
    if draw.chance(0.75):
        return _guarded(draw, scope, updated)
    axis = Axis(draw.name("k"), draw.pick(["2", "3", "4"]))
    update = _guarded(draw, scope.inside("updates", axis, loop=False), updated)
    return Stmt("loop", (f"for {axis.name} in T.serial({axis.extent}):",), body=(update,), writes=(updated.tile.name,))


def _guarded(draw: Draw, scope: Scope, updated: _Updated) -> Stmt:
    """An update, perhaps under a condition, with another one where that does not hold."""
    if draw.chance(0.65):
        return _update(draw, scope, updated)
    other = (_update(draw, scope, updated),) if draw.chance(0.4) else ()
    then, writes = (_update(draw, scope, updated),), (updated.tile.name,)
    return Stmt("guard", ("if {0}:",), (condition(draw, scope, 2),), then, other, writes=writes, without=())


def _update(draw: Draw, scope: Scope, updated: _Updated) -> Stmt:
    tile, op = updated.tile, updated.op
    kind = "int" if tile.dtype == TYPE_NAMES["int"] else "float"
    value = term(draw, scope, kind) if op == "add" else small(draw, scope, kind)
    if draw.chance(0.3):
        parts = (condition(draw, scope, 1), value, small(draw, scope, kind))
        value = Expr("select", "T.if_then_else({0}, {1}, {2})", kind, parts)
    value = Expr("convert", f'T.cast({{0}}, "{tile.dtype}")', kind, (value,))
    place = updated.place or _place(draw, scope, tile)
    if updated.place and op in _BRANCHES and draw.chance(0.5):
        head, _, rest = _BRANCHES[op].replace("{e}", place).partition(": ")
        return Stmt("update", (f"{head}:", f"    {rest}"), (value,), writes=(tile.name,))
    return Stmt("update", (draw.pick(_UPDATES[op]).replace("{e}", place),), (value,), writes=(tile.name,))


@statement("largest", 0.7)
def largest(draw: Draw, scope: Scope) -> Stmt | None:
    """The largest or smallest of values that no two iterations share, and the iteration that has it."""
    most = _sums(draw, scope, "int")
    where = draw.tile(scope, most.shape, ("int32",), ("fragment",), wide=True, apart=(most.name,))
    axes = _axes(draw)
    inner = _inside(scope, "largest", axes, (most, where))
    number, count = "0", "1"
    for axis in axes:
        number, count = f"(({number}) * ({axis.extent}) + {axis.name})", f"{count} * ({axis.extent})"
    value = Expr("convert", 'T.cast({0}, "int32")', "int", (small(draw, inner, "int"),))
    at = _place(draw, inner, most).removeprefix(most.name)
    key, sign = draw.name("h"), draw.pick("<>")
    lines = [
        _around(axes),
        f"    {key} = {{0}} * ({count}) + {number}",
        f"    if {key} {sign} {most.name}{at}:",
        f"        {most.name}{at} = {key}",
        f"        {where.name}{at} = {number if draw.chance(0.5) else axes[-1].name}",
    ]
    return Stmt("largest", tuple(lines), (value,), writes=(most.name, where.name))
