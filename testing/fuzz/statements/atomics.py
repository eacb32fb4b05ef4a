"""Atomic updates of tensors and tiles."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import condition, small
from testing.fuzz.indices import index
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope
from testing.fuzz.statements.copies import some_shape
from testing.fuzz.statements.regions import a_shape, block, operand, shapes
from testing.fuzz.tree import Stmt


@statement("atomic", 1.2)
def atomic(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest that adds its elements to fewer elements of a tensor."""
    shape = a_shape(draw, 2)
    axes = [Axis(draw.name("i"), size, True) for size in shape]
    inner = scope.inside("atomic", *axes)
    tensor = draw.output((shape[1],), draw.pick(["float32", "int32"]))
    kind = "float" if tensor.dtype == "float32" else "int"
    head = f"for {axes[0].name}, {axes[1].name} in T.Parallel({', '.join(shape)}):"
    update = f"T.atomic_{draw.pick(['add', 'add', 'max', 'min'])}({tensor.name}[{index(draw, inner, shape[1])}], {{0}})"
    value = small(draw, inner, kind)
    if draw.chance(0.3):
        return Stmt("atomic", (head, "    if {1}:", f"        {update}"), (value, condition(draw, inner)))
    return Stmt("atomic", (head, f"    {update}"), (value,))


@statement("atomic_shared", 0.8)
def atomic_shared(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest that adds its elements to fewer elements of a tile."""
    shape = a_shape(draw, 2)
    axes = [Axis(draw.name("i"), size, True) for size in shape]
    memories = ("shared", "shared", "fragment")
    target = draw.tile(scope, (shape[draw.random.randrange(2)],), ("float32", "int32"), (draw.pick(memories),), wide=True)
    inner = scope.inside("atomic_shared", *axes)
    inner.tiles = [tile for tile in inner.tiles if tile.name != target.name]
    kind = "float" if target.dtype == "float32" else "int"
    head = f"for {axes[0].name}, {axes[1].name} in T.Parallel({', '.join(shape)}):"
    update = f"T.atomic_{draw.pick(['add', 'add', 'max'])}({target.name}[{index(draw, inner, target.shape[0])}], {{0}})"
    return Stmt("atomic_shared", (head, f"    {update}"), (small(draw, inner, kind),), writes=(target.name,))


@statement("atomic_element", 0.6)
def atomic_element(draw: Draw, scope: Scope) -> Stmt | None:
    """An atomic update of one element, once per block."""
    tensor = draw.output(("G",), draw.pick(["float32", "int32"]))
    kind = "float" if tensor.dtype == "float32" else "int"
    return Stmt("atomic_element", (f"T.atomic_add({tensor.name}[bx], {{0}})",), (small(draw, scope, kind),))


@statement("atomic_tile", 0.6)
def atomic_tile(draw: Draw, scope: Scope) -> Stmt | None:
    """An atomic addition of a tile to a tensor or to another tile."""
    shape = some_shape(draw, scope)
    source, of = operand(draw, scope, shape, ("float32", "int32"))
    if draw.chance(0.3):
        target, to = operand(draw, scope, shape, (of.dtype,), wide=True, apart=(of.name,))
        return Stmt("atomic_tile", (f"T.atomic_add({target}, {source})",), writes=(to.name,))
    tensor = draw.output(("G", *shape), of.dtype)
    return Stmt("atomic_tile", (f"T.atomic_add({block(tensor.name, 'bx', shape, source)}, {source})",))


@statement("atomic_bits", 0.4)
def atomic_bits(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest whose iterations set bits of one element."""
    size = draw.pick(shapes(draw))
    axis = Axis(draw.name("i"), size, True)
    inner = scope.inside("atomic_bits", axis)
    tensor, order = draw.output(("G", size), "int32"), draw.pick(["relaxed", "release", "acq_rel"])
    update = f'T.atomic_or({tensor.name}[bx, {index(draw, inner, size)}], {{0}} & 7, memory_order="{order}")'
    return Stmt("atomic_bits", (f"for {axis.name} in T.Parallel({size}):", f"    {update}"), (small(draw, inner, "int"),))


@statement("atomic_vector", 0.4)
def atomic_vector(draw: Draw, scope: Scope) -> Stmt | None:
    """Two or four neighbours of a shared tile added to a tensor at once."""
    lanes, dtype = draw.pick([(2, "float32"), (4, "float32"), (2, "float16")])
    rows = draw.pick(shapes(draw))
    tile = draw.tile(scope, (rows, str(lanes)), (dtype,), ("shared",))
    tensor, axis = draw.output((f"G * {rows}", str(lanes)), dtype), draw.name("i")
    update = f"T.atomic_addx{lanes}({tensor.name}[bx * {rows} + {axis}, 0], {tile.name}[{axis}, 0])"
    return Stmt("atomic_vector", (f"for {axis} in T.Parallel({rows}):", f"    {update}"))


@statement("atomic_value", 0.4)
def atomic_value(draw: Draw, scope: Scope) -> Stmt | None:
    """An element stored and loaded again, both atomically, by the block."""
    tensor, name, value = draw.output(("G", "2"), "int32"), draw.name("h"), small(draw, scope, "int")
    scope.values.append((name, "int"))
    lines = (f"T.atomic_store({tensor.name}[bx, 0], {{0}})", f"{name} = T.atomic_load({tensor.name}[bx, 0])")
    return Stmt("atomic_value", (*lines, f"{tensor.name}[bx, 1] = {name}"), (value,))
