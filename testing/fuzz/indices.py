"""Indices of elements: identities, broadcasts, shifts, mirrors, gathers."""

from __future__ import annotations

from testing.fuzz import ends
from testing.fuzz.draw import Draw
from testing.fuzz.scope import Axis, Scope, Tile
from testing.fuzz.tree import Expr


def index(draw: Draw, scope: Scope, size: str) -> Expr:
    """A random index into an axis of ``size`` elements, built from the variables in scope."""
    r = draw.random
    same = [axis for axis in scope.axes if axis.extent == size]
    kinds = ["own"] * 8 * bool(same) + ["constant"] * 2 + ["any"] * 2 * bool(scope.axes) + ["mirror", "shift"] * bool(same)
    kinds += ["typed"] * bool(scope.axes)
    if scope.variables:
        kinds.append("variable")
    kind = r.choice(kinds)
    if kind == "own":
        return leaf(r.choice(same).name)
    if kind == "mirror":
        return Expr("mirror", f"{size} - 1 - {r.choice(same).name}", "index")
    if kind == "shift":
        return Expr("shift", f"({r.choice(same).name} + {r.randint(1, 5)}) % ({size})", "index")
    if kind == "typed":
        return typed(draw, r.choice(same or scope.axes).name, size)
    if kind == "any":
        return _anything(draw, scope, r.choice(scope.axes), size)
    if kind == "variable":
        whole = [v for v in scope.variables if v.type == "int"]
        return Expr("by_variable", f"{r.choice(whole).name} % ({size})", "index") if whole else leaf("0")
    return leaf("-1" if draw.chance(0.15) else str(r.randrange(draw.size(size))))


_TYPED = (
    'T.cast({a}, "{t}") % ({s})', '(T.cast({a}, "{t}") * T.{t}({n})) % ({s})', '(T.cast({a}, "{t}") - T.{t}({n})) % ({s})',
    '(T.cast({a}, "{t}") // T.{t}(2) + {n}) % ({s})', '((T.cast({a}, "{t}") ^ T.{t}({n})) & 127) % ({s})',
    '((T.cast({a}, "{t}") << T.{t}(1)) + T.{t}({n})) % T.{t}({s})', '(T.cast({a}, "{t}") >> T.{t}(1)) % T.{t}({s})',
    'T.min(T.cast({a}, "{t}"), T.{t}({n})) % ({s})', 'T.cast({a} * 37, "{t}") % ({s})',
)  # fmt: skip


def typed(draw: Draw, name: str, size: str) -> Expr:
    """An index that is calculated in an unsigned or narrow type, which may wrap around."""
    small = ["uint8", "int8"] if draw.size(size) < 128 else []
    dtype = draw.pick(["uint32", "uint32", "uint16", "int16", "int64", "uint64", *small])
    text = draw.pick(_TYPED).format(a=name, t=dtype, s=size, n=draw.random.randint(1, 5))
    return Expr("typed_index", text, "index")


def leaf(text: str) -> Expr:
    """The simplest kind of index: a variable or a constant."""
    return Expr("index", text, "index")


def _anything(draw: Draw, scope: Scope, axis: Axis, size: str) -> Expr:
    others = [other for other in scope.axes if other is not axis]
    if others and draw.random.random() < 0.3:
        return Expr("mixed_index", f"({axis.name} + {draw.random.choice(others).name}) % ({size})", "index")
    tiles = [
        tile for tile in scope.tiles if tile.dtype in ends.INTS and not tile.wide and tile.name not in scope.written
    ]  # fmt: skip
    if tiles and draw.random.random() < 0.4:
        tile = draw.random.choice(tiles)
        return Expr("gather", f"{tile.name}[{_plain(draw, scope, tile)}] % ({size})", "index")
    return Expr("wrap", f"{axis.name} % ({size})", "index")


def _plain(draw: Draw, scope: Scope, tile: Tile) -> str:
    """Indices into ``tile`` without gathers."""
    found = []
    for size in tile.shape:
        same = [axis.name for axis in scope.axes if axis.extent == size]
        found.append(draw.random.choice(same) if same else "0")
    return ", ".join(found)
