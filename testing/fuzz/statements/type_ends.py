"""Values at the ends of types: conversions, arithmetic, comparisons, arguments. Results go to tensors, and are not used again."""

from __future__ import annotations

from testing.fuzz import ends, integers
from testing.fuzz.draw import Draw
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.statements.regions import shapes
from testing.fuzz.tree import Expr, Stmt

_SMALL = ("bool", "int8", "uint8", "int4", "uint4", "float4_e2m1fn", "float8_e4m3fn")
"""Types of no number that float8_e5m2 does not hold: what its overflow gives is open."""
_FLOAT_OPERATIONS = {
    "end_add": "{0} + {1}", "end_subtract": "{0} - {1}", "end_multiply": "{0} * {1}", "end_divide": "{0} / {1}",
    "end_sqrt": "T.sqrt({0})", "end_negate": "-{0}", "end_fabs": "T.abs({0})",
    "end_floor": "T.floor({0})", "end_ceil": "T.ceil({0})",
    "end_trunc": "T.trunc({0})", "end_round": "T.round({0})", "end_copysign": "T.copysign({0}, {1})",
    "end_select": "T.if_then_else({0} < {1}, {0}, {1})", "end_finite": "T.if_then_else(T.isfinite({0}), {0}, {1})",
    "end_nan": "T.if_then_else(T.isnan({0}), {1}, {0})", "end_infinite": "T.if_then_else(T.isinf({0}), {1}, {0})",
}  # fmt: skip
_COMPARISONS = (
    "{0} < {1}",
    "{0} <= {1}",
    "{0} > {1}",
    "{0} >= {1}",
    "{0} == {1}",
    "{0} != {1}",
    "not {0}",
    "{0} and {1}",
    "~({0} > {1})",
)


def _nest(draw: Draw, size: str, dtype: str, value: Expr, at: str, before: tuple[str, ...] = (), kind: str = "") -> Stmt:
    """Stores ``value`` to an output, for each element of one axis."""
    draw.exact = True
    target = draw.output(("G", size), dtype, ends=True)
    lines = (*before, f"for {at} in T.Parallel({size}):", f"    {target.name}[bx, {at}] = {{0}}")
    return Stmt(kind, lines, (value,))


def _element(draw: Draw, size: str, dtype: str, at: str) -> tuple[Expr, tuple[str, ...]]:
    """An element of a new input, perhaps through a tile, and the lines that load the tile."""
    source = draw.ends(("G", size), dtype)
    if draw.chance(0.5):
        return Expr("end_of_tensor", f"{source.name}[bx, {at}]", integers.TYPE), ()
    memory = draw.pick(["shared", "fragment"])
    tile = draw.name({"shared": "s", "fragment": "f"}[memory])
    load = (f'{tile} = T.alloc_{memory}(({size},), "{dtype}")', f"T.copy({source.name}[bx, 0], {tile})")
    return Expr(f"end_of_{memory}", f"{tile}[{at}]", integers.TYPE), load


@statement("conversion", 1.2)
def conversion(draw: Draw, scope: Scope) -> Stmt | None:
    """Each element converted to another type, one by one or by a copy."""
    size, at, target = draw.pick(shapes(draw)), draw.name("i"), draw.dtype(ends.TYPES)
    source = draw.dtype(_SMALL if target == "float8_e5m2" else ends.TYPES)
    name = f"{source}_to_{target}"
    value, before = _element(draw, size, source, at)
    if before and draw.chance(0.4):
        tile, draw.exact = draw.name("f"), True
        result = draw.output(("G", size), target, ends=True)
        copies = (f'{tile} = T.alloc_fragment(({size},), "{target}")', f"T.copy({value.text.partition('[')[0]}, {tile})")
        mark = Expr(name, f"T.copy({tile}, {result.name}[bx, 0])", "copy")
        return Stmt("conversion", (*before, *copies, "{0}"), (mark,))
    return _nest(draw, size, target, Expr(name, f'T.cast({{0}}, "{target}")', name, (value,)), at, before)


@statement("integer_ends", 1.5)
def integer_ends(draw: Draw, scope: Scope) -> Stmt | None:
    """Integer arithmetic on one to three inputs of the same or different types."""
    size, at = draw.pick(shapes(draw)), draw.name("i")
    types = (
        [draw.dtype(ends.INTS)] * 2
        if draw.chance(0.4)
        else [draw.dtype((*ends.INTS, "bool")) for _ in range(draw.random.randint(1, 3))]
    )
    found = [_element(draw, size, dtype, at) for dtype in types]
    leaves = [leaf for leaf, _ in found]
    if draw.chance(0.3):
        leaves.append(Expr("end_argument", draw.end_argument(draw.dtype(ends.INTS)), integers.TYPE))
    value = integers.integer(draw, leaves, draw.random.randint(1, 3))
    target = draw.dtype(ends.INTS)
    if draw.chance(0.5):
        value = Expr(f"cast_to_{target}", f'T.cast({{0}}, "{target}")', target, (value,))
    return _nest(draw, size, target, value, at, tuple(line for _, lines in found for line in lines))


@statement("float_ends", 1)
def float_ends(draw: Draw, scope: Scope) -> Stmt | None:
    """One operation on floats, rounded once."""
    size, at, dtype = draw.pick(shapes(draw)), draw.name("i"), draw.dtype(ends.FLOATS)
    (left, first), (right, second) = (_element(draw, size, dtype, at) for _ in range(2))
    if draw.chance(0.2):
        right, second = Expr("end_argument", draw.end_argument(dtype), integers.TYPE), ()
    name = draw.pick(list(_FLOAT_OPERATIONS))
    return _nest(draw, size, dtype, Expr(name, _FLOAT_OPERATIONS[name], dtype, (left, right)), at, (*first, *second))


@statement("comparison_ends", 1)
def comparison_ends(draw: Draw, scope: Scope) -> Stmt | None:
    """Numbers of any types compared, or taken as conditions."""
    size, at = draw.pick(shapes(draw)), draw.name("i")
    types = [draw.dtype(ends.INTS if draw.chance(0.6) else ends.FLOATS)] * 2
    if draw.chance(0.4):
        types[1] = draw.dtype((*ends.INTS, *ends.FLOATS))
    found = [_element(draw, size, dtype, at) for dtype in types]
    (left, first), (right, second) = found
    text = draw.pick(_COMPARISONS)
    dtype = draw.pick(["bool", "int32", "uint8", "float32"])
    value = Expr("compare_ends", f"T.if_then_else({text}, {{1}}, {{0}})", "", (left, right))
    if types[0] != types[1] or dtype != types[0] or draw.chance(0.5):
        value = Expr("compare_ends", text if dtype == "bool" else f'T.cast({text}, "{dtype}")', "", (left, right))
    else:
        dtype = types[0]
    return _nest(draw, size, dtype, value, at, (*first, *second))


@statement("argument_end", 0.8)
def argument_end(draw: Draw, scope: Scope) -> Stmt | None:
    """A scalar argument of any type, as it is and as another type."""
    size, dtype = draw.pick(shapes(draw)), draw.dtype(ends.ARGUMENTS)
    name = draw.end_argument(dtype)
    target = draw.dtype(ends.TYPES if dtype in _SMALL else [of for of in ends.TYPES if of != "float8_e5m2"])
    target = dtype if draw.chance(0.3) else target
    value = Expr(f"{dtype}_to_{target}", f'T.cast({{0}}, "{target}")', "", (Expr("end_argument", name, integers.TYPE),))
    return _nest(draw, size, target, value, draw.name("i"))
