"""Graphs of the virtual device: what was done while one was captured is done again on the same memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from tilelang.simulator.virtual.placement import tensors_of


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
        last: what names the last call of a kernel, and its result.
    """

    current: GraphCapture | None = None

    def __init__(self, cuda_graph: CUDAGraph, pool: Any = None, stream: Any = None, capture_error_mode: str = "global"):
        super().__init__()
        self.graph = cuda_graph
        self.last: tuple[Any, Any] = (None, None)
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
        if func in _WAITING:
            refuse_in_capture()
        named = {**dict(zip((each.name for each in func._schema.arguments), args)), **(kwargs or {})}
        into = [each.name for each in func._schema.arguments if each.alias_info is not None and each.alias_info.is_write]
        return self.record(lambda: func(*args, **(kwargs or {})), [named.get(name) for name in into])

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
            for tensor in tensors_of(written):
                storage = tensor.untyped_storage()
                if storage._cdata not in self._before:
                    self._before[storage._cdata] = (storage, storage.clone())
            result = (first or work)()
        self.graph.steps.append(lambda: _write(work(), result))
        return result


def _write(again: Any, first: Any) -> None:
    """Puts the tensors of a repeated call where those of the captured one are."""
    if isinstance(first, torch.Tensor):
        with torch._C.DisableTorchFunction():  # the device has no such copy, whose time would count
            if again is not first and again.data_ptr() != first.data_ptr():
                first.copy_(again)
    elif isinstance(first, (tuple, list)):
        for new, old in zip(again, first, strict=True):
            _write(new, old)


_WAITING = {torch.ops.aten._local_scalar_dense.default, torch.ops.aten.nonzero.default, torch.ops.aten.masked_select.default}
"""Operations for whose results the host waits."""


def refuse_in_capture() -> None:
    """What the host waits for is no part of a graph.

    Raises:
        RuntimeError: in CUDA's words, while one is captured.
    """
    if GraphCapture.current is not None:
        raise RuntimeError("CUDA error: operation not permitted when stream is capturing")
