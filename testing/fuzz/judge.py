"""Whether a program fails on a target, and how: the interpreter of the language says what it means."""

from __future__ import annotations

from collections.abc import Sequence

from testing.fuzz.execute import CPU, INTERPRETER, TARGETS, attempt, compared
from testing.fuzz.outcome import DIFFERENT, RIGHT, Outcome
from testing.fuzz.shrink import shrink
from testing.fuzz.tree import Program


def judge(program: Program, targets: Sequence[str] = TARGETS) -> dict[str, Outcome]:
    """The outcome on each target that has what the program names; that of the interpreter alone where it has no meaning."""
    meaning, expected = attempt(program, INTERPRETER)
    if meaning.status != RIGHT:
        return {INTERPRETER: meaning}
    found = {}
    for target in targets:
        if program.names_threads and target in CPU:
            continue
        outcome, tensors = attempt(program, target)
        found[target] = compared(outcome, tensors, expected, program)
    return found


def smallest(program: Program, target: str, outcome: Outcome, attempts: int = 400) -> Program:
    """The smallest program that fails on ``target`` as this one does."""

    def fails(candidate: Program) -> bool:
        found = judge(candidate, [target]).get(target)
        if outcome.status == DIFFERENT:
            return found is not None and found.status == DIFFERENT
        return found is not None and found.signature == outcome.signature

    return shrink(program, fails, attempts)
