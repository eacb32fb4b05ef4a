"""Sums, maxima and counts that each thread keeps of its own iterations of a ``T.Parallel``, made one by atomics."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import TYPE_NAMES, condition, small, term
from testing.fuzz.indices import index
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Expr, Stmt

_MOST = 2048
"""Iterations of a nest, so that sums over all of them and over several nests stay exact."""
_UPDATES = {
    "add": ("{n} += {0}", "{n} = {n} + {0}", "{n} -= {0}"),
    "max": ("{n} = T.max({n}, {0})", "if {n} < {0}: {n} = {0}"),
    "min": ("{n} = T.min({n}, {0})", "if {0} < {n}: {n} = {0}"),
}
"""Operation of an atomic -> what iterations do to the memory that they carry."""


@statement("partial", 1.2)
def partial(draw: Draw, scope: Scope) -> Stmt | None:
    """A variable or an element of an array, over one or two nests, perhaps in a loop; then added to a tensor or a tile."""
    kind, op = draw.pick(["int", "float"]), draw.pick(["add", "add", "max", "min"])
    repeats = draw.random.randint(1, 2) if scope.trips * 2 <= MOST_TRIPS else 1
    lines, place = _memory(draw, kind)
    parts: list[Expr] = []
    for _ in range(draw.pick([1, 1, 2])):
        found, values = _nest(draw, scope, kind, draw.pick(_UPDATES[op]).replace("{n}", place), len(parts))
        if repeats > 1:
            found = [f"for {draw.name('k')} in T.serial({repeats}):", *(f"    {line}" for line in found)]
        lines += found
        parts += values
    target, written = _target(draw, scope, kind)
    lines += [f"T.atomic_{op}({target}, {place})"]
    return Stmt("partial", tuple(lines), tuple(parts), writes=written)


def _memory(draw: Draw, kind: str) -> tuple[list[str], str]:
    """Declares memory of threads, and the element of it that is carried."""
    dtype, first = TYPE_NAMES[kind], draw.random.randint(-2, 2)
    if draw.chance(0.7):
        name = draw.name("n")
        return [f'{name} = T.alloc_var("{dtype}", init={first})', f"{name} = {first}"], name
    name = draw.name("w")
    return [f'{name} = T.alloc_local((3,), "{dtype}")', f"T.fill({name}, {first})"], f"{name}[{draw.random.randrange(3)}]"


def _nest(draw: Draw, scope: Scope, kind: str, update: str, number: int) -> tuple[list[str], list[Expr]]:
    """A nest with one update, whose value is the part of the statement with this number."""
    shape = a_shape(draw, draw.pick([1, 2]), _MOST)
    axes = [Axis(draw.name("i"), size, True) for size in shape]
    inner = scope.inside("partial", *axes)
    value = term(draw, inner, kind) if "+=" in update else small(draw, inner, kind)
    values = [Expr("carried", f'T.cast({{0}}, "{TYPE_NAMES[kind]}")', kind, (value,))]
    lines = [f"for {', '.join(axis.name for axis in axes)} in T.Parallel({', '.join(shape)}):"]
    depth = 1
    if draw.chance(0.4):
        values.append(condition(draw, inner, 1))
        lines.append(f"    if {{{number + 1}}}:")
        depth += 1
    head, colon, rest = update.replace("{0}", f"{{{number}}}").partition(": ")
    lines += ["    " * depth + head + colon.strip()] + (["    " * (depth + 1) + rest] if rest else [])
    return lines, values


def _target(draw: Draw, scope: Scope, kind: str) -> tuple[str, tuple[str, ...]]:
    """An element of an output or of a shared tile of sums, and the names of the tiles that the atomic writes."""
    dtype = TYPE_NAMES[kind]
    if draw.chance(0.6):
        return f"{draw.output(('G', '2'), dtype).name}[bx, {draw.random.randrange(2)}]", ()
    tile = draw.tile(scope, a_shape(draw, 1), (dtype,), ("shared",), wide=True)
    return f"{tile.name}[{index(draw, Scope(), tile.shape[0])}]", (tile.name,)


@statement("partial_array", 0.8)
def partial_array(draw: Draw, scope: Scope) -> Stmt | None:
    """An array that a nest without fragments carries: each thread runs all iterations, and statements after it read the array."""
    size, kind = draw.random.randint(1, 4), draw.pick(["int", "float"])
    axis = Axis(draw.name("i"), a_shape(draw, 1, 64)[0], True)
    inner = scope.inside("partial_array", axis)
    inner.tiles = [tile for tile in inner.tiles if tile.memory == "shared"]
    name, dtype, step = draw.name("w"), TYPE_NAMES[kind], draw.name("q")
    value = Expr("carried", f'T.cast({{0}}, "{dtype}")', kind, (small(draw, inner, kind),))
    update = draw.pick(["{w} += {0}", "{w} = T.max({w}, {0})"]).replace("{w}", f"{name}[{step}]")
    lines = (
        f'{name} = T.alloc_local(({size},), "{dtype}")', f"T.fill({name}, {draw.random.randint(-2, 2)})",
        f"for {axis.name} in T.Parallel({axis.extent}):",
        f"    for {step} in {draw.pick(['T.serial', 'T.unroll', 'range'])}({size}):",
        f"        {update}",
    )  # fmt: skip
    scope.tiles.append(Tile(name, "local", (str(size),), dtype, wide=True))
    return Stmt("partial_array", lines, (value,), writes=(name,))
