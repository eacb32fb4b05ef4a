"""Statements of which some threads wait while others go on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tilelang.interpreter.compiler import Step
from tilelang.interpreter.state import Lanes


def run_together(x: Lanes, steps: list[Step]) -> Iterator[None]:
    """The statements of a sequence in which threads may wait."""
    for step in steps:
        stopped = (yield from step.wait(x)) if step.wait is not None else step.run(x)
        if stopped:
            return True
    return False


__all__ = ["Any", "run_together"]
