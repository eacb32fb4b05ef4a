"""Random expressions.

Values are small integers: at most 4 in magnitude for ``small``, at most 32 for ``term``. Every type represents the results
exactly, so all targets agree whatever the order of their sums.
"""

from __future__ import annotations

from collections.abc import Callable

from testing.fuzz import dtypes, indices
from testing.fuzz.draw import Draw, constant
from testing.fuzz.scope import Scope, Tile
from testing.fuzz.tree import Expr

TYPE_NAMES = {"float": "float32", "int": "int32"}

_SMALL = {
    "max": "T.max({0}, {1})", "min": "T.min({0}, {1})", "python_max": "max({0}, {1})",
}  # fmt: skip
_TERMS = {
    "add": "{0} + {1}", "subtract": "{0} - {1}", "multiply": "{0} * {1}", "multiply_add": "{0} * {1} + {2}",
}  # fmt: skip
_INTS = {
    "floormod": "(({0}) % 5)", "floordiv": "(({0}) // 2)", "and_bits": "(({0}) & 3)", "xor_bits": "((({0}) ^ ({1})) & 3)",
    "or_bits": "((({0}) | ({1})) & 3)", "shift_left": "((({0}) & 1) << 2)", "shift_right": "(({0}) >> 1)",
    "truncmod": "T.truncmod({0}, 3)", "truncdiv": "T.truncdiv({0}, 2)", "T.floordiv": "T.floordiv({0}, 3)",
    "T.floormod": "T.floormod({0}, 4)", "ceildiv": "T.ceildiv({0}, 2)", "align_up": "T.align_up(T.abs({0}), 2)",
    "bitwise_and": "T.bitwise_and({0}, 3)", "bitwise_or": "(T.bitwise_or({0}, {1}) & 3)",
    "bitwise_xor": "(T.bitwise_xor({0}, {1}) & 3)", "bitwise_not": "(T.bitwise_not({0}) & 3)",
    "T.shift_left": "T.shift_left({0} & 1, 2)", "T.shift_right": "T.shift_right({0}, 1)",
    "popcount": 'T.popcount(T.cast({0}, "int32") & 7)', "ffs": 'T.__ffs(T.cast({0}, "int32"))',
    "clz": 'T.clz(T.cast(T.abs({0}), "int32") + 1) - 29', "min_value": 'T.max({0}, T.min_value("int8"))',
    "table": "[1, -2, 4, 0, 3][T.abs({0})]", "rows": "[[1, 2], [-1, 3], [0, 4]][T.abs({0}) % 3][T.abs({1}) % 2]",
    "long_table": "(list(range(-4, 5)) * 8)[T.abs({0}) * 16 + 2]",
}  # fmt: skip
_FLOATS = {
    "floor": "T.floor(({0}) * 0.5)", "ceil": "T.ceil(({0}) * 0.25)", "trunc": "T.trunc(({0}) * 0.5)",
    "round": "T.round(({0}) * 0.5)", "sqrt": "T.sqrt(({0}) * ({0}))", "halved": "({0}) / 2",
    "exp2": "T.exp2(T.min({0}, T.float32(2)) - T.abs({0}))",
    "if_finite": "T.if_then_else(T.isfinite({0}), {0}, {1})", "power": "T.abs({0}) ** 1",
    "copysign": "T.copysign({0}, ({1}) + 0.0)",
    "fma": "T.clamp(T.fma({0}, {1}, {1}), T.float32(-4), T.float32(4))",
    "nearbyint": "T.nearbyint(({0}) * 0.5)", "fabs": "T.fabs({0})",
    "table": '[0.5, -2.0, 3.0][T.cast(T.abs({0}), "int32") % 3]', "fmod": 'T.fmod(T.cast({0}, "float32"), T.float32(3))',
    "ldexp": 'T.ldexp(T.cast({0}, "float32"), -1)', "infinity": 'T.min({0}, T.infinity("float32"))',
    "max_value": 'T.min({0}, T.max_value("float32"))', "if_number": "T.if_then_else(T.isnan({0}), {1}, {0})",
    "if_infinite": "T.if_then_else(T.isinf({0}), {1}, {0})",
    "reinterpret": 'T.reinterpret(T.reinterpret(T.cast({0}, "float32"), "int32"), "float32")',
    "ieee_add": 'T.ieee_mul(T.ieee_add(T.cast({0}, "float32"), T.cast({1}, "float32"), "rz"), T.float32(0.5))',
    "ieee_fmaf": 'T.ieee_fmaf(T.cast({0}, "float32"), T.float32(0.5), T.float32(1), "ru")',
    "ieee_sub": 'T.fmul(T.ieee_sub(T.cast({0}, "float32"), T.cast({1}, "float32"), "rd"), T.float32(0.5))',
}  # fmt: skip
"""Functions whose result here is exact on every target. `copysign` does not ask for the sign of a zero: which one `max` gives is
unspecified."""
_FLOATS |= {
    f"{name}_{dtype}": f'T.cast(T.{name}(T.cast({{0}}, "{dtype}") * T.cast(0.5, "{dtype}")), "float32")'
    for name in ("floor", "trunc", "ceil")
    for dtype in ("float64", "float16", "bfloat16")
}
_FLOATS["sqrt_float64"] = 'T.cast(T.sqrt(T.cast({0}, "float64") * T.cast({0}, "float64")), "float32")'


def small(draw: Draw, scope: Scope, kind: str, depth: int = 2) -> Expr:
    """An expression of type ``kind`` of at most 4 in magnitude."""
    if depth <= 0 or draw.chance(0.3):
        return _leaf(draw, scope, kind)
    rules: list[Callable[[], Expr]] = [
        lambda: clamped(draw, term(draw, scope, kind, depth - 1), kind),
        lambda: clamped(draw, term(draw, scope, kind, depth - 1), kind),
        lambda: _apply(draw, scope, kind, _SMALL, depth),
        lambda: Expr("abs", "T.abs({0})", kind, (small(draw, scope, kind, depth - 1),)),
        lambda: Expr("negate", "-({0})", kind, (small(draw, scope, kind, depth - 1),)),
        lambda: selection(draw, scope, kind, depth),
        lambda: _converted(draw, scope, kind, depth),
    ]
    if kind == "float":
        rules += [lambda: _apply(draw, scope, kind, _FLOATS, depth)]
    if kind == "int":
        rules += [lambda: _apply(draw, scope, kind, _INTS, depth)] * 2
    return draw.pick(rules)()


def term(draw: Draw, scope: Scope, kind: str, depth: int = 2) -> Expr:
    """An expression of at most 32 in magnitude."""
    if draw.chance(0.15):
        return small(draw, scope, kind, depth - 1)
    return _apply(draw, scope, kind, _TERMS, depth)


def _apply(draw: Draw, scope: Scope, kind: str, table: dict[str, str], depth: int) -> Expr:
    name = draw.pick(list(table))
    text = table[name]
    count = max(number for number in range(3) if f"{{{number}}}" in text) + 1
    parts = tuple(small(draw, scope, kind, depth - 1) for _ in range(count))
    if name == "python_max" and all(part.kind == "constant" for part in parts):
        return parts[0]
    return Expr(name, text, kind, parts)


def clamped(draw: Draw, value: Expr, kind: str) -> Expr:
    """An arbitrary expression, clamped to at most 4 in magnitude."""
    bounds = (constant(-4, kind), constant(4, kind))
    if draw.chance(0.15):
        return Expr("min_of_max", "T.min(T.max({0}, {1}), {2})", kind, (value, *bounds))
    return Expr("clamp", "T.clamp({0}, {1}, {2})", kind, (value, *bounds))


def selection(draw: Draw, scope: Scope, kind: str, depth: int) -> Expr:
    """A selection between two values by a condition."""
    parts = (condition(draw, scope, depth - 1), small(draw, scope, kind, depth - 1), small(draw, scope, kind, depth - 1))
    text = draw.pick(
        [f"T.{name}({{0}}, {{1}}, {{2}})" for name in ("if_then_else", "Select", "where")] + ["({1} if {0} else {2})"]
    )
    return Expr("select", text, kind, parts)


def _converted(draw: Draw, scope: Scope, kind: str, depth: int) -> Expr:
    """A value converted to another type, and from that to ``kind``."""
    if draw.chance(0.3):
        return Expr("bool_number", f'T.cast({{0}}, "{TYPE_NAMES[kind]}")', kind, (condition(draw, scope, depth - 1),))
    via = draw.pick(["int8", "float16", "bfloat16", "int16", "float8_e4m3fn", "float8_e5m2", "int64", "float64", "int32"])
    other = "float" if dtypes.is_float(via) else "int"
    inner = small(draw, scope, draw.pick([kind, other]), depth - 1)
    text = draw.pick([f'T.cast({{0}}, "{via}")', f'T.Cast("{via}", {{0}})', f"T.{via}({{0}})"])
    return Expr("convert", f'T.cast({text}, "{TYPE_NAMES[kind]}")', kind, (inner,))


# Conditions ------------------------------------------------------------------------------------------------------------

_LOGIC = {
    "not": "not ({0})", "and": "({0}) and ({1})", "or": "({0}) or ({1})", "invert": "~({0})", "and_bool": "({0}) & ({1})",
    "or_bool": "({0}) | ({1})", "T.And": "T.And({0}, {1})", "T.Not": "T.Not({0})",
    "T.Or": "T.Or({0}, {1})", "likely": "T.likely({0})", "equal_bools": "({0}) == ({1})", "xor_bool": "({0}) != ({1})",
}  # fmt: skip


def condition(draw: Draw, scope: Scope, depth: int = 1) -> Expr:
    """A bool."""
    if depth > 0 and draw.chance(0.4):
        name = draw.pick(list(_LOGIC))
        parts = tuple(condition(draw, scope, depth - 1) for _ in range(2 if "{1}" in _LOGIC[name] else 1))
        return Expr(name, _LOGIC[name], "bool", parts)
    flags = [v for v in scope.variables if v.type == "bool"]
    if flags and draw.chance(0.3):
        return Expr("flag", draw.pick(flags).name, "bool")
    return _comparison(draw, scope, depth)


def _comparison(draw: Draw, scope: Scope, depth: int) -> Expr:
    if scope.axes and draw.chance(0.4):
        axis = draw.pick(scope.axes)
        text = draw.pick(["{} >= {}", "{} % 3 != {}", "{} < {}", "{} == {}"])
        other = draw.pick([*(a.name for a in scope.axes), "1", "2"])
        return Expr("compare_indices", text.format(axis.name, other if other != axis.name else "1"), "bool")
    kind = draw.pick(["float", "int"])
    left = _element(draw, scope, kind) or Expr("index_value", "bx", "int")
    right = small(draw, scope, left.type, depth - 1)
    text = draw.pick(["{0} > {1}", "{0} <= {1}", "{0} == {1}", "{0} != {1}", "{1} < {0} + 1"])
    return Expr("compare", text, "bool", (left, right))


# Leaves ----------------------------------------------------------------------------------------------------------------


def _leaf(draw: Draw, scope: Scope, kind: str) -> Expr:
    rules = [_element] * 6 + [_index_value, _constant, _tensor_element, _held, _variable, _variable, _argument]
    for _ in range(3):
        found = draw.pick(rules)(draw, scope, kind)
        if found is not None:
            return found
    return _constant(draw, scope, kind)


def _constant(draw: Draw, scope: Scope, kind: str) -> Expr:
    return constant(draw.random.randint(-4, 4), kind)


def _index_value(draw: Draw, scope: Scope, kind: str) -> Expr:
    name = draw.pick([axis.name for axis in scope.axes] + ["bx"])
    text = f"({name} % 5 - 1)" if kind == "int" else f'T.cast({name} % 4, "float32")'
    return Expr("index_value", text, kind)


def _held(draw: Draw, scope: Scope, kind: str) -> Expr | None:
    found = [name for name, of in scope.values if of == kind]
    return Expr("held", draw.pick(found), kind) if found else None


def _variable(draw: Draw, scope: Scope, kind: str) -> Expr | None:
    found = [v.name for v in scope.variables if v.type == kind]
    return Expr("variable", draw.pick(found), kind) if found else None


def _argument(draw: Draw, scope: Scope, kind: str) -> Expr | None:
    """A scalar argument, or a number of the launch."""
    if kind == "float" and draw.chance(0.6):
        return Expr("argument", draw.pick(draw.real) if draw.real and draw.chance(0.7) else draw.argument(real=True), "float")
    texts = [draw.whole_argument(), "T.get_block_binding(0) % 4", "T.get_block_extent(0) % 5", "T.linear_index(bx, 1, 2) % 5"]
    texts += ["T.get_thread_extent(0) % 5", "(bx % 3 if bx % 2 == 0 else 2)"]
    text = draw.pick(texts)
    return Expr("argument", text if kind == "int" else f'T.cast({text}, "float32")', kind)


def _element(draw: Draw, scope: Scope, kind: str) -> Expr | None:
    """An element of a tile."""
    found = [tile for tile in scope.tiles if tile.memory != "local" or tile.name not in scope.written]
    if not found:
        return None
    return converted(draw, element(draw, scope, draw.pick(found)), kind)


def element(draw: Draw, scope: Scope, tile: Tile) -> tuple[Expr, Tile]:
    """An element of a tile. If the surrounding nest writes the tile, it is the element that this iteration writes."""
    if tile.name in scope.written:
        return Expr("own_element", f"{tile.name}[{scope.written[tile.name]}]", "element"), tile
    at = tuple(indices.index(draw, scope, size) for size in tile.shape)
    text = f"{tile.name}[{', '.join(f'{{{n}}}' for n in range(len(at)))}]"
    return Expr(f"read_{tile.memory}", text, "element", at), tile


def converted(draw: Draw, read: tuple[Expr, Tile], kind: str) -> Expr:
    """An element as a small number of type ``kind``."""
    expr, tile = read
    own = "float" if dtypes.is_float(tile.dtype) else "int"
    name = TYPE_NAMES[kind]
    plain = own == kind and tile.dtype in dtypes.COMPUTED and (tile.dtype == name or draw.chance(0.3))
    value = expr if plain else Expr("cast", f'T.cast({{0}}, "{name}")', kind, (expr,))
    value = Expr(value.kind, value.text, kind, value.parts)
    return clamped(draw, value, kind) if tile.wide else value


def _tensor_element(draw: Draw, scope: Scope, kind: str) -> Expr:
    """An element of an input; sometimes out of bounds, which reads zero."""
    shape = tuple(draw.pick(list(draw.sizes)) for _ in range(draw.pick([1, 2])))
    dtype = draw.pick(["float32", "int32", "float16", "int8"])
    tensor = draw.input(shape, dtype)
    at = tuple(indices.index(draw, scope, size) for size in shape)
    text = f"{tensor.name}[{', '.join(f'{{{n}}}' for n in range(len(at)))}]"
    return Expr("read_tensor", f'T.cast({text}, "{TYPE_NAMES[kind]}")', kind, at)
