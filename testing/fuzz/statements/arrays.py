"""Arithmetic on slices as numpy has it: slices with steps, rows and columns that are broadcast, parts of tensors."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import small
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.copies import some_shape
from testing.fuzz.tree import Stmt

_VALUES = (
    "T.clamp({0} * 2 - {1}, {low}, {high})", "T.max({0}, {1})", "T.min({1}, -{0})", "T.if_then_else({0} > {1}, {1}, {0})",
    "T.abs({0}) - T.abs({1})", "T.clamp(({0} + {1}) * {1}, {low}, {high})",
)  # fmt: skip


@statement("array_assign", 1.5)
def array_assign(draw: Draw, scope: Scope) -> Stmt | None:
    """A slice of a tile or of an output, computed from others element by element."""
    shape, dtype = some_shape(draw, scope)[-2:], draw.pick(["float32", "int32"])
    rows = ":"
    if draw.size(shape[0]) > 2 and draw.chance(0.5):
        rows = draw.pick(["::2", "1::2", "::3", "2::3", f"1:{shape[0]} - 1", f"0:{shape[0]} - 1:2"])
    whole = ", ".join([rows, *(":" for _ in shape[1:])])
    if draw.chance(0.7):
        tile = draw.tile(scope, shape, (dtype,))
        target, own = f"{tile.name}[{whole}]", (tile.name,)
    else:
        target, own = f"{draw.output(('G', *shape), dtype).name}[bx, {whole}]", ()
    operands = [_operand(draw, scope, shape, rows, dtype, own) for _ in range(2)]
    if own and draw.chance(0.3):
        operands[0] = target
    low, high = ("T.float32(-4)", "T.float32(4)") if dtype == "float32" else ("-4", "4")
    value = draw.pick(_VALUES).replace("{low}", low).replace("{high}", high)
    value = value.replace("{0}", operands[0]).replace("{1}", operands[1])
    inner = scope.inside("array_assign")
    inner.tiles = [tile for tile in inner.tiles if tile.name not in own]
    scalar = small(draw, inner, "float" if dtype == "float32" else "int", 1)
    return Stmt("array_assign", (f"{target} = T.max({value}, {{0}})",), (scalar,), writes=own)


def _operand(draw: Draw, scope: Scope, shape: tuple[str, ...], rows: str, dtype: str, apart: tuple[str, ...]) -> str:
    """A slice of the target's shape, or of one that is broadcast to it.

    Args:
        draw: the generator's state.
        scope: where it is used.
        shape: of the target's tile.
        rows: the slice of its first axis.
        dtype: of the elements.
        apart: tiles that it must not read.
    """
    rest = ", :" * (len(shape) - 1)
    kind = draw.pick(["tile", "tile", "tensor", "row", "column"])
    if kind == "tensor":
        return f"{draw.input(('G', *shape), dtype).name}[bx, {rows}{rest}]"
    if kind == "row" and rest:
        return f"{draw.tile(scope, shape[1:], (dtype,), apart=apart).name}[:]"
    name = draw.tile(scope, shape, (dtype,), apart=apart).name
    return f"{name}[{rows}, 0:1]" if kind == "column" and rest else f"{name}[{rows}{rest}]"
