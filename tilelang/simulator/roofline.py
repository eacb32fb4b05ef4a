"""The roofline of a launch: what its arithmetic and its memory traffic allow on a device at best."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tilelang.simulator.virtual.models import DeviceModel

_SECTOR = 32


@dataclass(frozen=True, slots=True)
class Roofline:
    """Of one launch on one device.

    Attributes:
        operations: of the tensor cores (two a multiply-add), or of the other units where those are not used; one a thread of an
            arithmetic instruction.
        moved: bytes that travel between the multiprocessors and the L2 cache or memory: whole sectors, and bulk copies.
        peak: operations a second of the units that do them.
        bandwidth: bytes a second of the device's memory.
        tensor: whether the operations are the tensor cores'.
    """

    operations: int
    moved: int
    peak: float
    bandwidth: float
    tensor: bool

    @property
    def intensity(self) -> float:
        """Operations a byte."""
        return self.operations / self.moved if self.moved else 0.0

    @property
    def attainable(self) -> float:
        """The most operations a second at this intensity."""
        return min(self.peak, self.intensity * self.bandwidth)

    @property
    def seconds(self) -> float:
        """What the launch takes at best, when every byte comes from memory."""
        return max(self.operations / self.peak, self.moved / self.bandwidth)


def roofline(device: DeviceModel, counters: Any) -> Roofline:
    """The roofline of what a launch counted (:class:`~tilelang.simulator.report.Counters`)."""
    # Where tensor cores are used their operations are nearly all of them, and those of the other units run beside.
    multiply_adds = counters.total.get("tensor_multiply_adds", 0)
    scalar = sum(counters.classes.get(name, {}).get("threads", 0) for name in ("arithmetic", "special function"))
    traffic = counters.traffic
    moved = counters.total.get("global_sectors", 0) * _SECTOR + traffic["async_to_shared"] + traffic["async_to_global"]
    per_clock = 2 * device.tensor_fma if multiply_adds else device.float_fma
    peak = per_clock * device.multiprocessors * device.clock
    return Roofline(2 * multiply_adds or scalar, moved, peak, device.bandwidth, bool(multiply_adds))
