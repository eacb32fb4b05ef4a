"""Streams and events of the virtual device. Work is done when it is submitted, but for kernels that wait for others."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Iterator
from typing import Any, ClassVar

from tilelang.simulator.virtual import active, devices
from tilelang.simulator.virtual.clock import Clock, Moment
from tilelang.simulator.virtual.graphs import GraphCapture, refuse_in_capture
from tilelang.simulator.virtual.resident import Pending, Residents


def residents() -> Residents:
    """The kernels of the device that wait for those of other streams."""
    device = active.current()
    return Residents() if device is None else device.residents


class Stream:
    """A stream.

    Args:
        device: the virtual device that it belongs to, else the current one.
        priority: kept, without effect.
        stream_ptr: the handle, of a stream that another library made.
    """

    handles: ClassVar[Iterator[int]] = itertools.count(1)

    def __init__(self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **_: Any):
        index = None if device is None else devices.index_of(device)
        self.device_index = devices.current() if index is None else index
        self.device = devices.named(self.device_index)
        self.device_type = 1  # torch's number of CUDA
        self.priority = priority
        self.cuda_stream = next(Stream.handles) if stream_ptr is None else stream_ptr
        self.stream_id = self.native_handle = self.cuda_stream

    @staticmethod
    def default(index: int | None = None) -> Stream:
        """A device's default stream, else that of the current device."""
        index = devices.current() if index is None else index
        if index not in _defaults:
            _defaults[index] = Stream(index)
        return _defaults[index]

    @staticmethod
    def current(index: int | None = None) -> Stream:
        """The stream that this thread has chosen on a device (else on the current one), else the default stream."""
        index = devices.current() if index is None else index
        return _chosen.streams.get(index) or Stream.default(index)

    def choose(self) -> None:
        """Makes it the current stream of its device in this thread, and that device the current one."""
        _chosen.streams[self.device_index] = self
        devices.choose(self.device_index)

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
        _chosen.outer.append((devices.current(), Stream.current(self.device_index)))
        self.choose()
        return self

    def __exit__(self, *_: Any) -> None:
        index, stream = _chosen.outer.pop()
        stream.choose()
        devices.choose(index)


class ExternalStream(Stream):
    """A stream that another library made, as ``torch.cuda.ExternalStream`` takes it."""

    def __init__(self, stream_ptr: int, device: Any = None, **_: Any):
        super().__init__(device, stream_ptr=stream_ptr)


class StreamContext:
    """``with torch.cuda.stream(stream):``; without a stream it changes nothing."""

    def __init__(self, stream: Stream | None):
        self.stream = stream

    def __enter__(self) -> None:
        if self.stream is not None:
            self.stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self.stream is not None:
            self.stream.__exit__(*error)


_defaults = {0: Stream(0, stream_ptr=0)}
"""The default stream of each device; handles are of all devices, so only the first one's is 0."""


class _Chosen(threading.local):
    """The stream chosen on each device, and what ``with torch.cuda.stream(...)`` puts back."""

    def __init__(self) -> None:
        self.streams: dict[int, Stream] = {}
        self.outer: list[tuple[int, Stream]] = []


_chosen = _Chosen()


@contextlib.contextmanager
def fresh_streams() -> Iterator[None]:
    """The default streams, and no other that a program has chosen before."""
    before, _chosen.streams = _chosen.streams, {}
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
        self.device = devices.named(devices.current())
        self.cuda_event = self.event_id = id(self)
        self._at: Moment | None = None
        self.after: list[Pending] = []

    def record(self, stream: Any = None) -> None:
        """Takes the time, and what the stream still has to do.

        Raises:
            RuntimeError: it was recorded on another device before.
        """
        stream = stream or Stream.current()
        if self._at is not None and stream.device != self.device:
            raise RuntimeError(
                f"Event device {self.device.index} does not match recording stream's device {stream.device_index}."
            )
        self.device = stream.device
        self.after = residents().before(stream.cuda_stream)
        AnyEvent.clock.measuring = self.enable_timing
        self._at = AnyEvent.clock.now()

    def wait(self, stream: Any = None) -> None:
        """The stream's next work comes after the event."""
        (stream or Stream.current()).wait_event(self)

    def query(self) -> bool:
        """Whether everything before the event is complete."""
        residents().advance()
        return all(pending.ended for pending in self.after)

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
