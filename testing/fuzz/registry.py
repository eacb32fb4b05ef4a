"""The registry of statement generators; each is a function in ``testing/fuzz/statements``."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from testing.fuzz.draw import Draw
from testing.fuzz.scope import Scope
from testing.fuzz.tree import Stmt

Rule = Callable[[Draw, Scope], "Stmt | None"]


@dataclass(frozen=True)
class Entry:
    """One statement generator.

    Attributes:
        rule: generates a statement; returns None if the scope has no suitable operands.
        weight: relative frequency.
        nests: whether the statement has a body, so that it is not generated at the deepest level.
    """

    rule: Rule
    weight: float
    nests: bool


BLOCK: dict[str, Entry] = {}
"""Statements of a block."""
ITERATION: dict[str, Entry] = {}
"""Statements inside of a ``T.Parallel``."""
THREAD: dict[str, Entry] = {}
"""Statements of a program that names threads."""

DEEPEST = 2


def statement(
    name: str, weight: float = 1, *, table: dict[str, Entry] | None = None, nests: bool = False
) -> Callable[[Rule], Rule]:
    """Registers a rule."""
    table = BLOCK if table is None else table

    def register(rule: Rule) -> Rule:
        assert name not in table, name
        table[name] = Entry(rule, weight, nests)
        return rule

    return register


def draw_body(draw: Draw, scope: Scope, count: int, table: dict[str, Entry] | None = None) -> tuple[Stmt, ...]:
    """A sequence of up to ``count`` statements."""
    found: list[Stmt] = []
    for _ in range(count):
        drawn = draw_statement(draw, scope, BLOCK if table is None else table)
        if drawn is not None:
            found.append(drawn)
            scope.previous = drawn.kind
    return tuple(found)


def draw_statement(draw: Draw, scope: Scope, table: dict[str, Entry]) -> Stmt | None:
    """A random statement that fits the scope."""
    fits = {name: entry for name, entry in table.items() if not entry.nests or scope.depth < DEEPEST}
    entries = {name: entry for name, entry in fits.items() if name not in draw.avoid}
    for _ in range(6):
        name = draw.steered(list(entries), [entry.weight for entry in entries.values()], scope)
        drawn = entries[name].rule(draw, scope)
        if drawn is not None:
            return replace(drawn, kind=name)
    return None
