"""Elements of tables of every integer type as indices, beginnings of slices, bounds of loops, conditions, counts of shifts."""

from __future__ import annotations

from testing.fuzz import ends
from testing.fuzz.draw import Draw
from testing.fuzz.expressions import small
from testing.fuzz.registry import draw_body, statement
from testing.fuzz.scope import Axis, Scope
from testing.fuzz.statements.copies import some_shape
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.regions import a_shape, block, operand, shapes
from testing.fuzz.tree import Stmt


def table(draw: Draw, scope: Scope, size: str, most: str) -> tuple[str, tuple[str, ...]]:
    """A table of ``size`` numbers below ``most``, of a random integer type, and the lines that load it where it is a tile."""
    dtype = draw.dtype(ends.INTS)
    source = draw.input(("G", size), dtype, 0, min(draw.size(most) - 1, 100))
    if draw.chance(0.4):
        return f"{source.name}[bx, {{}}]", ()
    memory = draw.pick(["shared", "fragment"])
    name = draw.name({"shared": "s", "fragment": "f"}[memory])
    load = (f'{name} = T.alloc_{memory}(({size},), "{dtype}")', f"T.copy({source.name}[bx, 0], {name})")
    return f"{name}[{{}}]", load


def _place(draw: Draw, scope: Scope, size: str) -> str:
    """An index that the block knows."""
    return draw.pick([*(axis.name for axis in scope.axes if axis.extent == size), str(draw.random.randrange(draw.size(size)))])


@statement("table_gather", 1)
def table_gather(draw: Draw, scope: Scope) -> Stmt | None:
    """Rows of a tile, or elements of a tensor, where a table says."""
    size, dtype, at = draw.pick(shapes(draw)), draw.pick(["float32", "int32", "float16", "int8"]), draw.name("i")
    target = draw.output(("G", size), dtype)
    head = f"for {at} in T.Parallel({size}):"
    if draw.chance(0.3):  # outside of a tensor, reads give zero, and stores are dropped
        source, places = draw.input((size,), dtype), draw.ends(("G", size), draw.dtype(ends.INTS))
        value = f"{source.name}[{places.name}[bx, {at}]]"
        if draw.chance(0.4):
            counts = draw.output((size,), "int32")
            value = f"T.atomic_add({counts.name}[{places.name}[bx, {at}]], 1)"
            return Stmt("table_gather", (head, f"    {value}"))
        return Stmt("table_gather", (head, f"    {target.name}[bx, {at}] = {value}"))
    source = draw.tile(scope, (draw.pick(shapes(draw)),), (dtype,), ("shared",))
    place, load = table(draw, scope, size, source.shape[0])
    return Stmt("table_gather", (*load, head, f"    {target.name}[bx, {at}] = {source.name}[{place.format(at)}]"))


@statement("table_scatter", 0.7)
def table_scatter(draw: Draw, scope: Scope) -> Stmt | None:
    """One element of a tile that a table names, or sums where it says."""
    if draw.chance(0.5):
        tile = draw.tile(scope, a_shape(draw, 1), ("float32", "int32"), wide=True)
        size = draw.pick(shapes(draw))
        place, load = table(draw, scope, size, tile.shape[0])
        value = small(draw, scope, "float" if tile.dtype == "float32" else "int")
        store = f"{tile.name}[{place.format(_place(draw, scope, size))}] {draw.pick(['=', '+='])} {{0}}"
        return Stmt("table_scatter", (*load, store), (value,), writes=(tile.name,))
    size, at = draw.pick(shapes(draw)), draw.name("i")
    target = draw.output((draw.pick(shapes(draw)),), draw.pick(["float32", "int32"]))
    place, load = table(draw, scope, size, target.shape[0])
    inner = scope.inside("table_scatter", Axis(at, size, True))
    value = small(draw, inner, "float" if target.dtype == "float32" else "int")
    head = f"for {at} in T.Parallel({size}):"
    return Stmt("table_scatter", (*load, head, f"    T.atomic_add({target.name}[{place.format(at)}], {{0}})"), (value,))


@statement("table_slice", 0.7)
def table_slice(draw: Draw, scope: Scope) -> Stmt | None:
    """A copy from the row of an input that a table names, or of a tile with one axis more."""
    shape, size = some_shape(draw, scope), draw.pick(shapes(draw))
    target, to = operand(draw, scope, shape)
    place, load = table(draw, scope, size, "3")
    at = place.format(_place(draw, scope, size))
    source = draw.input(("3", *shape), to.dtype)
    return Stmt("table_slice", (*load, f"T.copy({block(source.name, at, shape, target)}, {target})"), writes=(to.name,))


@statement("table_loop", 1, nests=True)
def table_loop(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop as long as a table says, or a branch that it chooses."""
    size = draw.pick(shapes(draw))
    place, load = table(draw, scope, size, "4")
    at = place.format(_place(draw, scope, size))
    if draw.chance(0.4):
        body = draw_body(draw, scope.inside("table_loop"), draw.random.randint(1, 2))
        test = draw.pick(["{0}", "{0} > 1", "{0} - 1 < 2", "{0} % 2 == 0", "1 << {0} != 4", "-{0} < 0", "not {0}"]).format(at)
        return Stmt("table_loop", (*load, f"if {test}:"), body=body, without=()) if body else None
    if scope.trips * 4 > MOST_TRIPS:
        return None
    axis = Axis(draw.name("k"), "4")
    body = draw_body(draw, scope.inside("table_loop", axis, trips=4, loop=True), draw.random.randint(1, 2))
    loop = draw.pick(["T.serial({})", "range({})", "T.Pipelined({}, num_stages=2)", "T.serial(0, {})"]).format(at)
    return Stmt("table_loop", (*load, f"for {axis.name} in {loop}:"), body=body, without=(f"{axis.name} = 0",)) if body else None


@statement("table_count", 0.7)
def table_count(draw: Draw, scope: Scope) -> Stmt | None:
    """Iterations with a loop each, as long as a table says, and bits shifted as far as it says."""
    size, at, step = draw.pick(shapes(draw)), draw.name("i"), draw.name("q")
    place, load = table(draw, scope, size, "6")
    value, name, target = place.format(at), draw.name("v"), draw.output(("G", size), "int32")
    update = draw.pick(["{name} += {step} + 1", "{name} = {name} * 2 + 1", "{name} ^= 1 << {step}", "{name} += 1 << {value}"])
    lines = (
        f"for {at} in T.Parallel({size}):", f'    {name} = T.alloc_var("int32", init=0)',
        f"    for {step} in T.serial({value}):", f"        {update.format(name=name, step=step, value=value)}",
        f"    {target.name}[bx, {at}] = {name}",
    )  # fmt: skip
    return Stmt("table_count", (*load, *lines))


@statement("refill", 1, nests=True)
def refill(draw: Draw, scope: Scope) -> Stmt | None:
    """A loop that uses what a tile holds before it loads what the next iteration finds in it."""
    trips = draw.random.randint(2, 4)
    if scope.trips * trips > MOST_TRIPS:
        return None
    shape, axis = a_shape(draw, draw.pick([1, 2])), Axis(draw.name("k"), str(trips))
    tile = draw.tile(scope, shape, ("float32", "float16", "int32", "int8", "bfloat16"))
    inner = scope.inside("refill", axis, trips=trips, loop=False)
    result = draw.output(("G", axis.extent, *shape), tile.dtype)
    use = Stmt("save", (f"T.copy({tile.name}, {result.name}[bx, {axis.name}{', 0' * len(shape)}])",))
    body = draw_body(draw, inner, draw.pick([0, 1, 1, 2]))
    source = draw.input((axis.extent, *shape), tile.dtype)
    load = Stmt("load", (f"T.copy({source.name}[{axis.name}{', 0' * len(shape)}], {tile.name})",), writes=(tile.name,))
    order = (use, *body, load) if draw.chance(0.6) else (*body, use, load)
    head = draw.pick([f"T.Pipelined({trips}, num_stages={draw.random.randint(1, 3)})", f"T.serial({trips})"])
    return Stmt("refill", (f"for {axis.name} in {head}:",), body=order, without=(f"{axis.name} = 0",))
