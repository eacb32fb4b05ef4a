"""The active virtual device: torch's view of it, and its launches."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.autograd.graph

from tilelang import env
from tilelang.errors import SimulatorArgumentError
from tilelang.simulator.session import session
from tilelang.simulator.virtual import active
from tilelang.simulator.virtual.checkpoints import known_location
from tilelang.simulator.virtual.cuda_api import patched
from tilelang.simulator.virtual.events import Event
from tilelang.simulator.virtual.launches import Launches
from tilelang.simulator.virtual.mode import VirtualDeviceMode
from tilelang.simulator.virtual.models import DEFAULT, DeviceModel, device_model
from tilelang.simulator.virtual.placement import Placement


@dataclass(slots=True)
class Usage:
    """Statistics of a program's use of the device.

    Attributes:
        model: the model that it saw.
        launches: its kernel calls.
        modelled: whether events have the time of a model, and not this machine's.
    """

    model: DeviceModel
    launches: Launches = field(default_factory=Launches)
    modelled: bool = False

    @property
    def asked_for_times(self) -> bool:
        """Whether the program measured with events."""
        return Event.was_asked


@contextlib.contextmanager
def virtual_device(
    device: str = DEFAULT,
    *,
    repeat: int = 3,
    checks: str | tuple[str, ...] = "all",
    strict: bool = True,
    collect: Callable[[Any], None] | None = None,
    times: str = "host",
) -> Iterator[Usage]:
    """Makes a GPU of that model appear to torch and tilelang in this process.

    Args:
        device: a name of :data:`~tilelang.simulator.virtual.models.MODELS`.
        repeat: how often a call that is measured (repeated with the same arguments between events) really runs.
        checks, strict: of the simulator, see :class:`~tilelang.simulator.Settings`.
        collect: called with the report of each launch, which then has counters.
        times: what events measure: ``"host"``, this machine's time, or ``"model"``, what :mod:`tilelang.simulator.timing` says of
            tilelang's kernels on the device; everything else then takes no time.

    Yields:
        The statistics of the device's use so far.

    Raises:
        SimulatorArgumentError: no such model, or no such clock.
    """
    model = device_model(device)
    if times not in ("host", "model"):
        raise SimulatorArgumentError(f"there is no clock {times!r}", "known are host, model")
    modelled = times == "model"
    usage = Usage(model, Launches(repeat, device), modelled)
    placement = Placement()
    Event.was_asked = False
    mode = VirtualDeviceMode(placement)
    with contextlib.ExitStack() as stack:
        stack.enter_context(_launches(usage, collect, checks=checks, strict=strict))
        stack.enter_context(env.overridden("TILELANG_CUDA_ARCH", model.arch))
        stack.enter_context(patched(model, placement))
        stack.enter_context(known_location(placement))
        stack.enter_context(active.entered(active.Device(placement, usage.launches)))
        stack.enter_context(_backward_under(mode))
        stack.enter_context(_threads_under(mode))
        stack.enter_context(mode)
        yield usage


@contextlib.contextmanager
def _launches(usage: Usage, collect: Callable[[Any], None] | None, **settings: Any) -> Iterator[None]:
    """Kernels on the simulator, their reports handed to ``collect`` and to the model of time."""

    def take(report: Any) -> None:
        if usage.modelled:
            usage.launches.model(report)
        if collect is not None:
            collect(report)

    trace = "on" if usage.modelled else "off"
    clock = (lambda: usage.launches.clock) if usage.modelled else time.perf_counter
    counted = collect is not None
    with session(counters=counted, collect=take, trace=trace, **settings), _replaced(Event, "clock", clock):
        yield


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


def _backward_under(mode: VirtualDeviceMode) -> Any:
    """Backward functions of the program run inside of torch's engine, which is called with the mode switched off."""
    engine: Callable[..., Any] = torch.autograd.graph._engine_run_backward

    def run(roots: Any, *args: Any, **kwargs: Any) -> Any:
        if not any(mode.placement.holds(root) for root in roots):
            return engine(roots, *args, **kwargs)
        with mode, mode.placement.holding_everything():
            found = engine(roots, *args, **kwargs)
        return mode.placement.put(found)

    return _replaced(torch.autograd, "_engine_run_backward", run)


def _threads_under(mode: VirtualDeviceMode) -> Any:
    """Threads that the program starts see the device, too: modes of torch belong to a thread."""
    start: Callable[[threading.Thread], None] = threading.Thread.run

    def run(thread: threading.Thread) -> None:
        with mode:
            start(thread)

    return _replaced(threading.Thread, "run", run)
