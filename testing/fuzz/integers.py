"""Random integer arithmetic on values at the ends of types.

Every operation has one result (docs/language.md, "Arithmetic"): sums wrap around, nothing is left open by large shifts or by
divisions by zero. Operands of different types are promoted.
"""

from __future__ import annotations

from testing.fuzz import ends
from testing.fuzz.draw import Draw
from testing.fuzz.tree import Expr

TYPE = "any_int"
"""The type of these expressions: any of them may stand in place of another."""

_OPERATIONS = {
    "wrap_add": "({0} + {1})", "wrap_subtract": "({0} - {1})", "wrap_multiply": "({0} * {1})",
    "end_floordiv": "({0} // {1})", "end_floormod": "({0} % {1})", "end_truncdiv": "T.truncdiv({0}, {1})",
    "end_truncmod": "T.truncmod({0}, {1})", "end_and": "({0} & {1})", "end_or": "({0} | {1})", "end_xor": "({0} ^ {1})",
    "end_shift_left": "({0} << {1})", "end_shift_right": "({0} >> {1})", "end_negate": "(-{0})", "end_not": "(~{0})",
    "end_abs": "T.abs({0})", "end_max": "T.max({0}, {1})", "end_min": "T.min({0}, {1})",
    "end_select": "T.if_then_else({0} < {1}, {0}, {1})", "end_equal": "T.if_then_else({0} == {1}, {0}, -{1})",
    "end_truth": "T.if_then_else({0} != 0, {1}, {0})",
}  # fmt: skip
_CONSTANTS = (1, 2, 3, 5, 7, 8, 100, 127)
_LARGE = (-1, -3, 128, 255, 256, 32768, 65535, 2**31 - 1, 2**31, 2**32 - 1, 2**32)


def integer(draw: Draw, leaves: list[Expr], depth: int) -> Expr:
    """An expression over ``leaves``, elements of integer types."""
    if depth <= 0 or draw.chance(0.2):
        return draw.pick(leaves)
    if draw.chance(0.2):
        dtype = draw.dtype(ends.INTS)
        return Expr(f"cast_to_{dtype}", f'T.cast({{0}}, "{dtype}")', TYPE, (integer(draw, leaves, depth - 1),))
    name = draw.pick(list(_OPERATIONS))
    text = _OPERATIONS[name]
    left = integer(draw, leaves, depth - 1)
    if "{1}" not in text:
        return Expr(name, text, TYPE, (left,))
    if draw.chance(0.25):
        return Expr(name, text.replace("{1}", _constant(draw, name)), TYPE, (left,))
    return Expr(name, text, TYPE, (left, integer(draw, leaves, depth - 1)))


def _constant(draw: Draw, name: str) -> str:
    if "shift" in name:
        return str(draw.random.randint(0, 7))
    constants = _CONSTANTS if draw.chance(0.6) else _LARGE
    # The remainder by one is the constant zero, by which nothing may be divided.
    return f"({draw.pick(constants[1:] if 'mod' in name else constants)})"
