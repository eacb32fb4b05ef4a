"""Streams, events and graphs of the virtual device. Work is done when it is submitted, so that waits are no-ops."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tilelang.simulator.virtual.clock import Clock, Moment


class Stream:
    """A stream; all work is in program order.

    Args:
        device: the virtual device, the only one.
        priority: kept, without effect.
        stream_ptr: the handle, of a stream that another library made.
    """

    handles: ClassVar[Iterator[int]] = itertools.count(1)
    chosen: ClassVar[list[Stream]] = []
    """Of ``with torch.cuda.stream(...)``, from the outside in; the first is the default stream."""

    def __init__(self, device: Any = None, priority: int = 0, *, stream_ptr: int | None = None, **_: Any):
        self.device = torch.device("cuda", 0)
        self.device_index = 0
        self.priority = priority
        self.cuda_stream = next(Stream.handles) if stream_ptr is None else stream_ptr

    @classmethod
    def current(cls) -> Stream:
        """The stream that the program has chosen, else the default stream."""
        return cls.chosen[-1]

    def synchronize(self) -> None:
        """Nothing is pending."""

    def wait_event(self, event: Event) -> None:
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
        Stream.chosen.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        Stream.chosen.pop()


@contextlib.contextmanager
def fresh_streams() -> Iterator[None]:
    """The default stream, and no other that a program has chosen before."""
    before, Stream.chosen[:] = list(Stream.chosen), [Stream(stream_ptr=0)]
    try:
        yield
    finally:
        Stream.chosen[:] = before


class Event:
    """An event; :class:`~tilelang.simulator.virtual.clock.Clock` defines what :meth:`elapsed_time` means."""

    clock: ClassVar[Clock] = Clock()

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False, external: bool = False):
        self.enable_timing = enable_timing
        self.cuda_event = id(self)
        self._at: Moment | None = None

    def record(self, stream: Any = None) -> None:
        """Takes the time."""
        Event.clock.measuring = self.enable_timing
        self._at = Event.clock.now()

    def wait(self, stream: Any = None) -> None:
        """Nothing is pending."""

    def query(self) -> bool:
        """Everything before the event is complete."""
        return True

    def synchronize(self) -> None:
        """Nothing is pending."""

    def elapsed_time(self, end: Event) -> float:
        """Milliseconds of the clock between two recorded events.

        Raises:
            RuntimeError: one of them has not been recorded, or measures no time.
        """
        if self._at is None or end._at is None:
            raise RuntimeError("Both events must be recorded before calculating elapsed time.")
        if not (self.enable_timing and end.enable_timing):
            raise RuntimeError("Both events must be created with argument 'enable_timing=True'.")
        return Event.clock.between(self._at, end._at) * 1e3


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
    """``with torch.cuda.graph(graph):`` runs the work once and records it.

    Attributes:
        current: the capture that launches of kernels belong to, if any.
    """

    current: GraphCapture | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"):
        super().__init__()
        self.graph = cuda_graph

    def __enter__(self) -> GraphCapture:
        self.graph.reset()
        GraphCapture.current = self
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        GraphCapture.current = None
        super().__exit__(*error)

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        return self.record(lambda: func(*args, **(kwargs or {})))

    def record(self, work: Callable[[], Any]) -> Any:
        """Does some work, whose results each replay computes again in the same memory."""
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
