"""Kernels of a virtual device that stay resident: all their blocks wait for memory that a kernel on another stream will write.

Work is done when it is submitted, as far as it gets. Kernels that come after a resident one, by their stream or by an event, are
held back. What needs their results (torch's operations, waits of the host) lets all of them go on first. Where nothing is
left that could write what one waits for, that is a deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from tilelang.errors import SimulatorArgumentError
from tilelang.lib.signals import SignalWatch
from tilelang.simulator import native


class Resident:
    """A launch that waits.

    Args:
        handle: the native launch.
        after: those that have to end before it starts.
        on_report: takes its report, as JSON, when it has ended; may raise.
    """

    def __init__(self, handle: Any, after: list[Resident], on_report: Callable[[str], None]):
        self._handle = handle
        self._after = after
        self._on_report = on_report

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left to run."""
        return self._handle is None

    def resume(self, give_up: bool = False) -> bool:
        """Lets it run as far as it gets, and says whether it has got on.

        Args:
            give_up: what it waits for, or what the first of those before it waits for, will not come.

        Raises:
            SimulatorError: what was found.
            BaseException: of a signal's handler.
        """
        before = next((resident for resident in self._after if not resident.ended), None)
        if self.ended or before is not None:
            return give_up and before is not None and before.resume(give_up)
        watch = SignalWatch()
        try:
            outcome = native.function("resume")(self._handle, give_up, watch)
        except ValueError as error:
            self._handle = None
            raise watch.error or SimulatorArgumentError(str(error)) from None
        if isinstance(outcome, bool):
            return outcome
        self._handle = None
        self._on_report(str(outcome))
        return True


class Residents:
    """The resident kernels of a device, and what comes after them."""

    def __init__(self) -> None:
        self._waiting: list[Resident] = []
        self._before: dict[int, list[Resident]] = {}
        self._lock = threading.RLock()

    def add(self, stream: int, handle: Any, on_report: Callable[[str], None]) -> None:
        """A kernel of a stream that waits.

        Args:
            stream: the stream's handle.
            handle, on_report: see :class:`Resident`.
        """
        resident = Resident(handle, self.before(stream), on_report)
        self._waiting.append(resident)
        self.order(stream, [resident])

    def before(self, stream: int) -> list[Resident]:
        """The kernels that have to end before the next work of a stream."""
        return [resident for resident in self._before.get(stream, ()) if not resident.ended]

    def order(self, stream: int, residents: Iterable[Resident]) -> None:
        """The next work of a stream comes after some kernels."""
        self._before[stream] = [*self.before(stream), *residents]

    def advance(self) -> bool:
        """Lets every kernel run as far as it gets, and says whether one has got on."""
        if not self._waiting:
            return False
        with self._lock:
            got_on = [resident.resume() for resident in self._waiting]
            self._waiting = [resident for resident in self._waiting if not resident.ended]
            return any(got_on)

    def settle(self, residents: Iterable[Resident]) -> None:
        """Runs until some kernels have ended.

        Raises:
            SimulatorError: what was found, such as a deadlock.
        """
        with self._lock:
            for resident in residents:
                while not resident.ended:
                    if not self.advance() and not resident.ended:
                        resident.resume(give_up=True)

    def settle_stream(self, stream: int) -> None:
        """Runs until a stream has no work left."""
        if self._waiting:
            self.settle(self.before(stream))

    def settle_all(self) -> None:
        """Runs until no stream has work left."""
        self.settle(list(self._waiting))
