"""Measuring how long a call takes: events on a GPU, medians of the wall clock on a CPU."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from tilelang.attributes import attributes
from tilelang.ignored import ignored, unless
from tilelang.keywords import near_keywords
from tilelang.simulator.virtual import active

__getattr__ = attributes(__name__, {"tilelang.utils.device": "Event IS_CUDA device=get_current_device device_synchronize"})

_REDUCTIONS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "min": torch.min,
    "max": torch.max,
    "mean": torch.mean,
    "median": torch.median,
}

_FLUSH_MIB = 256
"""Larger than any L2 cache."""


@near_keywords
def do_bench(
    fn: Callable[[], Any],
    warmup: float = 25,
    rep: float = 100,
    _n_warmup: int = 0,
    _n_repeat: int = 0,
    quantiles: Sequence[float] | None = None,
    fast_flush: bool = True,
    backend: str = "event",
    return_mode: str = "mean",
    device: Any = None,
    cache_size: int = _FLUSH_MIB,
    early_stop_baseline: float | None = None,
) -> float | list[float]:
    """Milliseconds that a call takes.

    Args:
        fn: the call, without arguments.
        warmup, rep: milliseconds to spend before and while measuring; ``_n_warmup`` and ``_n_repeat`` fix counts instead.
        quantiles: give these quantiles instead of one number.
        fast_flush: clear the L2 cache by a fill of integers (kept for compatibility; always done on a GPU).
        backend: ``"event"``, ``"cudagraph"`` or ``"wall"``; ``"cupti"`` is ``"event"``; a CPU is always measured by the wall
            clock.
        return_mode: ``"min"``, ``"max"``, ``"mean"`` or ``"median"``; a CPU gives medians unless another is asked for.
        device: where the call runs; a CPU is measured by the wall clock although there is a GPU.
        cache_size: mebibytes that are written before each call on a GPU, so that nothing of the last one is left in its L2 cache.
        early_stop_baseline: give up (returning infinity) where one estimate is slower than this many milliseconds.

    Returns:
        Milliseconds; a list of them where several quantiles are asked for.

    Raises:
        ValueError: unknown ``return_mode`` or ``backend``; a negative time or number of calls.
    """
    ignored("do_bench", fast_flush=unless(True, fast_flush))
    _check_mode(return_mode)
    if backend not in CLOCKS:
        raise ValueError(f"backend={backend!r} is none of {', '.join(CLOCKS)}")
    if warmup < 0 or rep < 0:
        raise ValueError(f"warmup={warmup!r} and rep={rep!r} are milliseconds, which are not negative")
    if _n_warmup < 0 or _n_repeat < 0:
        raise ValueError(f"{_n_warmup!r} calls before and {_n_repeat!r} while measuring: numbers of calls are not negative")
    on_gpu = torch.cuda.is_available() and _uses_gpu(device) and backend != "wall"
    measure = functools.partial(CLOCKS[backend], cache_size=cache_size) if on_gpu else _wall_times
    virtual = active.current()
    if virtual is not None:  # time by a model: more calls say nothing new, and there is no cache to flush
        _n_warmup, _n_repeat = _n_warmup or 1, _n_repeat or virtual.launches.repeat
    with on_device(device if on_gpu else None):  # events are those of the current device
        fn()
        # The first call, which may compile and load the kernel, is over.
        estimate = max(1e-4, float(measure(fn, 3).median()))
        if early_stop_baseline is not None and estimate > early_stop_baseline:
            return math.inf
        for _ in range(_n_warmup or max(1, int(warmup / estimate))):
            fn()
        times = measure(fn, _n_repeat or max(3, int(rep / estimate)))
    return _reduced(times, quantiles, "median" if measure is _wall_times and return_mode == "mean" else return_mode)


def device_of(arguments: Sequence[Any]) -> Any:
    """The GPU on which a call with these arguments runs: that of its tensors, else the current one; None where there is none."""
    if not torch.cuda.is_available():
        return None
    places = (value.device for value in arguments if isinstance(value, torch.Tensor) and value.is_cuda)
    return next(places, None) or torch.device("cuda", torch.cuda.current_device())


def on_device(device: Any) -> contextlib.AbstractContextManager[Any]:
    """A GPU as the current one of this thread; None, and one without a number, leave it as it is."""
    numbered = device is not None and (isinstance(device, int) or torch.device(device).index is not None)
    return torch.cuda.device(device) if numbered else contextlib.nullcontext()


def _check_mode(return_mode: str) -> None:
    if return_mode not in _REDUCTIONS:
        raise ValueError(f"return_mode={return_mode!r} is none of {', '.join(_REDUCTIONS)}")


def _reduced(times: torch.Tensor, quantiles: Sequence[float] | None, return_mode: str) -> float | list[float]:
    """The number or numbers that are asked for."""
    if quantiles is not None:
        found = torch.quantile(times, torch.tensor(list(quantiles), dtype=times.dtype)).tolist()
        return found[0] if len(found) == 1 else found
    return float(_REDUCTIONS[return_mode](times))


def bench_with_wall(
    fn: Callable[[], Any], n_repeat: int, quantiles: Sequence[float] | None = None, return_mode: str = "mean",
    synchronize: Callable[[], Any] | None = None,
) -> float | list[float]:  # fmt: skip
    """Milliseconds that each of ``n_repeat`` calls takes by the wall clock.

    Args:
        fn: the call, without arguments.
        n_repeat: how often it is measured.
        quantiles, return_mode: as for :func:`do_bench`.
        synchronize: waits until the call is complete, such as ``torch.cuda.synchronize``; nothing by default.

    Returns:
        Milliseconds; a list of them where several quantiles are asked for.

    Raises:
        ValueError: unknown ``return_mode``.
    """
    _check_mode(return_mode)
    wait = synchronize or (lambda: None)
    wait()
    return _reduced(_wall_times(lambda: (fn(), wait()), n_repeat), quantiles, return_mode)


class suppress_stdout_stderr:
    """``with suppress_stdout_stderr():`` nothing is written to the terminal, by native code neither."""

    def __enter__(self) -> suppress_stdout_stderr:
        self._streams = sys.stdout, sys.stderr
        for stream in self._streams:
            stream.flush()
        self._saved = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
        self._nowhere = open(os.devnull, "w")
        for descriptor, _ in self._saved:
            os.dup2(self._nowhere.fileno(), descriptor)
        sys.stdout = sys.stderr = self._nowhere
        return self

    def __exit__(self, *_: object) -> None:
        sys.stdout, sys.stderr = self._streams
        self._nowhere.close()
        for descriptor, saved in self._saved:
            os.dup2(saved, descriptor)
            os.close(saved)


def _uses_gpu(device: Any) -> bool:
    return device is None or torch.device(device).type == "cuda"


def _wall_times(fn: Callable[[], Any], count: int) -> torch.Tensor:
    clock = time.perf_counter_ns
    times = []
    for _ in range(count):
        start = clock()
        fn()
        times.append((clock() - start) / 1e6)
    return torch.tensor(times, dtype=torch.float64)


def _event_times(fn: Callable[[], Any], count: int, cache_size: int) -> torch.Tensor:
    # 2**18 integers of four bytes are a mebibyte.
    flush = torch.empty(0 if active.current() else cache_size * 2**18, dtype=torch.int32, device="cuda")
    starts = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    ends = [torch.cuda.Event(enable_timing=True) for _ in range(count)]
    for start, end in zip(starts, ends):
        flush.zero_()
        start.record()
        fn()
        end.record()
    torch.cuda.synchronize()
    return torch.tensor([s.elapsed_time(e) for s, e in zip(starts, ends)], dtype=torch.float64)


def _graph_times(fn: Callable[[], Any], count: int, cache_size: int) -> torch.Tensor:
    """Like :func:`_event_times`, with the call captured in a CUDA graph so that launch gaps do not count."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        fn()
    return _event_times(graph.replay, count, cache_size)


CLOCKS: dict[str, Callable[..., torch.Tensor]] = {
    "event": _event_times,
    "cupti": _event_times,
    "cudagraph": _graph_times,
    "wall": _wall_times,
}
