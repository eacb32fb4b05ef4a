"""Scalars of a block, and single elements."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import condition, small
from testing.fuzz.indices import index
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope, Tile, Variable
from testing.fuzz.statements.nests import store
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Expr, Stmt

DTYPES = {"int": "int32", "float": "float32", "bool": "bool"}


def value_of(draw: Draw, scope: Scope, kind: str) -> Expr:
    """A value for a variable."""
    return condition(draw, scope, 1) if kind == "bool" else small(draw, scope, kind)


@statement("variable", 1.5)
def variable(draw: Draw, scope: Scope) -> Stmt | None:
    """A new variable."""
    kind = draw.pick(["int", "int", "float", "bool"])
    name = draw.name("v")
    first = value_of(draw, scope, kind)
    scope.variables.append(Variable(name, kind))
    dtype = "int8" if kind == "int" and draw.chance(0.1) else DTYPES[kind]
    return Stmt("variable", (f'{name} = T.alloc_var("{dtype}")', f"{name} = {{0}}"), (first,))


@statement("assign", 3)
def assign(draw: Draw, scope: Scope) -> Stmt | None:
    """An assignment to a variable."""
    if not scope.variables:
        return None
    target = draw.pick(scope.variables)
    return Stmt("assign", (f"{target.name} = {{0}}",), (value_of(draw, scope, target.type),))


@statement("read_once", 1)
def read_once(draw: Draw, scope: Scope) -> Stmt | None:
    """A named value: it is evaluated here, so that later stores to its operands do not change it."""
    kind, name = draw.pick(["float", "int"]), draw.name("h")
    value = small(draw, scope, kind)
    scope.values.append((name, kind))
    return Stmt("read_once", (f'{name} = T.cast({{0}}, "{DTYPES[kind]}")',), (value,))


@statement("element", 1.5)
def element(draw: Draw, scope: Scope) -> Stmt | None:
    """A store to one element of a tile outside of a nest."""
    found = [tile for tile in scope.tiles if tile.memory != "local"]
    if not found:
        return None
    tile = draw.pick(found)
    at = ", ".join(str(index(draw, scope, size)) for size in tile.shape)
    return store(draw, scope, tile, at)


@statement("local_array", 1)
def local_array(draw: Draw, scope: Scope) -> Stmt | None:
    """A local array with the same values in every thread, filled element by element or by an operator."""
    name, size = draw.name("w"), draw.pick(["2", "3", "4", "5", "8", "9"])
    dtype = draw.pick(["float32", "float32", "int32", "float16", "int8", "bfloat16"])
    if draw.chance(0.3):
        lines, parts = (f'{name} = T.alloc_local(({size},), "{dtype}")', f"T.fill({name}, {draw.random.randint(-3, 3)})"), ()
    else:
        axis = Axis(draw.name("q"), size)
        parts = (small(draw, scope.inside("local_array", axis), "float"),)
        loop = draw.pick(["T.serial", "T.serial", "T.unroll"])
        lines = (
            f'{name} = T.alloc_local(({size},), "{dtype}")', f"for {axis.name} in {loop}({size}):",
            f'    {name}[{axis.name}] = T.cast({{0}}, "{dtype}")',
        )  # fmt: skip
    scope.tiles.append(Tile(name, "local", (size,), dtype))
    return Stmt("local_array", lines, parts, writes=(name,))


@statement("vote", 0.7)
def vote(draw: Draw, scope: Scope) -> Stmt | None:
    """Whether some or all elements are not zero."""
    tile, name = draw.tile(scope, a_shape(draw, 1), ("int32", "bool", "float32"), ("shared",)), draw.name("v")
    scope.variables.append(Variable(name, "int"))
    test = f"T.{draw.pick(['any_of', 'all_of'])}({tile.name})"
    return Stmt("vote", (f'{name} = T.alloc_var("int32", init=0)', f"{name} = T.if_then_else({test}, 1, 2)"))
