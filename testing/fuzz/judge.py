"""Whether a program fails on a target, and how."""

from __future__ import annotations

from collections.abc import Sequence

from testing.fuzz.execute import TARGETS, attempt, compared
from testing.fuzz.oracle import majority
from testing.fuzz.outcome import DIFFERENT, RIGHT, Outcome
from testing.fuzz.shrink import shrink
from testing.fuzz.tree import Program


def judge(program: Program, targets: Sequence[str] = TARGETS) -> dict[str, Outcome]:
    """The outcome on each target."""
    results = {target: attempt(program, target) for target in targets}
    expected = majority(results)
    return {target: compared(outcome, found, expected, program) for target, (outcome, found) in results.items()}


def smallest(program: Program, target: str, outcome: Outcome, attempts: int = 400) -> Program:
    """The smallest program that fails on ``target`` as this one does."""

    def fails(candidate: Program) -> bool:
        if outcome.status != DIFFERENT:
            return attempt(candidate, target)[0].signature == outcome.signature
        references = [other for other in ("c", "cpu") if other != target]
        found = judge(candidate, [*references, target])
        return found[target].status == DIFFERENT and all(found[other].status == RIGHT for other in references)

    return shrink(program, fails, attempts)
