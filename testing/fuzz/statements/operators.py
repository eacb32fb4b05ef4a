"""Reductions, scans, reducers, views."""

from __future__ import annotations

from testing.fuzz import dtypes
from testing.fuzz.draw import Draw
from testing.fuzz.expressions import term
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.copies import some_shape
from testing.fuzz.statements.regions import a_shape, counted, operand, own_axes
from testing.fuzz.tree import Stmt

SUMS = ("sum", "abssum")
CHOICES = ("max", "min", "absmax")
BITS = ("bitand", "bitor", "bitxor")


@statement("reduce", 4)
def reduce(draw: Draw, scope: Scope) -> Stmt | None:
    """One axis of a tile."""
    shape = some_shape(draw, scope)
    if len(shape) < 2:
        shape = a_shape(draw, 2)
    kind = draw.pick(SUMS * 2 + CHOICES * 2 + BITS)
    dim = draw.random.randrange(len(shape))
    rest = tuple(size for n, size in enumerate(shape) if n != dim)
    wide = kind in SUMS
    dtype = "int32" if kind in BITS or draw.chance(0.25) else "float32"
    if kind in CHOICES and draw.chance(0.3):
        dtype = draw.pick(["float16", "bfloat16", "int8"])
    source, of = operand(draw, scope, shape, (dtype,))
    target, to = operand(draw, scope, rest, (dtype,), wide=wide, apart=(of.name,))
    dim, rank = counted(dim, source, target, len(shape))
    shown = dim if draw.chance(0.7) else dim - rank
    name, which = (f"reduce_{kind}", "") if draw.chance(0.8) else ("reduce", f'"{kind}", ')
    call = f"T.{name}({source}, {target}, {which}dim={shown}, clear={draw.chance(0.6)})"
    return Stmt("reduce", (call,), writes=(to.name,))


@statement("reduce_all", 1)
def reduce_all(draw: Draw, scope: Scope) -> Stmt | None:
    """The only axis of a tile, or of a row of one."""
    shape, kind = a_shape(draw, 1), draw.pick(SUMS + CHOICES + BITS)
    dtype = "int32" if kind in BITS or draw.chance(0.25) else "float32"
    source, of = operand(draw, scope, shape, (dtype,))
    target = draw.tile(scope, ("1",), (dtype,), wide=kind in SUMS, apart=(of.name,))
    dim, _ = counted(0, source, target.name, 1)
    tail = draw.pick([f"dim={dim}", f"dim={dim}", "dim=-1"] if all(own_axes(source)) else [f"dim={dim}"])
    call = f"T.reduce_{kind}({source}, {target.name}, {tail}, clear={draw.chance(0.6)})"
    return Stmt("reduce_all", (call,), writes=(target.name,))


@statement("reduce_arg", 0.7)
def reduce_arg(draw: Draw, scope: Scope) -> Stmt | None:
    """Where the largest or smallest element along an axis is."""
    shape = a_shape(draw, draw.pick([1, 2, 2, 3]))
    dim = draw.random.randrange(len(shape))
    rest = tuple(size for n, size in enumerate(shape) if n != dim) or ("1",)
    dtype = draw.pick(["float32", "float32", "int32", "float16", "bfloat16", "int8"])
    source, of = operand(draw, scope, shape, (dtype,))
    target, to = operand(draw, scope, rest, ("int32", "int64"), wide=True, apart=(of.name,))
    dim, rank = counted(dim, source, target, len(shape))
    call = f"T.reduce_arg{draw.pick(['max', 'min'])}({source}, {target}, dim={dim if draw.chance(0.7) else dim - rank})"
    return Stmt("reduce_arg", (call,), writes=(to.name,))


@statement("scan", 1.5)
def scan(draw: Draw, scope: Scope) -> Stmt | None:
    """Running sums to another tile, running maxima in place too."""
    shape = some_shape(draw, scope)
    dim = draw.random.randrange(len(shape))
    dtype = draw.pick(["float32", "float32", "int32"])
    source, of = operand(draw, scope, shape, (dtype,), parts=0.2)
    tail = f"dim={dim}, reverse={draw.chance(0.4)}"
    if draw.chance(0.4):
        if draw.chance(0.5):
            return Stmt("scan", (f"T.cummax({source}, {tail})",), writes=(of.name,))
        target, to = operand(draw, scope, shape, (dtype,), apart=(of.name,), parts=0.2)
        return Stmt("scan", (f"T.cummax({source}, {target}, {tail})",), writes=(to.name,))
    target, to = operand(draw, scope, shape, (dtype,), wide=True, apart=(of.name,), parts=0.2)
    return Stmt("scan", (f"T.cumsum({source}, {target}, {tail})",), writes=(to.name,))


@statement("reducer", 1)
def reducer(draw: Draw, scope: Scope) -> Stmt | None:
    """Partial results of the threads, made one at the end."""
    inner_shape = some_shape(draw, scope)
    if len(inner_shape) < 2:
        inner_shape = a_shape(draw, 2)
    keep, away = Axis(draw.name("i"), inner_shape[0], True), Axis(draw.name("j"), inner_shape[1], True)
    name = draw.name("r")
    op = draw.pick(["sum", "sum", "max", "min", *BITS])
    kind, dtype = ("int", "int32") if op in BITS or draw.chance(0.2) else ("float", "float32")
    target, to = operand(draw, scope, (keep.extent,), (dtype,), ("fragment",), wide=True, parts=0)
    inside = scope.inside("reducer", keep, away)
    inside.tiles = [tile for tile in inside.tiles if tile.name != to.name]
    update = term(draw, inside, kind)
    replication = draw.pick(["", "", ', replication="all"', ', replication="none"'])
    first = draw.pick(["", "", f", init={draw.random.randint(-4, 4)}"])
    lines = (
        f'{name} = T.alloc_reducer(({keep.extent},), "{dtype}", op="{op}"{replication})',
        f"T.reducer_init({name}{first})",
        f"for {keep.name}, {away.name} in T.Parallel({keep.extent}, {away.extent}):",
        f"    T.reducer_update({name}[{keep.name}], {{0}})",
        f"T.finalize_reducer({name}, {target})",
    )
    return Stmt("reducer", lines, (update,), writes=(to.name,))


@statement("view", 0.8)
def view(draw: Draw, scope: Scope) -> Stmt | None:
    """A tile under a flat shape, or as rows of another length, which statements after it use as well."""
    found = [tile for tile in scope.tiles if tile.memory in ("shared", "fragment") and len(tile.shape) > 1]
    found = [tile for tile in found if tile.dtype not in dtypes.PACKED or draw.size(tile.shape[-1]) % 2 == 0]
    if not found:
        return None
    tile = draw.pick(found)
    sizes = [f"({size})" for size in tile.shape]
    name = draw.name("flat")
    turned = draw.chance(0.4) and tile.dtype not in dtypes.PACKED
    shape = (tile.shape[-1], " * ".join(sizes[:-1])) if turned else (" * ".join(sizes),)
    used = Tile(name, tile.memory, shape, tile.dtype, tile.wide)
    scope.tiles = [t for t in scope.tiles if t.name != tile.name] + [used]
    scope.hidden = scope.hidden | {tile.name}
    return Stmt("view", (f"{name} = T.reshape({tile.name}, ({', '.join(shape)},))",))
