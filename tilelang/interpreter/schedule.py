"""In which order blocks run: one after the other, unless one waits for another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.interpreter.compiler import Step
from tilelang.interpreter.state import Lanes


def run_blocks(run: Any, state: Callable[[int], Lanes], count: int, body: Step) -> None:
    """Runs the blocks of a grid.

    Args:
        run: the whole run.
        state: gives the state in which a block begins, by its number.
        count: how many blocks.
        body: the kernel.
    """
    if body.wait is None:
        for number in range(count):
            body.run(state(number))
        return
    waiting = []
    for number in range(count):
        task = body.wait(state(number))
        if not _finished(task):
            waiting.append(task)
    while waiting:
        waiting = [task for task in waiting if not _finished(task)]


def _finished(task: Any) -> bool:
    try:
        next(task)
    except StopIteration:
        return True
    return False


__all__ = ["Any", "run_blocks"]
