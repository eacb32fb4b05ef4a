"""Slices as values, as in numpy; copies of slices with steps; nests over ranges, nested serial loops."""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.expressions import small
from testing.fuzz.registry import draw_body, statement
from testing.fuzz.scope import Axis, Scope
from testing.fuzz.statements.copies import some_shape
from testing.fuzz.statements.loops import MOST_TRIPS
from testing.fuzz.statements.nests import store
from testing.fuzz.statements.regions import operand
from testing.fuzz.tree import Stmt

_TYPES = ("float32", "int32")


@statement("slice_assign", 1)
def slice_assign(draw: Draw, scope: Scope) -> Stmt | None:
    """A region computed from others of the same shape, element by element."""
    shape = some_shape(draw, scope)
    target, to = operand(draw, scope, shape, _TYPES)
    first, of = operand(draw, scope, shape, (to.dtype,), apart=(to.name,))
    second, _ = operand(draw, scope, shape, (to.dtype,), apart=(to.name,))
    if any(f"{to.name}[" in text for text in (target.partition("[")[2], first, second)):
        return None  # each element would read an index that another one overwrites
    whole = f"[{', '.join(':' for _ in shape)}]"
    target, first, second = (name if "[" in name else name + whole for name in (target, first, second))
    low, high = ("T.float32(-4)", "T.float32(4)") if to.dtype == "float32" else ("-4", "4")
    difference = f"T.clamp({first} * 2 - {second}, {low}, {high})"
    value = draw.pick([f"T.max({first}, {second})", difference, f"T.abs({first})", f"-{second}"])
    if draw.chance(0.2):
        return Stmt("slice_assign", (f"{target} *= -1",), writes=(to.name,))
    return Stmt("slice_assign", (f"{target} = {value}",), writes=(to.name,))


@statement("stepped_copy", 0.7)
def stepped_copy(draw: Draw, scope: Scope) -> Stmt | None:
    """Every second or third element of an axis of an input, or to such elements of an output."""
    shape = some_shape(draw, scope)
    tile, of = operand(draw, scope, shape)
    if of.dtype in dtypes.PACKED:
        return None
    axis, step = draw.random.randrange(len(shape)), draw.pick([2, 2, 3])
    larger = tuple(f"({size}) * {step}" if n == axis else size for n, size in enumerate(shape))
    places = ", ".join(f"{draw.random.randrange(step)}::{step}" if n == axis else ":" for n in range(len(shape)))
    tile = tile if "[" in tile else f"{tile}[{', '.join(':' for _ in shape)}]"
    if draw.chance(0.6):
        source = draw.input(("G", *larger), of.dtype)
        return Stmt("stepped_copy", (f"T.copy({source.name}[bx, {places}], {tile})",), writes=(of.name,))
    target = draw.output(("G", *larger), of.dtype)
    return Stmt("stepped_copy", (f"T.copy({tile}, {target.name}[bx, {places}])",))


@statement("ranged_nest", 0.7)
def ranged_nest(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest over every element, or every second or third, of a tile of one axis."""
    found = [tile for tile in scope.tiles if len(tile.shape) == 1 and tile.memory in ("shared", "fragment")]
    if not found:
        return None
    tile = draw.pick(found)
    axis = Axis(draw.name("i"), tile.shape[0], True)
    inner = scope.inside("ranged_nest", axis, loop=False)
    inner.written = {tile.name: axis.name}
    head = f"for {axis.name} in T.Parallel(0, {tile.shape[0]}, {draw.random.randint(1, 3)}):"
    return Stmt("ranged_nest", (head,), body=(store(draw, inner, tile, axis.name),), writes=(tile.name,))


@statement("grid", 1, nests=True)
def grid(draw: Draw, scope: Scope) -> Stmt | None:
    """Two nested serial loops in one statement."""
    most = MOST_TRIPS // scope.trips
    axes = [Axis(draw.name("k"), str(draw.random.randint(1, 3))) for _ in range(2)]
    trips = int(axes[0].extent) * int(axes[1].extent)
    if trips > most:
        return None
    body = draw_body(draw, scope.inside("grid", *axes, trips=trips, loop=False), draw.pick([1, 1, 2]))
    names = [axis.name for axis in axes]
    head = f"for {', '.join(names)} in T.grid({', '.join(axis.extent for axis in axes)}):"
    return Stmt("grid", (head,), body=body, without=tuple(f"{name} = 0" for name in names)) if body else None


@statement("persistent", 0.5, nests=True)
def persistent(draw: Draw, scope: Scope) -> Stmt | None:
    """The tiles of one block of a persistent kernel."""
    if scope.trips * 4 > MOST_TRIPS or scope.depth:
        return None
    axes = [Axis(draw.name("k"), str(draw.random.randint(1, 4))) for _ in range(2)]
    body = draw_body(draw, scope.inside("persistent", *axes, trips=4, loop=False), draw.pick([1, 1, 2]))
    names = [axis.name for axis in axes]
    domain = ", ".join(axis.extent for axis in axes)
    head = f"for {', '.join(names)} in T.Persistent([{domain}], 4, bx):"
    return Stmt("persistent", (head,), body=body, without=tuple(f"{name} = 0" for name in names)) if body else None


@statement("scheduler", 0.5, nests=True)
def scheduler(draw: Draw, scope: Scope) -> Stmt | None:
    """The same with ``T.PersistentTileScheduler``."""
    if scope.trips * 4 > MOST_TRIPS or scope.depth:
        return None
    rows, columns, name = Axis(draw.name("k"), str(draw.random.randint(1, 4))), Axis(draw.name("k"), "3"), draw.name("t")
    inner = scope.inside("scheduler", rows, columns, trips=4, loop=False)
    body = draw_body(draw, inner, draw.pick([1, 1, 2]))
    options = f"swizzle_size={draw.random.randint(1, 3)}, column_major={draw.chance(0.5)}"
    lines = (f"{name} = T.PersistentTileScheduler({rows.extent}, 3, 4, {options})", f"{name}.init(bx)", f"while {name}.valid():")
    first = Stmt("text", (f"{rows.name} = {name}.m_idx + 0", f"{columns.name} = {name}.n_idx + 0"), fixed=True)
    step = Stmt("text", (f"{name}.next_tile()",), fixed=True)
    without = (f"{rows.name} = 0", f"{columns.name} = 0")
    return Stmt("scheduler", lines, body=(first, *body, step), without=without) if body else None


@statement("atomic_previous", 0.5)
def atomic_previous(draw: Draw, scope: Scope) -> Stmt | None:
    """Two atomic updates of an element; the previous value that the second one returns is stored."""
    kind = draw.pick(["float", "int"])
    tensor, kept = (draw.output(("G", size), {"float": "float32", "int": "int32"}[kind]) for size in ("1", "2"))
    name = draw.name("h")
    lines = (
        f"T.atomic_add({tensor.name}[bx, 0], {{0}})",
        f"{name} = T.atomic_max({tensor.name}[bx, 0], {{1}}, return_prev=True)",
        f"{kept.name}[bx, 0] = {name}",
    )
    return Stmt("atomic_previous", lines, (small(draw, scope, kind), small(draw, scope, kind)))
