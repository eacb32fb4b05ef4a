"""The active virtual device: torch's view of it, and its launches."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tilelang import env
from tilelang.errors import SimulatorArgumentError
from tilelang.simulator.session import session
from tilelang.simulator.virtual import active
from tilelang.simulator.virtual.callbacks import callbacks_under
from tilelang.simulator.virtual.checkpoints import known_location
from tilelang.simulator.virtual.clock import Clock
from tilelang.simulator.virtual.devices import there_are
from tilelang.simulator.virtual.events import AnyEvent
from tilelang.simulator.virtual.gathered import gathering
from tilelang.simulator.virtual.inherited import inherited, leave
from tilelang.simulator.virtual.launches import Launches
from tilelang.simulator.virtual.mode import VirtualDeviceMode
from tilelang.simulator.virtual.models import DEFAULT, DeviceModel, device_model
from tilelang.simulator.virtual.operators import operators_of_device
from tilelang.simulator.virtual.placement import Placement
from tilelang.simulator.virtual.replaced import replaced
from tilelang.simulator.virtual.resident import Residents
from tilelang.simulator.virtual.sharing import shared_with_processes
from tilelang.simulator.virtual.torch_api import patched


@dataclass(slots=True)
class Usage:
    """Statistics of a program's use of the device.

    Attributes:
        model: the model that it saw.
        launches: its kernel calls.
        clock: the time of its events.
    """

    model: DeviceModel
    launches: Launches = field(default_factory=Launches)
    clock: Clock = field(default_factory=Clock)


@contextlib.contextmanager
def virtual_device(
    device: str = DEFAULT,
    *,
    devices: int = 1,
    repeat: int = 3,
    checks: str | tuple[str, ...] = "all",
    strict: bool = True,
    collect: Callable[[Any], None] | None = None,
    times: str = "auto",
    reports: str | None = None,
) -> Iterator[Usage]:
    """Makes a GPU of that model appear to torch and tilelang in this process.

    Args:
        device: a name of :data:`~tilelang.simulator.virtual.models.MODELS`.
        devices: how many of them; each has memory, streams and events of its own.
        repeat: how often a call that is measured (repeated with the same arguments between events) really runs.
        checks, strict: of the simulator, see :class:`~tilelang.simulator.Settings`.
        collect: called with the report of each launch, which then has counters.
        times: what events measure, a name of :data:`~tilelang.simulator.virtual.clock.KINDS`: ``"auto"``, what
            :mod:`tilelang.simulator.timing` says of tilelang's kernels, and this machine's time of torch's operations.
        reports: a directory for the reports of processes that this one starts; of this one too where nothing collects them.

    Yields:
        The statistics of the device's use so far.

    Raises:
        SimulatorArgumentError: no such model, no such clock, or less than one device.
    """
    leave()
    model = device_model(device)
    if devices < 1:
        raise SimulatorArgumentError(f"there cannot be {devices} devices")
    if reports is not None:
        collect = gathering(reports, collect)
    usage = Usage(model, Launches(repeat, device), Clock(times))
    placement = Placement()
    residents = Residents()
    mode = VirtualDeviceMode(placement, residents)
    settings = {
        "device": device, "devices": devices, "repeat": repeat, "checks": checks, "strict": strict, "times": times,
        "reports": reports,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.enter_context(_launches(usage, collect, checks=checks, strict=strict))
        stack.enter_context(env.overridden("TILELANG_CUDA_ARCH", model.arch))
        stack.enter_context(there_are(devices))
        stack.enter_context(patched(model, placement))
        stack.enter_context(known_location(placement))
        stack.enter_context(shared_with_processes(placement))
        stack.enter_context(inherited(settings))
        stack.enter_context(active.entered(active.Device(placement, usage.launches, mode, residents)))
        stack.enter_context(callbacks_under(mode))
        stack.enter_context(operators_of_device())
        stack.enter_context(mode)
        yield usage
        residents.settle_all()


@contextlib.contextmanager
def _launches(usage: Usage, collect: Callable[[Any], None] | None, **settings: Any) -> Iterator[None]:
    """Kernels on the simulator, their reports handed to ``collect`` and to the model of time."""

    def take(report: Any) -> None:
        if report.traced:
            usage.launches.model(report)
        if collect is not None:
            collect(report)

    with session(counters=collect is not None, collect=take, **settings), replaced(AnyEvent, "clock", usage.clock):
        yield
