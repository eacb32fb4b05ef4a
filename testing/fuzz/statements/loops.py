"""Loops and branches of a block."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import condition
from testing.fuzz.registry import draw_body, statement
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.tree import Stmt

MOST_TRIPS = 64
"""How often a statement may run in all loops together, so that sums stay exact."""


def counted(draw: Draw, scope: Scope, kind: str, head: str, most: int = 6) -> Stmt | None:
    """A loop whose trip count is a size or a small number."""
    most = min(most, MOST_TRIPS // scope.trips)
    fixed = kind in ("unroll", "python_loop") and draw.dynamic
    sizes = [size for size in draw.sizes if draw.sizes[size] <= most and not (fixed and size == "G")]
    if most < 1:
        return None
    axis = Axis(draw.name("k"), draw.pick(sizes) if sizes and draw.chance(0.75) else str(draw.random.randint(1, min(4, most))))
    inner = scope.inside(kind, axis, trips=draw.size(axis.extent), loop=kind not in ("unroll", "python_loop"))
    own = (own_tile(draw, inner, axis),) if draw.chance(0.6 if kind == "pipelined" else 0.15) else ()
    body = draw_body(draw, inner, draw.pick([1, 1, 2, 3]))
    body = (*own, *body) if body else ()
    line = head.format(name=axis.name, extent=axis.extent, stages=draw.pick([0, 1, 2, 2, 3]))
    return Stmt(kind, (line,), body=body, without=(f"{axis.name} = 0",)) if body else None


def own_tile(draw: Draw, scope: Scope, axis: Axis) -> Stmt:
    """A tile of the loop alone, loaded in each pass: such loads may run ahead."""
    shape, dtype = a_shape(draw, draw.pick([1, 2, 2])), draw.pick(["float32", "float16", "int32", "int8", "bfloat16"])
    memory = draw.pick(["shared", "shared", "shared", "fragment"])
    tile = Tile(draw.name({"shared": "s", "fragment": "f"}[memory]), memory, shape, dtype)
    scope.tiles.append(tile)
    allocation = f'{tile.name} = T.alloc_{memory}(({", ".join(shape)},), "{dtype}")'
    source = f"{draw.input((axis.extent, *shape), dtype).name}[{axis.name}{', 0' * len(shape)}]"
    return Stmt("own_tile", (allocation, f"T.copy({source}, {tile.name})"), writes=(tile.name,))


@statement("serial", 5, nests=True)
def serial(draw: Draw, scope: Scope) -> Stmt | None:
    heads = ("T.serial({extent})", "range({extent})", "T.Serial(0, {extent}, 2)", "range({extent} - 1, -1, -1)")
    return counted(draw, scope, "serial", f"for {{name}} in {draw.random.choices(heads, [4, 3, 1, 1])[0]}:")


@statement("unroll", 1.5, nests=True)
def unroll(draw: Draw, scope: Scope) -> Stmt | None:
    head = draw.pick(["T.unroll({extent})", "T.Unroll(0, {extent})", "T.unroll({extent}, explicit=True)"])
    return counted(draw, scope, "unroll", f"for {{name}} in {head}:", 4)


@statement("python_loop", 1, nests=True)
def python_loop(draw: Draw, scope: Scope) -> Stmt | None:
    return counted(draw, scope, "python_loop", "for {name} in list(range({extent})):", 3)


@statement("pipelined", 3, nests=True)
def pipelined(draw: Draw, scope: Scope) -> Stmt | None:
    return counted(draw, scope, "pipelined", "for {name} in T.Pipelined({extent}, num_stages={stages}):")


@statement("while", 1.5, nests=True)
def while_loop(draw: Draw, scope: Scope) -> Stmt | None:
    """A ``while`` loop with a counter."""
    trips = draw.random.randint(1, 3)
    if scope.trips * trips > MOST_TRIPS:
        return None
    axis = Axis(draw.name("c"), str(trips))
    inner = scope.inside("while", axis, trips=trips, loop=False)
    step = Stmt("count", (f"{axis.name} = {axis.name} + 1",), fixed=True)
    body = draw_body(draw, inner, draw.pick([1, 1, 2]))
    more = f" and ({condition(draw, scope, 1)})" if draw.chance(0.25) else ""
    test = f"{axis.name} < {trips}{more}"
    head = draw.pick([f"while {test}:", f"while {test}:", f"with T.While({test}):", "while True:"])
    leave = Stmt("count", (f"if not ({test}):", "    break"), fixed=True)
    lines = (f'{axis.name} = T.alloc_var("int32", init=0)', f"{axis.name} = 0", head)
    first = (leave,) if head == "while True:" else ()
    return Stmt("while", lines, body=(*first, *body, step), without=(f"{axis.name} = 0",)) if body else None


@statement("if", 2.5, nests=True)
def branch(draw: Draw, scope: Scope) -> Stmt | None:
    test = condition(draw, scope, 2)
    body = draw_body(draw, scope.inside("if"), draw.random.randint(1, 2))
    other = draw_body(draw, scope.inside("else"), 1) if draw.chance(0.4) else ()
    return Stmt("if", ("if {0}:",), (test,), body, other, without=()) if body else None


@statement("break", 1.5)
def leave(draw: Draw, scope: Scope) -> Stmt | None:
    """``break`` or ``continue`` of the innermost loop."""
    if not scope.loop:
        return None
    last = Stmt("leave", (draw.pick(["break", "continue", "T.loop_break()", "T.continue_loop()"]),))
    return Stmt("break", ("if {0}:",), (condition(draw, scope, 1),), (last,))


@statement("return", 0.3)
def end(draw: Draw, scope: Scope) -> Stmt | None:
    """Some blocks end here."""
    if scope.depth or "P" in draw.sizes:  # other blocks, and other threads, may wait for what comes after it
        return None
    return Stmt("return", ("if {0}:",), (condition(draw, scope, 1),), (Stmt("leave", ("return",)),))
