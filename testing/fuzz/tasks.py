"""The tasks of a worker: run a program on every target, or shrink a failing one."""

from __future__ import annotations

import resource
from dataclasses import replace

from testing.fuzz import whole_kernels
from testing.fuzz.coverage import pairs_of
from testing.fuzz.generator import draw_program
from testing.fuzz.judge import judge, smallest
from testing.fuzz.worker import Answer, Task


def perform(task: Task) -> Answer:
    """Performs a task."""
    before = _processor_time()
    return replace(_answer(task), seconds=_processor_time() - before)


def _answer(task: Task) -> Answer:
    if task.whole:
        outcomes, text = whole_kernels.judge(task.seed, task.targets)
        return Answer(task, outcomes) if task.outcome is None else Answer(task, {}, text=text)
    program = draw_program(task.seed, task.aim, task.avoid)
    if task.outcome is None:
        return Answer(task, judge(program, task.targets), frozenset(pairs_of(program)))
    return Answer(task, {}, text=str(smallest(program, task.target, task.outcome)))


def _processor_time() -> float:
    """Seconds of this process and of the compilers that it ran."""
    found = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(used.ru_utime + used.ru_stime for used in found)
