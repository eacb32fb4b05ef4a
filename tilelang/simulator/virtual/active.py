"""The virtual device that kernel calls run on, if any; a module of its own, so that execution backends load nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Device:
    """The virtual device's state that kernel calls use.

    Attributes:
        placement: which tensors are on it (:class:`~tilelang.simulator.virtual.placement.Placement`).
        launches: which calls are made (:class:`~tilelang.simulator.virtual.launches.Launches`).
        mode: through which torch sees it (:class:`~tilelang.simulator.virtual.mode.VirtualDeviceMode`).
        residents: kernels that wait for those of other streams (:class:`~tilelang.simulator.virtual.resident.Residents`).
    """

    placement: Any
    launches: Any
    mode: Any
    residents: Any


_current: Device | None = None


def current() -> Device | None:
    """The virtual device in force in this process."""
    return _current


@contextlib.contextmanager
def entered(device: Device) -> Iterator[None]:
    """Makes a device the current one."""
    global _current
    outer, _current = _current, device
    try:
        yield
    finally:
        _current = outer
