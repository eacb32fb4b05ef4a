"""Streams and events of the virtual device. Work is done when it is submitted, but for kernels that wait for others."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

import torch

from tilelang.simulator.virtual import active
from tilelang.simulator.virtual.clock import Clock, Moment
from tilelang.simulator.virtual.graphs import GraphCapture, refuse_in_capture
from tilelang.simulator.virtual.resident import Resident, Residents


def residents() -> Residents:
    """The kernels of the device that wait for those of other streams."""
    device = active.current()
    return Residents() if device is None else device.residents


class Stream:
    """A stream.

    Args:
        device: the virtual device, the only one.
        priority: kept, without effect.
        stream_ptr: the handle, of a stream that another library made.
    """

    handles: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **_: Any):
        self.device = torch.device("cuda", 0)
        self.device_index = 0
        self.device_type = 1  # torch's number of CUDA
        self.priority = priority
        self.cuda_stream = next(Stream.handles) if stream_ptr is None else stream_ptr
        self.stream_id = self.native_handle = self.cuda_stream

    @staticmethod
    def current() -> Stream:
        """The stream that this thread has chosen, else the default stream."""
        return _chosen.streams[-1]

    def choose(self) -> None:
        """Makes it the current stream of this thread."""
        _chosen.streams[-1] = self

    def synchronize(self) -> None:
        """Waits for its kernels."""
        refuse_in_capture()
        residents().settle_stream(self.cuda_stream)

    def wait_event(self, event: AnyEvent) -> None:
        """Its next work comes after the event."""
        residents().order(self.cuda_stream, event.after)

    def wait_stream(self, stream: Stream) -> None:
        """Its next work comes after that of another stream."""
        residents().order(self.cuda_stream, residents().before(stream.cuda_stream))

    def query(self) -> bool:
        """Whether everything is complete."""
        residents().advance()
        return not residents().before(self.cuda_stream)

    @staticmethod
    def priority_range() -> tuple[int, int]:
        """The least and the greatest priority."""
        return (0, -5)

    def is_capturing(self) -> bool:
        """Whether a graph is being captured."""
        return GraphCapture.current is not None

    def record_event(self, event: Event | None = None) -> Event:
        """An event recorded here."""
        event = event or Event(enable_timing=True)
        event.record(self)
        return event

    def __repr__(self) -> str:
        return f"<torch.cuda.Stream device={self.device} cuda_stream={self.cuda_stream:#x}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Stream) and self.cuda_stream == other.cuda_stream

    def __hash__(self) -> int:
        return hash(self.cuda_stream)

    def __enter__(self) -> Stream:
        _chosen.streams.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        _chosen.streams.pop()


_DEFAULT = Stream(stream_ptr=0)


class _Chosen(threading.local):
    """Streams of ``with torch.cuda.stream(...)``, from the outside in; at first the default stream."""

    def __init__(self) -> None:
        self.streams = [_DEFAULT]


_chosen = _Chosen()


@contextlib.contextmanager
def fresh_streams() -> Iterator[None]:
    """The default stream, and no other that a program has chosen before."""
    before, _chosen.streams = _chosen.streams, [_DEFAULT]
    try:
        yield
    finally:
        _chosen.streams = before


class AnyEvent:
    """An event, as ``torch.Event`` makes it; :class:`~tilelang.simulator.virtual.clock.Clock` defines what :meth:`elapsed_time`
    means."""

    clock: ClassVar[Clock] = Clock()

    def __init__(self, device: Any = None, *, enable_timing: bool = False, **_: Any):
        self.enable_timing = enable_timing
        self.device = torch.device("cuda", 0)
        self.cuda_event = self.event_id = id(self)
        self._at: Moment | None = None
        self.after: list[Resident] = []

    def record(self, stream: Any = None) -> None:
        """Takes the time, and what the stream still has to do."""
        self.after = residents().before((stream or Stream.current()).cuda_stream)
        AnyEvent.clock.measuring = self.enable_timing
        self._at = AnyEvent.clock.now()

    def wait(self, stream: Any = None) -> None:
        """The stream's next work comes after the event."""
        (stream or Stream.current()).wait_event(self)

    def query(self) -> bool:
        """Whether everything before the event is complete."""
        residents().advance()
        return all(resident.ended for resident in self.after)

    def synchronize(self) -> None:
        """Waits for what was before the event."""
        refuse_in_capture()
        residents().settle(self.after)

    def elapsed_time(self, end: AnyEvent) -> float:
        """Milliseconds of the clock between two recorded events.

        Raises:
            RuntimeError: one of them has not been recorded, or measures no time.
        """
        if self._at is None or end._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return AnyEvent.clock.between(self._at, end._at) * 1e3


class Event(AnyEvent):
    """An event, as ``torch.cuda.Event`` makes it."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False):
        super().__init__(enable_timing=enable_timing)
