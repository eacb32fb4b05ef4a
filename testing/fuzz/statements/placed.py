"""Copies and nests whose elements the program itself shares out among the threads: ``loop_layout``, ``coalesced_width``."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Axis, Scope
from testing.fuzz.statements.copies import fitting, some_shape
from testing.fuzz.statements.nests import store
from testing.fuzz.statements.regions import block, operand
from testing.fuzz.tree import Stmt


def layout(draw: Draw, shape: tuple[str, ...]) -> str | None:
    """A fragment over a shape of two axes: which thread has which element; None where these do not divide."""
    rows, columns = (draw.size(size) for size in shape)
    across = draw.chance(0.7)
    fast, slow = (columns, rows) if across else (rows, columns)
    widths = [w for w in (1, 2, 4, 8) if fast % w == 0 and draw.threads % (fast // w) == 0]
    if not widths:
        return None
    width = draw.pick(widths)
    in_row = fast // width
    steps = min(draw.threads // in_row, slow)
    if slow % steps:
        steps = 1
    f, s = ("j", "i") if across else ("i", "j")
    thread, register = f"{s} % {steps} * {in_row} + {f} // {width}", f"{s} // {steps} * {width} + {f} % {width}"
    return f"T.Fragment(({', '.join(shape)}), forward_fn=lambda i, j: ({thread}, {register}))"


def _option(draw: Draw, shape: tuple[str, ...]) -> str | None:
    if len(shape) != 2 or draw.chance(0.25):
        return f"coalesced_width={draw.pick([1, 2, 4, 8])}"
    found = layout(draw, shape)
    return found and f"loop_layout={found}"


@statement("placed_copy", 1)
def placed_copy(draw: Draw, scope: Scope) -> Stmt | None:
    """A copy between tiles, or from an input."""
    shape = some_shape(draw, scope)
    option = _option(draw, shape)
    if option is None:
        return None
    target, to = operand(draw, scope, shape)
    if draw.chance(0.5):
        tensor = draw.input(("G", *shape), to.dtype)
        source = block(tensor.name, "bx", shape, target)
    else:
        source, _ = operand(draw, scope, shape, fitting(to.dtype), apart=(to.name,))
    return Stmt("placed_copy", (f"T.copy({source}, {target}, {option})",), writes=(to.name,))


@statement("placed_nest", 1)
def placed_nest(draw: Draw, scope: Scope) -> Stmt | None:
    """A nest over a whole tile."""
    found = [tile for tile in scope.tiles if len(tile.shape) == 2 and tile.memory in ("shared", "fragment")]
    if not found:
        return None
    tile = draw.pick(found)
    option = _option(draw, tile.shape)
    if option is None:
        return None
    axes = [Axis(draw.name("i"), size, True) for size in tile.shape]
    at = ", ".join(axis.name for axis in axes)
    inner = scope.inside("placed_nest", *axes, loop=False)
    inner.written = {tile.name: at}
    head = f"for {at} in T.Parallel({', '.join(tile.shape)}, {option}):"
    return Stmt("placed_nest", (head,), body=(store(draw, inner, tile, at),), writes=(tile.name,))
