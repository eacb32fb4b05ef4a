"""How many virtual devices there are, which one is a thread's current one, and what names one."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import torch


class _State(threading.local):
    """A thread's current device; each begins with the first one, as CUDA's do."""

    index = 0


_state = _State()
_count = 1


@contextlib.contextmanager
def there_are(count: int) -> Iterator[None]:
    """While this lasts there are so many devices."""
    global _count
    before, _count, index, _state.index = _count, count, _state.index, 0
    try:
        yield
    finally:
        _count, _state.index = before, index


def count() -> int:
    """How many there are."""
    return _count


def current() -> int:
    """The index of this thread's current device."""
    return _state.index


def choose(index: int) -> None:
    """Makes a device this thread's current one."""
    _state.index = index


@contextlib.contextmanager
def chosen(index: int | None) -> Iterator[None]:
    """While this lasts a device is the current one; None leaves it as it is."""
    before = _state.index
    _state.index = before if index is None else index
    try:
        yield
    finally:
        _state.index = before


def named(index: int) -> torch.device:
    """The device of an index."""
    return torch.device("cuda", index)


def index_of(device: Any) -> int | None:
    """The index of a virtual device; None for another one.

    Args:
        device: a string, an index or a ``torch.device``; one without an index is the current device.

    Raises:
        RuntimeError: in CUDA's words, for one that is not there.
    """
    if not isinstance(device, int):
        found = torch.device(device)
        if found.type != "cuda":
            return None
        device = -1 if found.index is None else found.index
    if device >= _count:
        raise RuntimeError("CUDA error: invalid device ordinal")
    return _state.index if device < 0 else device
