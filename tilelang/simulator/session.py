"""Which simulator settings kernels of the cuda target run under."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from tilelang import env
from tilelang.errors import SimulatorArgumentError
from tilelang.simulator.checks import check_bits, trace_bits


@dataclass(frozen=True, slots=True)
class Settings:
    """How launches on the simulator are checked.

    Attributes:
        checks: ``"all"``, ``"none"``, or names from :data:`tilelang.simulator.checks.CHECKS`.
        seed: of every free choice (schedule, completion order).
        strict: findings raise :class:`~tilelang.errors.SimulatorError`; else they are only in the reports.
        counters: whether to count.
        workers: OS threads, 0 for one per core.
        collect: called with the report of each launch.
        trace: ``"on"`` records what the cluster in the middle of each grid executes, ``"only"`` runs no other; for that,
            ``counters`` must be on.
    """

    checks: str | tuple[str, ...] = "all"
    seed: int = 0
    strict: bool = True
    counters: bool = False
    workers: int = 0
    collect: Callable[[Any], None] | None = None
    trace: str = "off"


_current: ContextVar[Settings | None] = ContextVar("tilelang_simulator_settings", default=None)


def current() -> Settings | None:
    """The settings of the session this runs in; outside of one, defaults if ``TILELANG_DEVICE=simulator``, else None."""
    settings = _current.get()
    if settings is None and env.on_simulator():
        return Settings()
    return settings


@contextlib.contextmanager
def session(
    checks: str | tuple[str, ...] = "all",
    seed: int = 0,
    strict: bool = True,
    counters: bool = False,
    workers: int = 0,
    collect: Callable[[Any], None] | None = None,
    trace: str = "off",
) -> Iterator[Settings]:
    """Runs kernels of the cuda target on the simulator inside of the ``with`` block.

    Args:
        checks, seed, strict, counters, workers, collect, trace: see :class:`Settings`.

    Yields:
        The settings, in force for this thread until the end of the block.

    Raises:
        SimulatorArgumentError: no such check or trace.
    """
    # Here and not at the first launch, which may come much later or be another thread's.
    check_bits(checks)
    trace_bits(trace)
    if not isinstance(seed, int):
        raise SimulatorArgumentError(f"seed={seed!r} is no integer")
    settings = Settings(checks, seed, strict, counters, workers, collect, trace)
    with entered(settings), env.overridden("TILELANG_DEVICE", "simulator"):
        yield settings


@contextlib.contextmanager
def entered(settings: Settings | None) -> Iterator[None]:
    """Puts settings in force for this thread until the end of the block."""
    token = _current.set(settings)
    try:
        yield
    finally:
        _current.reset(token)


def traced() -> contextlib.AbstractContextManager[None]:
    """The settings in force, with each launch traced."""
    return entered(replace(current() or Settings(), trace="on"))
