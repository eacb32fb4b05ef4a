"""Statements that may have to wait: barriers, groups of asynchronous copies, the grid, clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tilelang.interpreter.compiler import Compiler, Step
from tilelang.interpreter.statements import returns
from tilelang.tileop.thread import intrinsic_name

STEPS: dict[str, Callable[[Compiler, Any, Any], Step]] = {}
"""Intrinsic -> what makes its step, of ``(compiler, call, span)``."""


def waits(*names: str) -> Callable[[Callable], Callable]:
    """Decorator: the function makes the step of these intrinsics."""

    def register(make: Callable) -> Callable:
        STEPS.update(dict.fromkeys(names, make))
        return make

    return register


def step(c: Compiler, call: Any, span: Any) -> Step | None:
    """The step of a call that may have to wait or ends lanes; None for any other."""
    name = intrinsic_name(call)
    return STEPS[name](c, call, span) if name in STEPS else None


@waits("thread_return")
def _thread_return(c: Compiler, call: Any, span: Any) -> Step:
    return Step(returns)
