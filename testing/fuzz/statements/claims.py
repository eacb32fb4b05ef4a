"""Statements that say what holds: facts for the compiler, and checks of the running kernel."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.expressions import small
from testing.fuzz.registry import statement
from testing.fuzz.scope import Scope
from testing.fuzz.tree import Stmt

_CLAIMS = ("T.assume({0} <= 4)", "T.assume({0} >= -4)", "T.device_assert({0} <= 4)", "assert {0} > -5")


@statement("claim", 0.7)
def claim(draw: Draw, scope: Scope) -> Stmt | None:
    """A bound of a value."""
    return Stmt("claim", (draw.pick(_CLAIMS),), (small(draw, scope, draw.pick(["int", "float"])),))


@statement("bound", 0.4)
def bound(draw: Draw, scope: Scope) -> Stmt | None:
    """A bound of an argument, which the call checks where it stands in no branch."""
    name = draw.whole_argument()
    texts = [f"{name} <= 3", f"{name} * 2 < 7", f"({name} >= 0) & (G > 0)", f"{name} + G >= 1", f"{name} // 2 <= 1"]
    return Stmt("claim", (f"T.assume({draw.pick(texts)})",))
