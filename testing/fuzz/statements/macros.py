"""Statements in a ``T.macro``: the tiles and values that they use are parameters, mutable scalars by reference."""

from __future__ import annotations

from testing.fuzz.draw import Draw
from testing.fuzz.registry import draw_body, statement
from testing.fuzz.scope import Scope
from testing.fuzz.tree import Stmt


@statement("macro", 1, nests=True)
def macro(draw: Draw, scope: Scope) -> Stmt | None:
    """A sequence of statements as a macro that is called once."""
    outer = tuple(variable.name for variable in scope.variables)
    body = draw_body(draw, scope.inside("macro", loop=False), draw.random.randint(1, 3))
    return Stmt("macro", (), body=body, without=(), macro=draw.name("m"), references=outer) if body else None
