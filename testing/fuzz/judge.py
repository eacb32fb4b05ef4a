"""Compares the result of a program on each target with the interpreter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from testing.fuzz.execute import CPU, INTERPRETER, TARGETS, attempt, compared, interpreted
from testing.fuzz.outcome import DIFFERENT, FINDING, REFUSED, RIGHT, Outcome
from testing.fuzz.shrink import shrink
from testing.fuzz.statements.by_hand import CUDA
from testing.fuzz.tree import Program


def judge(program: Program, targets: Sequence[str] = TARGETS) -> dict[str, Outcome]:
    """The outcome on each target that supports the program; only the interpreter's if that reports undefined behaviour."""
    meaning, func, expected = interpreted(program)
    if meaning.status != RIGHT:
        return {INTERPRETER: meaning}
    used = [target for target in targets if program.needs in ("", target) or (program.needs == CUDA and target not in CPU)]
    return {target: _outcome(program, func, target, expected) for target in used}


def _outcome(program: Program, func: Any, target: str, expected: list[torch.Tensor]) -> Outcome:
    """The outcome on one target. A failure with the fast compilers counts only if it also occurs with the regular ones."""
    outcome, tensors = attempt(program, func, target)
    outcome = compared(outcome, tensors, expected, program)
    if outcome.status in (FINDING, DIFFERENT, REFUSED) and not program.thorough:
        return _outcome(replace(program, thorough=True), func, target, expected)
    return outcome


def smallest(program: Program, target: str, outcome: Outcome, attempts: int = 400) -> Program:
    """The smallest program found that fails on ``target`` in the same way."""

    def fails(candidate: Program) -> bool:
        found = judge(candidate, [target]).get(target)
        if outcome.status == DIFFERENT:
            return found is not None and found.status == DIFFERENT
        return found is not None and found.signature == outcome.signature

    return shrink(program, fails, attempts)
