"""The pass runner: a target's pipeline is one literal table of steps, run in order.

    PIPELINE = (
        Step("check_bounds", check_bounds, "an index outside its buffer is the user's error; report it before lowering"),
        Step("lower_tiles", lower_tiles, "tile operators become loops"),
    )
    result = run(PIPELINE, func, context)

A step is a function ``(value, context) -> value``: the value is the program at that stage (a ``PrimFunc``, an ``IRModule``, or
whatever the stage before returned), the context is the target's own frozen record of facts that no step changes. The runner
times each step, keeps the printed IR after each one when asked, checks the step's postcondition when verification is on, and
can stop after a step by name.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilelang.errors import PassFailedError, TileLangError
from tilelang.recursion import PASSES, recursion


@dataclass(frozen=True, slots=True)
class Step:
    """One row of a pipeline.

    Attributes:
        name: unique within its pipeline; names the dump file and the place to stop.
        run: ``(value, context) -> value``.
        reason: why the step is there, and why at this place.
        verify: ``(value) -> None``, the executable form of the step's postcondition; raises where it does not hold.
    """

    name: str
    run: Callable[[Any, Any], Any]
    reason: str
    verify: Callable[[Any], None] | None = None


@dataclass(frozen=True)
class PipelineResult:
    """The result of a run.

    Attributes:
        value: the program after the last step that ran.
        seconds: wall time of each step, by name, in order.
        dumps: ``ir/<nn>_<name>.txt`` -> printed IR after that step; empty unless dumping was asked for.
    """

    value: Any
    seconds: Mapping[str, float]
    dumps: Mapping[str, bytes] = field(default_factory=dict)


def run(
    steps: Sequence[Step],
    value: Any,
    context: Any,
    *,
    dump: bool = False,
    verify: bool = False,
    stop_after: str | None = None,
) -> PipelineResult:
    """Runs ``steps`` over ``value``.

    Args:
        steps: in their order.
        value: the program as the first step takes it.
        context: handed to every step unchanged.
        dump: keep the printed IR before the first step (``00_input``) and after each one.
        verify: run each step's postcondition.
        stop_after: name of the last step to run.

    Returns:
        The last step's result, with the times and texts of all that ran.

    Raises:
        TileLangError: a user error that a step found, as it is.
        PassFailedError: any other exception of a step, naming the step; the original is its cause.
        ValueError: ``stop_after`` names no step.
    """
    if stop_after is not None and stop_after not in {step.name for step in steps}:
        raise ValueError(f"no step {stop_after!r}; there are {', '.join(step.name for step in steps)}")
    seconds: dict[str, float] = {}
    dumps: dict[str, bytes] = {"ir/00_input.txt": printed(value)} if dump else {}
    for number, step in enumerate(steps, start=1):
        start = time.perf_counter()
        value = _run_step(step, value, context, verify)
        seconds[step.name] = time.perf_counter() - start
        if dump:
            dumps[f"ir/{number:02d}_{step.name}.txt"] = printed(value)
        if step.name == stop_after:
            break
    return PipelineResult(value, seconds, dumps)


def _run_step(step: Step, value: Any, context: Any, verify: bool) -> Any:
    try:
        with recursion(PASSES):
            value = step.run(value, context)
            if verify and step.verify is not None:
                step.verify(value)
            return value
    except TileLangError:
        raise
    except Exception as error:  # a defect of the step, or of TVM below it: the user is told which step it was
        raise PassFailedError(step.name, error) from error


def printed(value: Any) -> bytes:
    """The text of a program: TVMScript for IR, the value itself for text and bytes, ``repr`` for records."""
    if isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    script = getattr(value, "script", None)
    return str(script() if callable(script) else repr(value)).encode()
