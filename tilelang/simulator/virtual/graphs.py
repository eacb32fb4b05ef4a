"""Graphs of the virtual device: what was done while one was captured is done again on the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tilelang.simulator.virtual.again import Contents, write_into, written_by


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

    def enable_debug_mode(self) -> None:
        """Without effect."""

    def register_generator_state(self, generator: torch.Generator) -> None:
        """Without effect: a replay draws new numbers from every generator."""

    def pool(self) -> tuple[int, int]:
        """An identifier of the graph's memory."""
        return (0, 0)


class GraphCapture(TorchDispatchMode):
    """``with torch.cuda.graph(graph):`` records the work.

    The work is done once for that, since what a program does may depend on its results. On a GPU it is not: so memory that it
    wrote to has its former content again at the end.

    Attributes:
        current: the capture that launches of kernels belong to, if any.
        last: what names the last call of a kernel, and its result.
    """

    current: GraphCapture | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"):
        super().__init__()
        self.graph = cuda_graph
        self.last: tuple[Any, Any] = (None, None)
        self._before = Contents()

    def __enter__(self) -> GraphCapture:
        self.graph.reset()
        GraphCapture.current = self
        return super().__enter__()

    def __exit__(self, *error: Any) -> None:
        GraphCapture.current = None
        super().__exit__(*error)
        self._before.restore()

    def __torch_dispatch__(self, func: Any, types: Any, args: tuple = (), kwargs: Any = None) -> Any:
        if func in _WAITING:
            refuse_in_capture()
        kwargs = kwargs or {}
        return self.record(lambda: func(*args, **kwargs), written_by(func, args, kwargs))

    def record_call(self, name: Any, call: Callable[[], Any], arguments: Iterable[Any]) -> Any:
        """Records a kernel's call. A repeated one (a benchmark captures hundreds) only gets memory for its results, till replays.

        Args:
            name: equal for calls that do the same.
            call: makes it.
            arguments: of the call.
        """
        before, last = self.last

        def results() -> Any:
            return pytree.tree_map_only(torch.Tensor, torch.empty_like, last)

        result = self.record(call, arguments, results if name == before else call)
        self.last = (name, result)
        return result

    def record(self, work: Callable[[], Any], written: Iterable[Any], first: Callable[[], Any] | None = None) -> Any:
        """Does some work, whose results each replay computes again in the same memory.

        Args:
            work: does it.
            written: values among which are the tensors that it may write to.
            first: gives where its results go, instead of doing it now.
        """
        with _disable_current_modes():  # neither copies nor what a kernel allocates are steps of the graph
            self._before.keep(written)
            result = (first or work)()
        self.graph.steps.append(lambda: write_into(result, work()))
        return result


_WAITING = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default}
"""Operations for whose results the host waits."""


def refuse_in_capture() -> None:
    """What the host waits for is no part of a graph.

    Raises:
        RuntimeError: in CUDA's words, while one is captured.
    """
    if GraphCapture.current is not None:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
