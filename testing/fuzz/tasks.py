"""What workers do: run a program everywhere, or shrink one that fails."""

from __future__ import annotations

from testing.fuzz.coverage import pairs_of
from testing.fuzz.generator import draw_program
from testing.fuzz.judge import judge, smallest
from testing.fuzz.worker import Answer, Task


def perform(task: Task) -> Answer:
    """The answer to a task."""
    program = draw_program(task.seed, task.aim, task.avoid)
    if task.outcome is None:
        return Answer(task, judge(program, task.targets), frozenset(pairs_of(program)))
    return Answer(task, {}, text=str(smallest(program, task.target, task.outcome)))
