"""Streams, events and graphs of the virtual device. Work is done when it is submitted, so that waits are no-ops."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tilelang.simulator.virtual.clock import Clock, Moment
from tilelang.simulator.virtual.placement import tensors_of


class Stream:
    """A stream; all work is in program order.

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
        """Nothing is pending."""

    def wait_event(self, event: AnyEvent) -> None:
        """Nothing is pending."""

    def wait_stream(self, stream: Stream) -> None:
        """Nothing is pending."""

    def query(self) -> bool:
        """Everything is complete."""
        return True

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

    def record(self, stream: Any = None) -> None:
        """Takes the time."""
        AnyEvent.clock.measuring = self.enable_timing
        self._at = AnyEvent.clock.now()

    def wait(self, stream: Any = None) -> None:
        """Nothing is pending."""

    def query(self) -> bool:
        """Everything before the event is complete."""
        return True

    def synchronize(self) -> None:
        """Nothing is pending."""

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


class CUDAGraph:
    """A graph that repeats what was done while it was captured, on the same memory."""

    def __init__(self, keep_graph: bool = False):
        self.steps: list[Any] = []
        self._capture: GraphCapture | None = None

    def capture_begin(self, pool: Any = None, capture_error_mode: str = "global") -> None:
        """Records what follows, until :meth:`capture_end`."""
        self._capture = GraphCapture(self)
        self._capture.__enter__()

    def capture_end(self) -> None:
        """Ends the capture.

        Raises:
            RuntimeError: none has begun.
        """
        if self._capture is None:
            raise RuntimeError("CUDA error: operation not permitted when stream is not capturing")
        self._capture.__exit__(None, None, None)
        self._capture = None

    def instantiate(self) -> None:
        """A captured graph is ready to be replayed."""

    def replay(self) -> None:
        """Does it again."""
        for step in self.steps:
            step()

    def reset(self) -> None:
        """Forgets what was captured."""
        self.steps.clear()

    def pool(self) -> tuple[int, int]:
        """An identifier of the graph's memory."""
        return (0, 0)


class GraphCapture(TorchDispatchMode):
    """``with torch.cuda.graph(graph):`` records the work.

    The work is done once for that, since what a program does may depend on its results. On a GPU it is not: so memory that it
    wrote to has its former content again at the end.

    Attributes:
        current: the capture that launches of kernels belong to, if any.
    """

    current: GraphCapture | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"):
        super().__init__()
        self.graph = cuda_graph
        self._before: dict[int, tuple[torch.UntypedStorage, torch.UntypedStorage]] = {}

    def __enter__(self) -> GraphCapture:
        self.graph.reset()
        GraphCapture.current = self
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        GraphCapture.current = None
        super().__exit__(*error)
        for storage, content in self._before.values():
            storage.copy_(content)
        self._before.clear()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        named = {**dict(zip((each.name for each in func._schema.arguments), args)), **(kwargs or {})}
        into = [each.name for each in func._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
        return self.record(lambda: func(*args, **(kwargs or {})), [named.get(name) for name in into])

    def record(self, work: Callable[[], Any], written: Iterable[Any]) -> Any:
        """Does some work, whose results each replay computes again in the same memory.

        Args:
            work: does it.
            written: values among which are the tensors that it may write to.
        """
        for tensor in tensors_of(written):
            storage = tensor.untyped_storage()
            if storage._cdata not in self._before:
                with _disable_current_modes():  # copying is no part of the graph
                    self._before[storage._cdata] = (storage, storage.clone())
        result = work()
        self.graph.steps.append(lambda: _write(work(), result))
        return result


def _write(again: Any, first: Any) -> None:
    """Puts the tensors of a repeated call where those of the captured one are."""
    if isinstance(first, torch.Tensor):
        if again is not first and again.data_ptr() != first.data_ptr():
            first.copy_(again)
    elif isinstance(first, (tuple, list)):
        for new, old in zip(again, first, strict=True):
            _write(new, old)
