"""Coverage of pairs of constructs: one inside of another, directly after another, or reading what another wrote."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterable, Iterator

from testing.fuzz.registry import BLOCK, ITERATION
from testing.fuzz.statements.by_hand import SKILLS
from testing.fuzz.statements.groups import exits
from testing.fuzz.tree import Program, Stmt

Pair = tuple[str, str, str]
"""Relation, first construct, second construct."""

_HIDDEN = {"text", "count", "leave", "store", "accumulate", "guard"}


def pairs_of(program: Program) -> set[Pair]:
    """The pairs in a program."""
    found: set[Pair] = set()
    for kernel in program.kernels:
        found.update(_in_body("kernel", kernel.body))
        found.update(_feeding(kernel.body))
    return found


def _in_body(parent: str, body: tuple[Stmt, ...]) -> Iterator[Pair]:
    previous = ""
    for statement in body:
        kind = statement.kind
        if kind not in _HIDDEN:
            yield "inside", parent, kind
            if previous:
                yield "after", previous, kind
            previous = kind
        for part in statement.parts:
            yield from (("uses", kind, expr.kind) for expr in part.walk())
        yield from _in_body(kind, statement.body)
        yield from _in_body("else", statement.other)


def _feeding(body: tuple[Stmt, ...]) -> Iterator[Pair]:
    """Pairs of a statement and the last writer, in textual order, of a tile that it reads."""
    writers: dict[str, str] = {}
    for statement in (inner for outer in body for inner in outer.walk()):
        names = set(re.findall(r"\b[a-z]+\d+\b", " ".join(statement.head())))
        for name in sorted(names & writers.keys()):
            yield "feeds", writers[name], statement.kind
        writers.update(dict.fromkeys(statement.writes, statement.kind))


class Coverage:
    """Counts of pairs."""

    def __init__(self) -> None:
        self.counts: Counter[Pair] = Counter()
        self.random = random.Random(0)

    def add(self, pairs: Iterable[Pair]) -> None:
        self.counts.update(pairs)

    def aim(self) -> tuple[str, str] | None:
        """A pair that no program has combined yet; None once all have been."""
        missing = [pair for pair in _possible() if not self.counts[pair]]
        return self.random.choice(missing)[1:] if missing else None

    def summary(self) -> str:
        """One line."""
        parts = []
        for relation in ("inside", "after"):
            possible = [pair for pair in _possible() if pair[0] == relation]
            parts.append(f"{relation} {sum(self.counts[pair] > 0 for pair in possible)} of {len(possible)}")
        for relation in ("feeds", "uses"):
            parts.append(f"{relation} {sum(pair[0] == relation for pair in self.counts)}")
        return "pairs: " + ", ".join(parts)


def _possible() -> list[Pair]:
    """The pairs of block statements there can be, and of those with what is synchronised by hand."""
    outer = [name for name, entry in BLOCK.items() if entry.nests]
    inside = [("inside", a, b) for a in [*outer, "else"] for b in BLOCK]
    inside += [("inside", "parallel", b) for b in ITERATION]
    after = [("after", a, b) for a in BLOCK for b in BLOCK]
    by_hand = [skill.kind for skill in SKILLS if skill.rule is not exits]  # which end a kernel
    return inside + after + [("after", *pair) for kind in by_hand for b in BLOCK for pair in ((kind, b), (b, kind))]
