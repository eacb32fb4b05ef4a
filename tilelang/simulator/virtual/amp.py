"""Automatic mixed precision of the virtual device: that of the CPU, on which its operations are computed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.amp.autocast_mode import autocast


def replacements() -> list[tuple[Any, str, Any]]:
    """(owner, name, value): what of torch's autocast is another while the device is there."""
    queries = ("is_autocast_enabled", "get_autocast_dtype", "set_autocast_enabled", "set_autocast_dtype")
    of_torch = [(torch, name, _for_cpu(getattr(torch, name))) for name in queries]
    of_torch.append((torch, "get_autocast_gpu_dtype", lambda: torch.get_autocast_dtype(_CPU)))
    return [(autocast, "__init__", _for_region(autocast.__init__)), *of_torch]


@contextlib.contextmanager
def half_by_default() -> Iterator[None]:
    """Autocast computes in float16 where a program says nothing, as on CUDA; the CPU's own default is bfloat16."""
    before = torch.get_autocast_dtype("cpu")
    torch.set_autocast_dtype("cpu", torch.float16)
    try:
        yield
    finally:
        torch.set_autocast_dtype("cpu", before)


def _for_region(initialise: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, device_type: str, *args: Any, **kwargs: Any) -> None:
        if device_type == _CPU and not args:
            kwargs.setdefault("dtype", torch.bfloat16)  # its own default
        initialise(self, _CPU if device_type == "cuda" else device_type, *args, **kwargs)

    return init


def _for_cpu(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the kind of device that takes the CPU for CUDA; without an argument torch means CUDA."""

    def call(*args: Any) -> Any:
        if not args or not isinstance(args[0], str):
            return function(_CPU, *args)
        return function(_CPU if args[0] == "cuda" else args[0], *args[1:])

    return call


_CPU = "cpu"
