"""Kernel calls of a program on the virtual device.

A program that measures a kernel calls it a hundred times with the same arguments. On a simulator that is a hundred times the work
for a meaningless number. So a call that is measured runs a few times, and later calls give the last result.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from tilelang.simulator.session import traced
from tilelang.simulator.virtual.events import AnyEvent
from tilelang.simulator.virtual.graphs import GraphCapture
from tilelang.simulator.virtual.models import DEFAULT

if TYPE_CHECKING:
    from tilelang.simulator.report import Report


class Launches:
    """Decides which calls are made.

    Attributes:
        repeat: how often the same call is made while events measure it.
        made, left_out: calls so far.
    """

    def __init__(self, repeat: int = 3, device: str = DEFAULT):
        self.repeat = repeat
        self.device = device
        self.made = self.left_out = 0
        self._of_call: float | None = None  # seconds of the last call, where it was modelled
        self._modelled: dict[str, float] = {}
        self._last: tuple[Any, ...] = ()
        self._times = 0
        self._result: Any = None

    def call(self, kernel: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A kernel's call, or the result of an earlier call with the same arguments.

        Args:
            kernel: what is called.
            args, kwargs: its arguments; tensors are the same where their memory and version are.
        """
        capture = GraphCapture.current
        if capture is None:
            return self._repeated(kernel, args, kwargs)
        values = (*args, *kwargs.values())
        return capture.record_call(_named(kernel, args, kwargs), lambda: self._repeated(kernel, args, kwargs), values)

    def _repeated(self, kernel: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call, or a replayed one, that is left out where it is measured and was made often enough."""
        clock = AnyEvent.clock
        same = _named(kernel, args, kwargs)
        self._times = self._times + 1 if clock.measuring and same == self._last else 1
        # A clock that models must have the time of one call before others can be left out.
        if self._times > self.repeat and not (clock.models and self._of_call is None):
            self.left_out += 1
            clock.modelled += self._of_call or 0.0
            return self._result
        self.made += 1
        result = self._make(kernel, args, kwargs)
        # Kept only where it may be asked for again, since a program may count the memory that is in use.
        self._last, self._result = (same, result) if clock.measuring else ((), None)
        return result

    def _make(self, kernel: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> Any:
        """A call that is really made, traced where it is to be modelled."""
        if not AnyEvent.clock.models:
            self._of_call = None
            return kernel(*args, **kwargs)
        before = AnyEvent.clock.modelled
        with traced():
            result = kernel(*args, **kwargs)
        self._of_call = AnyEvent.clock.modelled - before
        return result

    def model(self, report: Report) -> None:
        """Lets the clock go on by what the model says of a traced launch; asks once for launches of the same sizes."""
        from tilelang.simulator.timing import estimate

        key = json.dumps([report.kernel, id(report.sources), report.launch])
        if key not in self._modelled:
            self._modelled[key] = estimate(report, self.device).seconds
        AnyEvent.clock.modelled += self._modelled[key]


def _named(kernel: Callable[..., Any], args: tuple, kwargs: dict[str, Any]) -> tuple[Any, ...]:
    """What is equal for calls of one kernel with the same arguments."""
    with torch._C.DisableTorchFunction():  # where a tensor is does not matter
        return (kernel, *map(_identity, args), *((name, _identity(value)) for name, value in kwargs.items()))


def _identity(value: Any) -> Any:
    """The identity of an argument: a tensor's memory and version counter, or the value itself."""
    if not isinstance(value, torch.Tensor):
        return value
    if value.is_inference():
        return object()  # it counts no versions, so that a change would not be noticed
    return (value.data_ptr(), value.shape, value.dtype, value._version)
