"""What events of the virtual device measure: modelled time of tilelang's kernels, and this machine's time of everything else."""

from __future__ import annotations

import time
from typing import NamedTuple

from tilelang.errors import SimulatorArgumentError

KINDS = {
    "auto": "the model's time of tilelang's kernels and this machine's time of torch's operations",
    "model": "the model's time of tilelang's kernels; nothing else takes time",
    "host": "this machine's time",
}
"""Values of ``times=``, and what events then measure."""


class Moment(NamedTuple):
    """Seconds on this machine's clock, of the model, and that torch's operations have taken."""

    host: float
    modelled: float
    operations: float


class Clock:
    """The time of a virtual device.

    Args:
        times: one of :data:`KINDS`.

    Attributes:
        modelled: seconds of all kernels that were modelled.
        operations: seconds that torch's operations on the device took.
        measuring: whether an event was recorded after the last time that was asked for.
        answered: ``"model"`` and ``"host"``, where a time that was asked for was one of these.

    Raises:
        SimulatorArgumentError: there is no such clock.
    """

    def __init__(self, times: str = "host"):
        if times not in KINDS:
            raise SimulatorArgumentError(f"there is no clock {times!r}", f"known are {', '.join(KINDS)}")
        self.times = times
        self.modelled = self.operations = 0.0
        self.measuring = False
        self.answered: set[str] = set()

    @property
    def models(self) -> bool:
        """Whether a kernel that is launched now is modelled."""
        return self.times == "model" or (self.times == "auto" and self.measuring)

    def now(self) -> Moment:
        """The time of an event."""
        return Moment(time.perf_counter(), self.modelled, self.operations)

    def between(self, start: Moment, end: Moment) -> float:
        """Seconds from one event to another; ends a measurement."""
        self.measuring = False
        by_model = self.times == "model" or (self.times == "auto" and end.modelled > start.modelled)
        self.answered.add("model" if by_model else "host")
        if not by_model:
            return end.host - start.host
        others = end.operations - start.operations if self.times == "auto" else 0.0
        return end.modelled - start.modelled + others

    def operated_since(self, start: Moment) -> None:
        """Counts the time of an operation of torch on the device, which is over."""
        self.operations += time.perf_counter() - start.host

    def summary(self) -> str:
        """What the times were that the program asked for; empty where it asked for none."""
        if self.answered == {"model"}:
            return f"times of events: {KINDS[self.times]}; nothing was measured on a GPU"
        if self.answered == {"host"}:
            return "times of events are this machine's, not a GPU's"
        if self.answered:
            return f"times of events: {KINDS[self.times]}; this machine's alone where no kernel was launched in between"
        return ""
