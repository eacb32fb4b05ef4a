"""In which order blocks run: one after the other, unless one waits for another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from tilelang.interpreter.compiler import Step
from tilelang.interpreter.state import Lanes

_PATIENCE = 20_000
"""How many times blocks that may go on by themselves are resumed without progress of any before they count as deadlocked."""


def run_blocks(run: Any, begin: Callable[[int], Lanes], count: int, body: Step) -> None:
    """Runs the blocks of a grid.

    Args:
        run: the whole run.
        begin: gives the state in which a block begins, by its number.
        count: how many blocks.
        body: the kernel.
    """
    if body.wait is None:
        for number in range(count):
            body.run(begin(number))
        return
    waiting: list[tuple[Lanes, Iterator[None]]] = []
    for number in range(count):
        state = begin(number)
        task = body.wait(state)
        if not _is_finished(state, task):
            waiting.append((state, task))
    _wait_for_each_other(run, waiting)


def _wait_for_each_other(run: Any, waiting: list[tuple[Lanes, Iterator[None]]]) -> None:
    """Resumes waiting blocks in turn until all have ended, or none makes progress."""
    idle = 0
    while waiting:
        before = run.progress, len(waiting)
        waiting = [(state, task) for state, task in waiting if not _is_finished(state, task)]
        idle = idle + 1 if (run.progress, len(waiting)) == before else 0
        if idle > (_PATIENCE if any(state.block.may_go_on for state, _ in waiting) else 2):
            _report(waiting)
            return


def _is_finished(state: Lanes, task: Iterator[None]) -> bool:
    """Resumes a block; whether it has come to its end."""
    state.block.may_go_on = False
    try:
        next(task)
    except StopIteration:
        return True
    return False


def _report(waiting: list[tuple[Lanes, Any]]) -> None:
    """A finding at the statement that the first waiting block waits in."""
    state, _ = waiting[0]
    what, state.span = state.block.waiting
    state.find("deadlock", f"threads wait for {what}")
