"""Groups of threads that use the same fragments, iterations that exchange values as lanes do, and threads that end early."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import small
from testing.fuzz.registry import BLOCK, THREAD, draw_body
from testing.fuzz.scope import Axis, Scope, Tile, Variable
from testing.fuzz.statements.regions import a_shape
from testing.fuzz.statements.threads import COUNT
from testing.fuzz.tree import Stmt

_GROUP_STATEMENTS = ("parallel", "fill", "reduce", "copy", "load", "save", "scan")
_LANE_STATEMENTS = ("thread_assign", "shuffle", "warp_reduce", "thread_vote", "thread_place")


def groups(draw: Draw, scope: Scope) -> Stmt:
    """Fragments that all threads fill; then each group works on its copies, alone and beside the other.

    Where each group changes a fragment that the other one does not use, all threads read both in the end. Shared tiles may be
    those of one group, or handed on from branch to branch.
    """
    apart, handed = draw.chance(0.4), draw.chance(0.5)
    shared = [_fragment(draw, scope) for _ in range(2 if apart else draw.random.randint(1, 2))]
    fill = Stmt("text", tuple(line for _, lines in shared for line in lines), fixed=True)
    tiles = [tile for tile, _ in shared]
    own = [draw.declare(scope, a_shape(draw, 2, 2048), draw.pick(["float32", "int32"]), "shared") for _ in range(2)]
    table = {name: BLOCK[name] for name in _GROUP_STATEMENTS}
    bodies, used = [], []
    for number in draw.pick([[0, 1], [1, 0], [0, 1, 0], [1, 0, 1]]):
        inner = scope.inside("groups")
        common = [tiles[number]] if apart else tiles
        mine = [*common, *(own if handed else [own[number]]), *(tile for group, tile in used if group == number)]
        inner.tiles, inner.values, inner.variables = list(mine), [], []
        inner.hidden = inner.hidden | {tile.name for tile in draw.declared if tile not in mine}
        before = len(draw.declared)
        body = draw_body(draw, inner, draw.random.randint(1, 2), table)
        new = draw.declared[before:]
        used += [(number, tile) for tile in new]
        alone = [tile for tile in new if tile.memory == "fragment"]  # of one group: no statement of all threads reads it
        draw.declared = [tile for tile in draw.declared if tile not in alone]
        results = tuple(_saved(draw, tile) for tile in (*(() if apart else tiles), *alone))
        bodies.append(Stmt("group", (f"with T.ws({number}):",), body=(*body, *results)))
    results = [_saved(draw, tile) for tile in tiles] if apart else []
    return Stmt("groups", ("if True:",), body=(fill, *bodies, *results))


def _fragment(draw: Draw, scope: Scope) -> tuple[Tile, tuple[str, ...]]:
    """A fragment, and the lines that allocate and fill it; no statement of the block uses it."""
    shape, dtype = a_shape(draw, draw.pick([1, 2]), 4096), draw.pick(["float32", "float32", "float16", "int32"])
    tile = Tile(draw.name("f"), "fragment", shape, dtype)
    sizes = ", ".join(shape)
    source = draw.input(("G", *shape), dtype)
    return tile, (
        f'{tile.name} = T.alloc_fragment(({sizes},), "{dtype}")',
        f"T.copy({source.name}[bx{', 0' * len(shape)}], {tile.name})",
    )


def _saved(draw: Draw, tile: Tile) -> Stmt:
    tensor = draw.output(("G", *tile.shape), tile.dtype)
    return Stmt("result", (f"T.copy({tile.name}, {tensor.name}[bx{', 0' * len(tile.shape)}])",))


def lanes(draw: Draw, scope: Scope) -> Stmt:
    """A ``T.Parallel`` over the threads whose iterations shuffle and vote."""
    axis = Axis("tx", COUNT, True)
    inner = scope.inside("lanes", axis)
    inner.tiles, inner.variables, inner.values = (
        [tile for tile in inner.tiles if not tile.wide and tile.memory == "shared"],
        [],
        [],
    )
    first = Variable(draw.name("v"), "float")
    begin = (f'{first.name} = T.alloc_var("float32")', f"{first.name} = {{0}}")
    start = Stmt("text", begin, (small(draw, inner, "float"),), fixed=True)
    inner.variables.append(first)
    exchange = Stmt("shuffle", (f"{first.name} = T.shfl_xor({first.name}, {draw.pick([1, 2, 4, 8, 16])})",), fixed=True)
    body = draw_body(draw, inner, draw.random.randint(0, 3), {name: THREAD[name] for name in _LANE_STATEMENTS})
    last = Stmt("save", (f"{draw.output(('G', COUNT), 'float32').name}[bx, tx] = {first.name}",), fixed=True)
    return Stmt("lanes", (f"for tx in T.Parallel({COUNT}):",), body=(start, exchange, *body, last))


_TESTS = ("tx % 3 == {n}", "tx >= {n} * 8", "tx < {n} * 8", "tx == {n}", "bx == {n}", "(tx + bx) % 4 == {n}")


def exits(draw: Draw, scope: Scope) -> Stmt:
    """Threads that store what they hold until they end, one after the other."""
    inner = scope.inside("exits", Axis("tx", COUNT))
    inner.tiles, inner.values, inner.variables = [], [], []
    name = draw.name("v")
    lines = ["T.sync_threads()", "tx = T.get_thread_binding()", f'{name} = T.alloc_var("float32")', f"{name} = {{0}}"]
    parts = [small(draw, inner, "float")]
    for _ in range(draw.random.randint(1, 3)):
        test = draw.pick(_TESTS).format(n=draw.random.randint(0, 4))
        leave = draw.pick(["return", "T.thread_return()"])
        found = [f"if {test}:", f"    {leave}"]
        if draw.chance(0.3):
            step = draw.name("k")
            found = [
                f"for {step} in T.serial(3):",
                f"    {name} = {name} + T.float32(1)",
                f"    if {step} == tx % 5 and {test}:",
                f"        {leave}",
            ]
        lines += [*found, f"{draw.output(('G', COUNT), 'float32').name}[bx, tx] = {name} + {{{len(parts)}}}"]
        parts.append(small(draw, inner, "float"))
        if draw.chance(0.3):
            lines.append("T.sync_threads()")
    return Stmt("exits", tuple(lines), tuple(parts))
