"""Kernels of a virtual device that stay resident: all their blocks wait for memory that something else will write.

Work is done when it is submitted, as far as it gets. Kernels and operations of torch that come after a resident one, by their
stream or by an event, are held back. What the host needs lets all of them go on first. Where nothing is left that could write
what one waits for, that is a deadlock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any

from tilelang.errors import SimulatorArgumentError
from tilelang.lib.signals import SignalWatch
from tilelang.simulator import native


class Pending:
    """Work that has not ended.

    Args:
        after: what has to end before it starts.
    """

    def __init__(self, after: list[Pending]):
        self._after = after

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left to do."""
        raise NotImplementedError

    def resume(self, give_up: bool = False) -> bool:
        """Lets it run as far as it gets, and says whether it has got on.

        Args:
            give_up: what it waits for, or what the first of those before it waits for, will not come.

        Raises:
            BaseException: see :meth:`go_on`.
        """
        before = next((pending for pending in self._after if not pending.ended), None)
        if before is not None:
            return give_up and before.resume(give_up)
        return not self.ended and self.go_on(give_up)

    def go_on(self, give_up: bool) -> bool:
        """The same, where nothing has to end before.

        Raises:
            SimulatorError: what was found.
            BaseException: of a signal's handler.
        """
        raise NotImplementedError


class Resident(Pending):
    """A launch that waits.

    Args:
        handle: the native launch.
        after: what has to end before it starts.
        on_report: takes its report, as JSON, when it has ended; may raise.
    """

    def __init__(self, handle: Any, after: list[Pending], on_report: Callable[[str], None]):
        super().__init__(after)
        self._handle = handle
        self._on_report = on_report

    @property
    def ended(self) -> bool:
        """Whether nothing of it is left to run."""
        return self._handle is None

    def go_on(self, give_up: bool) -> bool:
        """Runs its blocks."""
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


class Operation(Pending):
    """An operation that comes after waiting kernels.

    Args:
        work: does it.
        after: what has to end before.
    """

    def __init__(self, work: Callable[[], None], after: list[Pending]):
        super().__init__(after)
        self._work: Callable[[], None] | None = work

    @property
    def ended(self) -> bool:
        """Whether it is done."""
        return self._work is None

    def go_on(self, give_up: bool) -> bool:
        """Does it."""
        work, self._work = self._work, None
        if work is not None:
            work()
        return True


class Residents:
    """The resident kernels of a device, and what comes after them."""

    def __init__(self) -> None:
        self._waiting: list[Pending] = []
        self._before: dict[int, list[Pending]] = {}
        self._lock = threading.RLock()

    def add(self, stream: int, handle: Any, on_report: Callable[[str], None]) -> None:
        """A kernel of a stream that waits.

        Args:
            stream: the stream's handle.
            handle, on_report: see :class:`Resident`.
        """
        self._append(stream, Resident(handle, self.before(stream), on_report))

    def queue(self, stream: int, work: Callable[[], None]) -> None:
        """An operation that comes after what a stream has to do."""
        self._append(stream, Operation(work, self.before(stream)))

    def _append(self, stream: int, pending: Pending) -> None:
        self._waiting.append(pending)
        self.order(stream, [pending])

    def before(self, stream: int) -> list[Pending]:
        """What has to end before the next work of a stream."""
        return [pending for pending in self._before.get(stream, ()) if not pending.ended]

    def hold_back(self, stream: int) -> bool:
        """Whether the next work of a stream has to wait, when everything has got as far as it gets."""
        if not self._waiting:
            return False
        self.advance()
        return bool(self.before(stream))

    def order(self, stream: int, pending: Iterable[Pending]) -> None:
        """The next work of a stream comes after something."""
        self._before[stream] = [*self.before(stream), *pending]

    def advance(self) -> bool:
        """Lets everything run as far as it gets, and says whether something has got on."""
        if not self._waiting:
            return False
        with self._lock:
            got_on = [pending.resume() for pending in self._waiting]
            self._waiting = [pending for pending in self._waiting if not pending.ended]
            return any(got_on)

    def settle(self, some: Iterable[Pending]) -> None:
        """Runs until some of it has ended.

        Raises:
            SimulatorError: what was found, such as a deadlock.
        """
        with self._lock:
            for pending in some:
                while not pending.ended:
                    if not self.advance() and not pending.ended:
                        pending.resume(give_up=True)

    def settle_stream(self, stream: int) -> None:
        """Runs until a stream has no work left."""
        if self._waiting:
            self.settle(self.before(stream))

    def settle_all(self) -> None:
        """Runs until no stream has work left."""
        self.settle(list(self._waiting))
